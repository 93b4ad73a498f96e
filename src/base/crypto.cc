#include "base/crypto.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <cstring>
#include <memory>

#include "absl/strings/escaping.h"
#include "base/check.h"

namespace csidelta {

std::string Sha256Hex(absl::string_view bytes) {
  return absl::BytesToHexString(AsBytes(Sha256(bytes)));
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

// A CRC whose bits are in reverse: the highest of a register is the coefficient of x^0.
template <typename Word, Word kPolynomial>
struct Crc {
  static constexpr Word TimesPowerOfX(Word crc, int power) {
    for (; power > 0; --power) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    }
    return crc;
  }

  static Word AddBytes(Word crc, absl::string_view bytes) {
    // One table for each of eight bytes that are taken at a time.
    static constexpr auto kTables = [] {
      std::array<std::array<Word, 256>, 8> tables = {};
      for (std::size_t i = 0; i < 8 * 256; ++i) {
        const Word before = i < 256 ? static_cast<Word>(i) : tables[i / 256 - 1][i % 256];
        tables[i / 256][i % 256] = TimesPowerOfX(before, 8);
      }
      return tables;
    }();
    for (; bytes.size() >= sizeof(uint64_t); bytes.remove_prefix(sizeof(uint64_t))) {
      uint64_t word = 0;  // its first byte lowest, as on all machines that this runs on
      std::memcpy(&word, bytes.data(), sizeof(word));
      word ^= crc;
      crc = 0;
      for (std::size_t i = 0; i < sizeof(word); ++i) {
        crc ^= kTables[7 - i][(word >> (8 * i)) & 0xFF];
      }
    }
    for (const char byte : bytes) {
      crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<uint8_t>(byte)) & 0xFF];
    }
    return crc;
  }

#if defined(__x86_64__)
  // Folds all of `bytes` but the last 16 to 31 into these, which have the same CRC from 0 on.
  [[gnu::target("pclmul")]] static Word AddFolded(Word crc, absl::string_view bytes) {
    const auto factor = [](int power) {  // A product of reversed numbers is one x too many.
      const uint64_t reversed = TimesPowerOfX(~(~Word{0} >> 1), power - 1);
      return static_cast<int64_t>(reversed << (64 - 8 * sizeof(Word)));
    };
    const __m128i factors = _mm_set_epi64x(factor(128), factor(192));
    const auto* block = reinterpret_cast<const __m128i*>(bytes.data());
    const auto* const end = block + bytes.size() / sizeof(__m128i);
    __m128i rest = _mm_loadu_si128(block) ^ _mm_set_epi64x(0, static_cast<int64_t>(crc));
    while (++block < end) {
      rest = _mm_clmulepi64_si128(rest, factors, 0x00) ^ _mm_clmulepi64_si128(rest, factors, 0x11) ^
             _mm_loadu_si128(block);
    }
    bytes.remove_prefix(bytes.size() / sizeof(rest) * sizeof(rest));
    return AddBytes(AddBytes(0, {reinterpret_cast<const char*>(&rest), sizeof(rest)}), bytes);
  }
#endif

  static Word Of(absl::string_view bytes) {
#if defined(__x86_64__)
    if (bytes.size() >= sizeof(__m128i) && __builtin_cpu_supports("pclmul") != 0) {
      return ~AddFolded(~Word{0}, bytes);
    }
#endif
    return ~AddBytes(~Word{0}, bytes);
  }
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

uint32_t Crc32c(absl::string_view bytes) { return Crc<uint32_t, 0x82F63B78>::Of(bytes); }

uint64_t Crc64(absl::string_view bytes) { return Crc<uint64_t, 0x9A6C9329AC4BC9B5>::Of(bytes); }

bool IsLowerHex(absl::string_view text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

}  // namespace csidelta
