#pragma once

#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"
#include "base/aligned_memory.h"

namespace csidelta::incremental {

// Memory for direct I/O, not initialised. Its capacity is a multiple of kIoAlignmentBytes.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // REQUIRES size_bytes > 0.
  explicit AlignedBuffer(int64_t size_bytes)
      : capacity_bytes_(RoundUp(size_bytes, kIoAlignmentBytes)),
        memory_(AllocateAligned(size_bytes)) {}

  uint8_t* data() const { return memory_.get(); }
  int64_t capacity_bytes() const { return capacity_bytes_; }

  absl::string_view View(int64_t length_bytes) const {
    return {reinterpret_cast<const char*>(memory_.get()), static_cast<std::size_t>(length_bytes)};
  }

 private:
  int64_t capacity_bytes_ = 0;
  AlignedMemory memory_;
};

// Whether all bytes are zero. Stops at the first that is not. Pure.
inline bool IsZero(absl::string_view bytes) {
  // Each byte equals its neighbour and the first is zero.
  return bytes.empty() ||
         (bytes[0] == 0 && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace csidelta::incremental
