#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace csidelta {

// AES-256-CTR with Poly1305-AES over the ciphertext: the primitives of an envelope, on OpenSSL
// contexts that are made once and used again. Thread-compatible: one per thread. Out of memory
// inside the library stops the process.
class CtrPoly1305 {
 public:
  struct Key {
    std::array<uint8_t, 32> encrypt{};
    std::array<uint8_t, 16> mac_k{};
    std::array<uint8_t, 16> mac_r{};  // As stored; clamped when used.
  };
  static constexpr std::size_t kIvBytes = 16;
  static constexpr std::size_t kTagBytes = 16;
  using Iv = std::array<uint8_t, kIvBytes>;
  using Tag = std::array<uint8_t, kTagBytes>;

  explicit CtrPoly1305(const Key& key);
  ~CtrPoly1305();
  CtrPoly1305(CtrPoly1305&&) noexcept;
  CtrPoly1305& operator=(CtrPoly1305&&) noexcept;

  // Encrypts and decrypts alike. `out` has room for `in.size()` bytes and is `in` or apart from it.
  void Crypt(const Iv& iv, absl::Span<const uint8_t> in, uint8_t* out);

  // Poly1305 of `ciphertext` under (mac_r, AES-128 of `iv` with mac_k).
  Tag Mac(const Iv& iv, absl::Span<const uint8_t> ciphertext);

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;
};

// Whether two byte strings are equal, in a time that depends on their length only.
bool ConstantTimeEqual(absl::Span<const uint8_t> a, absl::Span<const uint8_t> b);

struct ScryptParameters {
  uint64_t n = 0;  // A power of two above 1.
  uint32_t r = 0;
  uint32_t p = 0;
};

// Fills `out` with scrypt(password, salt). Needs about 128 * n * r bytes. INVALID_ARGUMENT when the
// library refuses the parameters or they need more than `memory_bytes_max`.
absl::Status DeriveScrypt(absl::string_view password, absl::Span<const uint8_t> salt,
                          const ScryptParameters& parameters, uint64_t memory_bytes_max,
                          absl::Span<uint8_t> out);

}  // namespace csidelta
