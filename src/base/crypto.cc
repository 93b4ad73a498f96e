#include "base/crypto.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/sha.h>

#include <cstring>
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

using CrcTables = std::array<std::array<uint32_t, 256>, 8>;

// One table for each of eight bytes that are taken at a time.
constexpr CrcTables MakeCrcTables() {
  constexpr uint32_t kPolynomial = 0x82F63B78;  // of Castagnoli, its bits in reverse
  CrcTables tables = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    }
    tables[0][byte] = crc;
  }
  for (std::size_t table = 1; table < tables.size(); ++table) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[table - 1][byte];
      tables[table][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}
constexpr CrcTables kCrcTables = MakeCrcTables();

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

uint32_t Crc32c(absl::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (; bytes.size() >= sizeof(uint64_t); bytes.remove_prefix(sizeof(uint64_t))) {
    uint64_t word = 0;  // its first byte lowest, as on all machines that this runs on
    std::memcpy(&word, bytes.data(), sizeof(word));
    word ^= crc;
    crc = 0;
    for (std::size_t i = 0; i < sizeof(uint64_t); ++i) {
      crc ^= kCrcTables[7 - i][(word >> (8 * i)) & 0xFF];
    }
  }
  for (const char byte : bytes) {
    crc = (crc >> 8) ^ kCrcTables[0][(crc ^ static_cast<uint8_t>(byte)) & 0xFF];
  }
  return ~crc;
}

bool IsLowerHex(absl::string_view text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

}  // namespace csidelta
