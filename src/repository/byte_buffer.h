#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/aligned_memory.h"
#include "repository/blob.h"
#include "repository/sealer.h"

namespace csidelta::repository {

// Bytes that grow at the end, without being zeroed first as a string's are, and that keep their
// memory when emptied: packs are made of them. Aligned for direct I/O. Thread-compatible.
class ByteBuffer {
 public:
  ByteBuffer() = default;
  ByteBuffer(ByteBuffer&& other) noexcept
      : bytes_(std::move(other.bytes_)),
        capacity_(std::exchange(other.capacity_, 0)),
        size_(std::exchange(other.size_, 0)) {}
  ByteBuffer& operator=(ByteBuffer&& other) noexcept {
    bytes_ = std::move(other.bytes_);
    capacity_ = std::exchange(other.capacity_, 0);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  void Reserve(std::size_t capacity) {
    if (capacity > capacity_) {
      AlignedMemory grown = AllocateAligned(static_cast<int64_t>(capacity));
      if (size_ > 0) {
        std::memcpy(grown.get(), bytes_.get(), size_);
      }
      bytes_ = std::move(grown);
      capacity_ = capacity;
    }
  }

  // `count` more bytes at the end, of any value. Valid until the next call that grows.
  absl::Span<uint8_t> Extend(std::size_t count) {
    if (size_ + count > capacity_) {
      Reserve(std::max(size_ + count, capacity_ + capacity_ / 2));
    }
    size_ += count;
    return {bytes_.get() + size_ - count, count};
  }

  void Append(absl::string_view text) {
    if (!text.empty()) {
      std::memcpy(Extend(text.size()).data(), text.data(), text.size());
    }
  }

  // Keeps the first `size` bytes, of at least as many.
  void Truncate(std::size_t size) { size_ = std::min(size_, size); }

  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }
  absl::Span<uint8_t> bytes() { return {bytes_.get(), size_}; }
  absl::string_view view() const { return {reinterpret_cast<const char*>(bytes_.get()), size_}; }

 private:
  AlignedMemory bytes_;
  std::size_t capacity_ = 0;
  std::size_t size_ = 0;
};

// Numbers and ids of packs and sidecars: little-endian, whatever the machine is.

inline void AppendLe32(std::string& out, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) {
    out.push_back(static_cast<char>(static_cast<uint8_t>(value >> shift)));
  }
}

// REQUIRES four bytes at `at`.
inline uint32_t ReadLe32(absl::string_view bytes, std::size_t at) {
  uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value |= uint32_t{static_cast<uint8_t>(bytes[at + i])} << (8 * i);
  }
  return value;
}

inline void AppendId(std::string& out, const Id& id) { absl::StrAppend(&out, AsText(id.bytes())); }

// REQUIRES Id::kBytes bytes at `at`.
inline Id ReadId(absl::string_view bytes, std::size_t at) {
  std::array<uint8_t, Id::kBytes> id;
  std::memcpy(id.data(), bytes.data() + at, id.size());
  return Id(id);
}

}  // namespace csidelta::repository
