#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "repository/scratch.h"

namespace csidelta::repository {

// Records in ascending order: the first of them in memory, the others in a scratch file, of which a
// lookup reads one position. `Record` is what RecordSorter sorts.
//
//   Reserve() --> Append()* --> View(), LowerBound()
//
// Constant after the last Append(): thread-safe. Errors are those of ScratchFile.
template <typename Record>
class SortedTable {
  static_assert(std::is_trivially_copyable_v<Record>);

 public:
  // The prefix of each so-manieth record is in memory; the records between lie on a page or two.
  static constexpr std::size_t kFenceRecords = 64;

  // All `records_max` stay in memory if they take no more than `memory_bytes_max`, else as many as
  // `resident_bytes_max` holds.
  absl::Status Reserve(ScratchSpace& space, std::size_t records_max, std::size_t memory_bytes_max,
                       std::size_t resident_bytes_max) {
    resident_max_ = records_max;
    if (records_max * sizeof(Record) > memory_bytes_max) {
      resident_max_ = std::min(resident_bytes_max, memory_bytes_max) / sizeof(Record);
      ASSIGN_OR_RETURN(file_, ScratchFile::Make(space));
    }
    fences_.reserve(records_max / kFenceRecords + 1);
    resident_.reserve(std::min(records_max, resident_max_));
    return absl::OkStatus();
  }

  absl::Status Append(absl::Span<const Record> records) {
    for (std::size_t i = 0; i < records.size(); ++i) {
      if ((count_ + i) % kFenceRecords == 0) {
        fences_.push_back(records[i].SortPrefix());
      }
    }
    count_ += records.size();
    const std::size_t stay = std::min(records.size(), resident_max_ - resident_.size());
    resident_.insert(resident_.end(), records.begin(),
                     records.begin() + static_cast<std::ptrdiff_t>(stay));
    records.remove_prefix(stay);
    if (records.empty()) {
      return absl::OkStatus();
    }
    return file_
        ->Append({reinterpret_cast<const char*>(records.data()), records.size() * sizeof(Record)})
        .status();
  }

  std::size_t size() const { return count_; }
  int64_t memory_bytes() const {
    return static_cast<int64_t>(resident_.capacity() * sizeof(Record) +
                                fences_.capacity() * sizeof(uint64_t));
  }

  // Records [first, first + length), in memory or in `buffer`.
  absl::StatusOr<const Record*> View(std::size_t first, std::size_t length,
                                     std::vector<Record>& buffer) const {
    if (first + length <= resident_.size()) {
      return resident_.data() + first;
    }
    buffer.resize(length);
    RETURN_IF_ERROR(Read(first, absl::MakeSpan(buffer)));
    return buffer.data();
  }

  // The same, into `out`.
  absl::Status Read(std::size_t first, absl::Span<Record> out) const {
    const std::size_t in_memory =
        first < resident_.size() ? std::min(out.size(), resident_.size() - first) : 0;
    std::copy_n(resident_.data() + std::min(first, resident_.size()), in_memory, out.data());
    out.remove_prefix(in_memory);
    if (out.empty()) {
      return absl::OkStatus();
    }
    const std::size_t from = first + in_memory - resident_.size();
    return file_->Read(
        static_cast<int64_t>(from * sizeof(Record)),
        absl::MakeSpan(reinterpret_cast<char*>(out.data()), out.size() * sizeof(Record)));
  }

  // The number of the first record that `is_before` is false of. `prefix` is SortPrefix() of what
  // is looked for.
  template <typename IsBefore>
  absl::StatusOr<std::size_t> LowerBound(uint64_t prefix, std::vector<Record>& buffer,
                                         IsBefore is_before) const {
    auto [begin, end] = RangeOf(prefix);
    while (end - begin > 2 * kFenceRecords) {
      const std::size_t middle = begin + (end - begin) / 2;
      ASSIGN_OR_RETURN(const Record* record, View(middle, 1, buffer));
      (is_before(*record) ? begin : end) = middle;
    }
    ASSIGN_OR_RETURN(const Record* records, View(begin, end - begin, buffer));
    return begin + static_cast<std::size_t>(
                       std::partition_point(records, records + (end - begin), is_before) - records);
  }

 private:
  // Records between which the first of this prefix is, if there is one: two fences apart, or more
  // where ids are made to look alike.
  std::pair<std::size_t, std::size_t> RangeOf(uint64_t prefix) const {
    const auto [low, high] = std::equal_range(fences_.begin(), fences_.end(), prefix);
    const auto first = static_cast<std::size_t>(low - fences_.begin());
    const auto last = static_cast<std::size_t>(high - fences_.begin());
    return {first == 0 ? 0 : (first - 1) * kFenceRecords, std::min(count_, last * kFenceRecords)};
  }

  std::vector<Record> resident_;  // The first records; all of them if there is no file.
  std::size_t resident_max_ = 0;
  std::unique_ptr<ScratchFile> file_;
  std::size_t count_ = 0;
  std::vector<uint64_t> fences_;  // The prefix of every kFenceRecords-th record.
};

}  // namespace csidelta::repository
