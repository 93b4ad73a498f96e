#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "repository/scratch.h"

namespace csidelta::repository {

// Sorts more records than memory should hold: sorted runs, in a scratch file once they are more
// than a table may take in memory, which are merged at the end.
//
//   Add()* --> Drain()
//
// `Record` is plain data with operator<, and a SortPrefix() that never falls while records ascend.
// Add() may be called by many threads; Drain() once, after the last of them. Memory: what the space
// grants a table, `memory_bytes_max` at most, and as much again while runs are merged in memory;
// plus a run per calling thread. Errors are those of ScratchFile, and of what is called.
template <typename Record>
class RecordSorter {
  static_assert(std::is_trivially_copyable_v<Record>);

 public:
  using Take = absl::FunctionRef<absl::Status(absl::Span<const Record>)>;

  explicit RecordSorter(ScratchSpace& space)
      : RecordSorter(space, space.options().table_memory_bytes_max) {}
  // With another limit of memory than that of the space.
  RecordSorter(ScratchSpace& space, int64_t memory_bytes_max)
      : space_(space),
        run_records_max_(std::max<std::size_t>(
            1, static_cast<std::size_t>(memory_bytes_max) / sizeof(Record) / kRunsInMemoryMax)) {}

  absl::Status Add(absl::Span<const Record> records);

  int64_t count() const {
    const MutexLock lock(mutex_);
    return count_;
  }

  // Calls `take` with all records, in order, some at a time. Once no thread adds any more.
  absl::Status Drain(Take take) ABSL_NO_THREAD_SAFETY_ANALYSIS;

 private:
  static constexpr std::size_t kRunsInMemoryMax = 4;
  static constexpr std::size_t kWindowRecordsMax = 4096;
  static constexpr std::size_t kOutRecords = 4096;

  struct StoredRun {
    int64_t offset_bytes = 0;
    std::size_t count = 0;
  };

  // A run that is being merged: what of it is in memory, and what is left in the file.
  struct Source {
    const Record* next = nullptr;
    const Record* end = nullptr;
    StoredRun left = {};
    std::vector<Record> window = {};
  };

  struct Head {
    uint64_t prefix = 0;
    Source* source = nullptr;

    // The heap has its greatest in front.
    friend bool operator<(const Head& a, const Head& b) {
      return a.prefix != b.prefix ? b.prefix < a.prefix : *b.source->next < *a.source->next;
    }
  };

  static absl::string_view BytesOf(absl::Span<const Record> records) {
    return {reinterpret_cast<const char*>(records.data()), records.size() * sizeof(Record)};
  }

  // Sorts a run and keeps it, or all runs so far in the file.
  absl::Status Close(std::vector<Record> run);

  // Has source.next point at a record; false when there are no more.
  absl::StatusOr<bool> LoadFromSource(Source& source);

  absl::Status Merge(std::vector<Source> sources, Take take);

  ScratchSpace& space_;
  const std::size_t run_records_max_;
  mutable Mutex mutex_;
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Record> open_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::vector<Record>> runs_ ABSL_GUARDED_BY(mutex_);  // Sorted, in memory.
  std::unique_ptr<ScratchFile> file_;  // Made once, under mutex_; one that is there stays.
  std::vector<StoredRun> stored_ ABSL_GUARDED_BY(mutex_);
};

template <typename Record>
absl::Status RecordSorter<Record>::Add(absl::Span<const Record> records) {
  while (!records.empty()) {
    std::vector<Record> full;
    {
      const MutexLock lock(mutex_);
      const std::size_t count = std::min(records.size(), run_records_max_ - open_.size());
      open_.insert(open_.end(), records.begin(),
                   records.begin() + static_cast<std::ptrdiff_t>(count));
      records.remove_prefix(count);
      count_ += static_cast<int64_t>(count);
      if (open_.size() < run_records_max_) {
        return absl::OkStatus();
      }
      full = std::exchange(open_, {});
    }
    RETURN_IF_ERROR(Close(std::move(full)));
  }
  return absl::OkStatus();
}

template <typename Record>
absl::Status RecordSorter<Record>::Drain(Take take) {
  RETURN_IF_ERROR(Close(std::exchange(open_, {})));
  std::vector<Source> sources;
  for (const std::vector<Record>& run : runs_) {
    sources.push_back({.next = run.data(), .end = run.data() + run.size()});
  }
  if (sources.size() == 1 && stored_.empty()) {
    return take(runs_.front());
  }
  const std::size_t window = std::max<std::size_t>(
      1, std::min(kWindowRecordsMax,
                  run_records_max_ * kRunsInMemoryMax / std::max<std::size_t>(1, stored_.size())));
  for (const StoredRun& run : stored_) {
    sources.push_back({.left = run, .window = std::vector<Record>(std::min(window, run.count))});
  }
  return Merge(std::move(sources), take);
}

template <typename Record>
absl::Status RecordSorter<Record>::Close(std::vector<Record> run) {
  if (run.empty()) {
    return absl::OkStatus();
  }
  std::sort(run.begin(), run.end());
  std::vector<std::vector<Record>> out;
  {
    const MutexLock lock(mutex_);
    runs_.push_back(std::move(run));
    if (file_ == nullptr && runs_.size() <= kRunsInMemoryMax) {
      return absl::OkStatus();
    }
    if (file_ == nullptr) {
      ASSIGN_OR_RETURN(file_, ScratchFile::Make(space_));
    }
    out = std::exchange(runs_, {});
  }
  for (std::vector<Record>& sorted : out) {
    ASSIGN_OR_RETURN(const int64_t offset_bytes, file_->Append(BytesOf(sorted)));
    const MutexLock lock(mutex_);
    stored_.push_back({.offset_bytes = offset_bytes, .count = sorted.size()});
    sorted = {};
  }
  return absl::OkStatus();
}

template <typename Record>
absl::StatusOr<bool> RecordSorter<Record>::LoadFromSource(Source& source) {
  if (source.next != source.end) {
    return true;
  }
  const std::size_t count = std::min(source.left.count, source.window.size());
  if (count == 0) {
    return false;
  }
  const std::size_t bytes = count * sizeof(Record);
  RETURN_IF_ERROR(
      file_->Read(source.left.offset_bytes,
                  absl::MakeSpan(reinterpret_cast<char*>(source.window.data()), bytes)));
  file_->Release(source.left.offset_bytes, static_cast<int64_t>(bytes));
  source.left.offset_bytes += static_cast<int64_t>(bytes);
  source.left.count -= count;
  source.next = source.window.data();
  source.end = source.next + count;
  return true;
}

template <typename Record>
absl::Status RecordSorter<Record>::Merge(std::vector<Source> sources, Take take) {
  std::vector<Head> heads;
  for (Source& source : sources) {
    ASSIGN_OR_RETURN(const bool more, LoadFromSource(source));
    if (more) {
      heads.push_back({.prefix = source.next->SortPrefix(), .source = &source});
    }
  }
  std::make_heap(heads.begin(), heads.end());
  std::vector<Record> out;
  out.reserve(kOutRecords);
  while (!heads.empty()) {
    std::pop_heap(heads.begin(), heads.end());
    Head& head = heads.back();
    out.push_back(*head.source->next++);
    if (out.size() == kOutRecords) {
      RETURN_IF_ERROR(take(out));
      out.clear();
    }
    ASSIGN_OR_RETURN(const bool more, LoadFromSource(*head.source));
    if (more) {
      head.prefix = head.source->next->SortPrefix();
      std::push_heap(heads.begin(), heads.end());
    } else {
      heads.pop_back();
    }
  }
  return out.empty() ? absl::OkStatus() : take(out);
}

}  // namespace csidelta::repository
