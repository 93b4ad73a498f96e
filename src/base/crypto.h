#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace csidelta {

// SHA-256 of `bytes` as 64 lower-case hexadecimal digits.
std::string Sha256Hex(absl::string_view bytes);
// Whether `text` is that many lower-case hexadecimal digits.
bool IsLowerHex(absl::string_view text, std::size_t digits);

using Sha256Digest = std::array<uint8_t, 32>;

Sha256Digest Sha256(absl::string_view bytes);

// SHA-256 of bytes that come piece by piece. Thread-compatible.
class Sha256Hasher {
 public:
  Sha256Hasher();
  ~Sha256Hasher();
  Sha256Hasher(Sha256Hasher&&) noexcept;
  Sha256Hasher& operator=(Sha256Hasher&&) noexcept;

  void Update(absl::string_view bytes);

  // Update(bytes), and returns the digest of `message`, which has nothing to do with it: for the
  // price of little more than one of them, where the processor can take two at a time.
  Sha256Digest UpdateBeside(absl::string_view bytes, absl::string_view message);

  // The digest of all since the last Finish(); starts over.
  Sha256Digest Finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// SHA-256 of two messages, for the price of little more than one.
std::pair<Sha256Digest, Sha256Digest> Sha256OfTwo(absl::string_view first,
                                                  absl::string_view second);

// HMAC-SHA-256 (RFC 2104) of `message`. The digest is raw bytes, so that it may be the next key.
Sha256Digest HmacSha256(absl::string_view key, absl::string_view message);

// MD5 of `bytes`, raw, for services that ask for it; "" where the library is forbidden to compute
// it (FIPS). Proves nothing against anyone who wants to cheat.
std::string Md5(absl::string_view bytes);

// How an RSA signature over SHA-256 is padded: JSON Web Signatures call them RS256 and PS256.
enum class RsaPadding { kPkcs1, kPss };

// The raw signature of `message` by the first private key in `pem` (PKCS #1 or #8). Of kPss the
// salt is as long as the hash. INVALID_ARGUMENT for what holds no RSA key, or one with a
// passphrase; the message does not repeat it.
absl::StatusOr<std::string> SignRsaSha256(const std::string& pem, absl::string_view message,
                                          RsaPadding padding);

// The CRC of Castagnoli (RFC 3720, appendix B.4) of `bytes`.
uint32_t Crc32c(absl::string_view bytes);

// The CRC of NVM Express, of Rocksoft's model (NVM Command Set 1.0, 5.2.1.3.4).
uint64_t Crc64(absl::string_view bytes);

// The bytes of `digest`, borrowed.
inline absl::string_view AsBytes(const Sha256Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace csidelta
