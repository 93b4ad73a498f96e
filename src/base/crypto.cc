#include "base/crypto.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/sha.h>

#include <memory>

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

struct RsaDeleter {
  void operator()(BIO* memory) const { BIO_free(memory); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

// Without it the library asks for a passphrase on the terminal.
int NoPassphrase(char*, int, int, void*) { return -1; }

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

absl::StatusOr<std::string> SignRsaSha256(const std::string& pem, absl::string_view message,
                                          RsaPadding padding) {
  const std::unique_ptr<BIO, RsaDeleter> memory(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  const std::unique_ptr<EVP_PKEY, RsaDeleter> key(
      PEM_read_bio_PrivateKey(memory.get(), nullptr, NoPassphrase, nullptr));
  if (key == nullptr || EVP_PKEY_is_a(key.get(), "RSA") != 1) {
    return absl::InvalidArgumentError("no RSA private key without a passphrase, as PEM");
  }
  const std::unique_ptr<EVP_MD_CTX, RsaDeleter> context(EVP_MD_CTX_new());
  EVP_PKEY_CTX* options = nullptr;
  const auto* const text = reinterpret_cast<const unsigned char*>(message.data());
  std::string signature(static_cast<std::size_t>(EVP_PKEY_get_size(key.get())), '\0');
  std::size_t size_bytes = signature.size();
  const bool is_signed =
      EVP_DigestSignInit(context.get(), &options, Sha256Algorithm(), nullptr, key.get()) == 1 &&
      (padding == RsaPadding::kPkcs1 ||
       (EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING) == 1 &&
        EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST) == 1)) &&
      EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size_bytes,
                     text, message.size()) == 1;
  if (!is_signed) {
    return absl::InvalidArgumentError("the RSA key cannot sign");
  }
  signature.resize(size_bytes);
  return signature;
}

bool IsLowerHex(absl::string_view text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

}  // namespace csidelta
