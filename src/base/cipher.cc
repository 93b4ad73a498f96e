#include "base/cipher.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <algorithm>

#include "base/check.h"

namespace csidelta {
namespace {

// EVP_EncryptUpdate() takes an int.
constexpr std::size_t kCryptBytesMax = std::size_t{1} << 30;

struct CipherContextDeleter {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
struct MacContextDeleter {
  void operator()(EVP_MAC_CTX* context) const { EVP_MAC_CTX_free(context); }
};
struct KdfContextDeleter {
  void operator()(EVP_KDF_CTX* context) const { EVP_KDF_CTX_free(context); }
};

// Fetched once for the process: a fetch takes a lock and searches by name.
struct Algorithms {
  EVP_CIPHER* ctr = EVP_CIPHER_fetch(nullptr, "AES-256-CTR", nullptr);
  EVP_CIPHER* ecb = EVP_CIPHER_fetch(nullptr, "AES-128-ECB", nullptr);
  EVP_MAC* poly1305 = EVP_MAC_fetch(nullptr, "POLY1305", nullptr);
  EVP_KDF* scrypt = EVP_KDF_fetch(nullptr, "SCRYPT", nullptr);
};

const Algorithms& GetAlgorithms() {
  static const Algorithms algorithms;
  CSIDELTA_CHECK(algorithms.ctr != nullptr && algorithms.ecb != nullptr);
  CSIDELTA_CHECK(algorithms.poly1305 != nullptr && algorithms.scrypt != nullptr);
  return algorithms;
}

}  // namespace

struct CtrPoly1305::Contexts {
  std::unique_ptr<EVP_CIPHER_CTX, CipherContextDeleter> ctr{EVP_CIPHER_CTX_new()};
  std::unique_ptr<EVP_CIPHER_CTX, CipherContextDeleter> ecb{EVP_CIPHER_CTX_new()};
  std::unique_ptr<EVP_MAC_CTX, MacContextDeleter> mac;
  std::array<uint8_t, 16> mac_r{};

  ~Contexts() { OPENSSL_cleanse(mac_r.data(), mac_r.size()); }
};

CtrPoly1305::CtrPoly1305(const Key& key) : contexts_(std::make_unique<Contexts>()) {
  const Algorithms& algorithms = GetAlgorithms();
  contexts_->mac.reset(EVP_MAC_CTX_new(algorithms.poly1305));
  contexts_->mac_r = key.mac_r;
  CSIDELTA_CHECK(contexts_->ctr != nullptr && contexts_->ecb != nullptr);
  CSIDELTA_CHECK(contexts_->mac != nullptr);
  CSIDELTA_CHECK(EVP_EncryptInit_ex2(contexts_->ctr.get(), algorithms.ctr, key.encrypt.data(),
                                     nullptr, nullptr) == 1);
  CSIDELTA_CHECK(EVP_EncryptInit_ex2(contexts_->ecb.get(), algorithms.ecb, key.mac_k.data(),
                                     nullptr, nullptr) == 1);
  CSIDELTA_CHECK(EVP_CIPHER_CTX_set_padding(contexts_->ecb.get(), 0) == 1);
}

CtrPoly1305::~CtrPoly1305() = default;
CtrPoly1305::CtrPoly1305(CtrPoly1305&&) noexcept = default;
CtrPoly1305& CtrPoly1305::operator=(CtrPoly1305&&) noexcept = default;

void CtrPoly1305::Crypt(const Iv& iv, absl::Span<const uint8_t> in, uint8_t* out) {
  EVP_CIPHER_CTX* ctr = contexts_->ctr.get();
  CSIDELTA_CHECK(EVP_EncryptInit_ex2(ctr, nullptr, nullptr, iv.data(), nullptr) == 1);
  for (std::size_t done = 0; done < in.size();) {
    const std::size_t piece = std::min(in.size() - done, kCryptBytesMax);
    int written = 0;
    CSIDELTA_CHECK(EVP_EncryptUpdate(ctr, out + done, &written, in.data() + done,
                                     static_cast<int>(piece)) == 1);
    CSIDELTA_CHECK(static_cast<std::size_t>(written) == piece);
    done += piece;
  }
}

CtrPoly1305::Tag CtrPoly1305::Mac(const Iv& iv, absl::Span<const uint8_t> ciphertext) {
  std::array<uint8_t, 32> one_time;  // r, then AES of the IV.
  std::copy(contexts_->mac_r.begin(), contexts_->mac_r.end(), one_time.begin());
  int written = 0;
  CSIDELTA_CHECK(EVP_EncryptUpdate(contexts_->ecb.get(), one_time.data() + 16, &written, iv.data(),
                                   static_cast<int>(iv.size())) == 1);
  CSIDELTA_CHECK(written == 16);
  EVP_MAC_CTX* mac = contexts_->mac.get();
  CSIDELTA_CHECK(EVP_MAC_init(mac, one_time.data(), one_time.size(), nullptr) == 1);
  CSIDELTA_CHECK(EVP_MAC_update(mac, ciphertext.data(), ciphertext.size()) == 1);
  Tag tag;
  std::size_t tag_bytes = 0;
  CSIDELTA_CHECK(EVP_MAC_final(mac, tag.data(), &tag_bytes, tag.size()) == 1);
  CSIDELTA_CHECK(tag_bytes == tag.size());
  OPENSSL_cleanse(one_time.data(), one_time.size());
  return tag;
}

bool ConstantTimeEqual(absl::Span<const uint8_t> a, absl::Span<const uint8_t> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

absl::Status DeriveScrypt(absl::string_view password, absl::Span<const uint8_t> salt,
                          const ScryptParameters& parameters, uint64_t memory_bytes_max,
                          absl::Span<uint8_t> out) {
  const std::unique_ptr<EVP_KDF_CTX, KdfContextDeleter> context(
      EVP_KDF_CTX_new(GetAlgorithms().scrypt));
  CSIDELTA_CHECK(context != nullptr);
  ScryptParameters values = parameters;  // OpenSSL wants pointers to what it may change.
  uint64_t memory = memory_bytes_max;
  // An empty password needs a pointer that is not null.
  const char* const text = password.empty() ? "" : password.data();
  const OSSL_PARAM arguments[] = {
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_PASSWORD, const_cast<char*>(text),
                                        password.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, const_cast<uint8_t*>(salt.data()),
                                        salt.size()),
      OSSL_PARAM_construct_uint64(OSSL_KDF_PARAM_SCRYPT_N, &values.n),
      OSSL_PARAM_construct_uint32(OSSL_KDF_PARAM_SCRYPT_R, &values.r),
      OSSL_PARAM_construct_uint32(OSSL_KDF_PARAM_SCRYPT_P, &values.p),
      OSSL_PARAM_construct_uint64(OSSL_KDF_PARAM_SCRYPT_MAXMEM, &memory),
      OSSL_PARAM_construct_end()};
  if (EVP_KDF_derive(context.get(), out.data(), out.size(), arguments) != 1) {
    return absl::InvalidArgumentError("scrypt parameters refused");
  }
  return absl::OkStatus();
}

}  // namespace csidelta
