#pragma once

#include <cstdint>

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

}  // namespace csidelta
