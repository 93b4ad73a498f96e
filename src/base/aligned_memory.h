#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "base/check.h"

namespace csidelta {

// What memory, offsets and lengths of direct I/O are aligned to: enough for every device.
inline constexpr int64_t kIoAlignmentBytes = 4096;

inline constexpr int64_t RoundDown(int64_t bytes, int64_t unit_bytes) {
  return bytes / unit_bytes * unit_bytes;
}
inline constexpr int64_t RoundUp(int64_t bytes, int64_t unit_bytes) {
  return RoundDown(bytes + unit_bytes - 1, unit_bytes);
}

struct FreeMemory {
  void operator()(uint8_t* memory) const { std::free(memory); }
};
// Memory that direct I/O takes, not initialised.
using AlignedMemory = std::unique_ptr<uint8_t[], FreeMemory>;

// REQUIRES size_bytes > 0. What it holds is rounded up to kIoAlignmentBytes.
inline AlignedMemory AllocateAligned(int64_t size_bytes) {
  AlignedMemory memory(static_cast<uint8_t*>(
      std::aligned_alloc(static_cast<std::size_t>(kIoAlignmentBytes),
                         static_cast<std::size_t>(RoundUp(size_bytes, kIoAlignmentBytes)))));
  CSIDELTA_CHECK(size_bytes > 0 && memory != nullptr);
  return memory;
}

}  // namespace csidelta
