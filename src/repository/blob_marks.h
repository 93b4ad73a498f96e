#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "repository/index.h"

namespace csidelta::repository {

// A set of blobs that an index knows, by the numbers of their first copies, at one bit per copy in
// that index: for "in use" and "seen" over repositories with tens of millions of blobs.
// Thread-safe.
class BlobMarks {
 public:
  explicit BlobMarks(const BlobIndex& index)
      : words_(static_cast<std::size_t>(index.entry_count()) / kBits + 1) {}

  // Whether it is new.
  bool Mark(uint32_t first) {
    if ((words_[first / kBits].fetch_or(Bit(first)) & Bit(first)) != 0) {
      return false;
    }
    ++count_;
    return true;
  }

  bool Contains(uint32_t first) const { return (words_[first / kBits].load() & Bit(first)) != 0; }

  // Blobs marked.
  int64_t count() const { return count_; }

 private:
  static constexpr uint32_t kBits = 64;
  static uint64_t Bit(uint32_t first) { return uint64_t{1} << (first % kBits); }

  std::vector<std::atomic<uint64_t>> words_;
  std::atomic<int64_t> count_ = 0;
};

}  // namespace csidelta::repository
