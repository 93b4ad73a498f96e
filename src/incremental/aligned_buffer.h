#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "absl/strings/string_view.h"
#include "base/check.h"

namespace csidelta::incremental {

// What memory and lengths of direct I/O are aligned to: enough for every device.
inline constexpr int64_t kIoAlignmentBytes = 4096;

inline constexpr int64_t RoundUp(int64_t bytes, int64_t unit_bytes) {
  return (bytes + unit_bytes - 1) / unit_bytes * unit_bytes;
}

// Memory for direct I/O, not initialised. Its capacity is a multiple of kIoAlignmentBytes.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // REQUIRES size_bytes > 0.
  explicit AlignedBuffer(int64_t size_bytes)
      : capacity_bytes_(RoundUp(size_bytes, kIoAlignmentBytes)),
        memory_(static_cast<uint8_t*>(
            std::aligned_alloc(kIoAlignmentBytes, static_cast<std::size_t>(capacity_bytes_)))) {
    CSIDELTA_CHECK(size_bytes > 0 && memory_ != nullptr);
  }

  uint8_t* data() const { return memory_.get(); }
  int64_t capacity_bytes() const { return capacity_bytes_; }

  absl::string_view View(int64_t length_bytes) const {
    return {reinterpret_cast<const char*>(memory_.get()), static_cast<std::size_t>(length_bytes)};
  }
  std::span<uint8_t> Span(int64_t length_bytes) const {
    return {memory_.get(), static_cast<std::size_t>(length_bytes)};
  }

 private:
  struct Free {
    void operator()(uint8_t* memory) const { std::free(memory); }
  };

  int64_t capacity_bytes_ = 0;
  std::unique_ptr<uint8_t, Free> memory_;
};

// Whether all bytes are zero. Stops at the first that is not. Pure.
bool IsZero(absl::string_view bytes);

}  // namespace csidelta::incremental
