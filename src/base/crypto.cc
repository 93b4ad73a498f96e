#include "base/crypto.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include "absl/strings/escaping.h"
#include "base/check.h"

namespace csidelta {

std::string Sha256Hex(absl::string_view bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
}

namespace {

// Fetched once: the library's one-shot function searches by name each time.
const EVP_MD* Sha256Algorithm() {
  static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  CSIDELTA_CHECK(algorithm != nullptr);
  return algorithm;
}

}  // namespace

Sha256Digest Sha256(absl::string_view bytes) {
  Sha256Digest digest;
  CSIDELTA_CHECK(EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, Sha256Algorithm(),
                            nullptr) == 1);
  return digest;
}

Sha256Digest HmacSha256(absl::string_view key, absl::string_view message) {
  Sha256Digest digest;
  CSIDELTA_CHECK(HMAC(Sha256Algorithm(), key.data(), static_cast<int>(key.size()),
                      reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                      digest.data(), nullptr) != nullptr);
  return digest;
}

std::string Md5(absl::string_view bytes) {
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned int size_bytes = 0;
  const int done =
      EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()),
                 &size_bytes, EVP_md5(), nullptr);
  digest.resize(done == 1 ? size_bytes : 0);
  return digest;
}

bool IsLowerHex(absl::string_view text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

}  // namespace csidelta
