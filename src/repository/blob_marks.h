#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "repository/blob.h"
#include "repository/index.h"

namespace csidelta::repository {

// A set of blobs that an index knows, at one bit per copy in that index: for "in use" and "seen"
// over repositories with tens of millions of blobs. The index outlives the marks and does not
// change meanwhile. Thread-safe.
class BlobMarks {
 public:
  enum class Outcome { kNew, kMarkedBefore, kNotInIndex };

  explicit BlobMarks(const BlobIndex& index)
      : index_(index), words_(static_cast<std::size_t>(index.entry_count()) / kBits + 1) {}

  Outcome Mark(const BlobHandle& handle) {
    uint32_t number = 0;
    if (!Find(handle, number)) {
      return Outcome::kNotInIndex;
    }
    const uint64_t before = words_[number / kBits].fetch_or(Bit(number));
    if ((before & Bit(number)) != 0) {
      return Outcome::kMarkedBefore;
    }
    ++count_;
    return Outcome::kNew;
  }

  bool Contains(const BlobHandle& handle) const {
    uint32_t number = 0;
    return Find(handle, number) && (words_[number / kBits].load() & Bit(number)) != 0;
  }

  // Blobs marked.
  int64_t count() const { return count_; }

 private:
  static constexpr uint32_t kBits = 64;
  static uint64_t Bit(uint32_t number) { return uint64_t{1} << (number % kBits); }

  // A blob's bit is that of the copy which the index names first.
  bool Find(const BlobHandle& handle, uint32_t& number) const {
    bool found = false;
    index_.ForEachCopy(handle, [&](uint32_t copy, uint32_t /*pack_ordinal*/) {
      number = copy;
      found = true;
      return false;
    });
    return found;
  }

  const BlobIndex& index_;
  std::vector<std::atomic<uint64_t>> words_;
  std::atomic<int64_t> count_ = 0;
};

}  // namespace csidelta::repository
