#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace csidelta {

// SHA-256 of `bytes` as 64 lower-case hexadecimal digits.
std::string Sha256Hex(absl::string_view bytes);

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
  // The digest of all since the last Finish(); starts over.
  Sha256Digest Finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace csidelta
