#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/unique_fd.h"

// Room on a local disk for what memory should not hold: sorted tables of a large repository.
namespace csidelta::repository {

// Of each table that is sorted; what is beyond it goes to scratch files.
inline constexpr int64_t kTableMemoryBytesMax = int64_t{64} << 20;

struct ScratchOptions {
  std::string folder = "/var/tmp";
  int64_t table_memory_bytes_max = kTableMemoryBytesMax;
};

// Where scratch files are made, and what they take. Thread-safe.
class ScratchSpace {
 public:
  explicit ScratchSpace(ScratchOptions options) : options_(std::move(options)) {}

  const ScratchOptions& options() const { return options_; }
  // Tables take no more memory than this, or than was allowed before. Before the first table.
  void LimitTables(int64_t memory_bytes_max) {
    options_.table_memory_bytes_max = std::min(options_.table_memory_bytes_max, memory_bytes_max);
  }
  // The most that all files took at one time.
  int64_t peak_bytes() const { return peak_bytes_; }

  // For the files.
  void Count(int64_t change_bytes);

 private:
  ScratchOptions options_;
  std::atomic<int64_t> now_bytes_ = 0;
  std::atomic<int64_t> peak_bytes_ = 0;
};

// A file without a name: it is gone when the process is. Grows at its end; any part can be given
// back. Thread-safe. Outlived by its space.
class ScratchFile {
 public:
  // RESOURCE_EXHAUSTED when the disk is full, else INTERNAL, which is also what calls below return;
  // the message says what to do.
  static absl::StatusOr<std::unique_ptr<ScratchFile>> Make(ScratchSpace& space);
  ~ScratchFile();

  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  // Returns the offset at which `bytes` lie now. RESOURCE_EXHAUSTED when the disk is full.
  absl::StatusOr<int64_t> Append(absl::string_view bytes);

  // Fills `out` from `offset_bytes` on. REQUIRES that this was appended and not given back.
  absl::Status Read(int64_t offset_bytes, absl::Span<char> out) const;

  // Gives the disk back what lies there, where the file system can.
  void Release(int64_t offset_bytes, int64_t length_bytes);

 private:
  ScratchFile(ScratchSpace& space, UniqueFd fd) : space_(space), fd_(std::move(fd)) {}
  absl::Status Explain(const absl::Status& status) const;

  ScratchSpace& space_;
  UniqueFd fd_;
  std::atomic<int64_t> end_bytes_ = 0;
  std::atomic<int64_t> held_bytes_ = 0;
};

}  // namespace csidelta::repository
