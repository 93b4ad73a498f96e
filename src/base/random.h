#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace csidelta {

// Where chance comes from, as a parameter. Thread-safe.
class Random {
 public:
  virtual ~Random() = default;

  // A number from [0, bound). REQUIRES bound > 0.
  virtual uint64_t Below(uint64_t bound) = 0;

  // Seeded by the system; lives for ever.
  static Random& Real();
};

// Bytes that cannot be guessed, for keys and IVs. A parameter for the sake of test vectors only.
// Thread-safe.
class SecureRandom {
 public:
  virtual ~SecureRandom() = default;

  virtual void Fill(absl::Span<uint8_t> bytes) = 0;

  // The crypto library's generator; lives for ever. Stops the process when it fails: there is no
  // going on with bytes that can be guessed.
  static SecureRandom& Real();
};

}  // namespace csidelta
