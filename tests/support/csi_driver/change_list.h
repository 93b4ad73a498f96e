#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/extent.h"
#include "base/unique_fd.h"
#include "tests/support/csi_driver/store.h"

namespace csidelta::csi_driver {

inline constexpr int64_t kBlockBytesMin = 512;
inline constexpr int64_t kBlockBytesMax = int64_t{4} << 20;

// How the driver speaks of blocks.
struct BlockOptions {
  int64_t bytes = 4096;  // From kBlockBytesMin to kBlockBytesMax, a multiple of the former.
  bool fixed = true;     // One extent per block, also where it ends past the end of the volume.
                      // Otherwise neighbours are one extent, and the last one ends with the volume.
  bool mark_zero = false;  // Extents of zeros stand alone and are called so.
  bool own_only = false;   // Allocated is what the volume does not have from its source.
};

struct ChangeQuery {
  std::string target_id;
  std::optional<std::string> base_id;  // None: what is allocated.
  int64_t starting_offset_bytes = 0;
};

// What a list says of one range.
struct ListedExtent {
  Extent extent;
  bool zero = false;  // The target has only zeros there; false without BlockOptions::mark_zero.
};

// The blocks of a volume snapshot that are not zero, or that differ from its base, in ascending
// order: an exact comparison of the bytes. What lies past the end of a smaller base differs. The
// first extent ends behind the starting offset, and may begin before it.
//
// Reads both files as it goes; objects that are deleted meanwhile do no harm. Not thread-safe.
class ChangeList {
 public:
  // INVALID_ARGUMENT: no target, an empty base, or one of another volume. NOT_FOUND: either is
  // gone. OUT_OF_RANGE: the starting offset is negative or past the end of the volume's end.
  static absl::StatusOr<std::unique_ptr<ChangeList>> Open(const Store& store,
                                                          const ChangeQuery& query,
                                                          const BlockOptions& options);

  // None: this was all.
  absl::StatusOr<std::optional<ListedExtent>> Next();

  int64_t capacity_bytes() const { return capacity_bytes_; }

 private:
  ChangeList(const BlockOptions& options, UniqueFd target, UniqueFd base)
      : options_(options), target_(std::move(target)), base_(std::move(base)) {}

  // The first listed block from `offset_bytes` on, which begins a block.
  absl::StatusOr<std::optional<ListedExtent>> NextBlock(int64_t offset_bytes);
  absl::StatusOr<int64_t> NextData(int64_t offset_bytes) const;
  absl::Status Load(int64_t offset_bytes);
  bool IsListed(int64_t offset_bytes) const;

  const BlockOptions options_;
  const UniqueFd target_;
  const UniqueFd base_;  // -1: none.
  int64_t capacity_bytes_ = 0;
  int64_t base_bytes_ = 0;  // Without a base: the capacity, compared with zeros.
  int64_t position_bytes_ = 0;

  // What was read of both files, from window_offset_bytes_ on; zeros behind their ends.
  int64_t window_offset_bytes_ = 0;
  std::string target_window_;
  std::string base_window_;
};

}  // namespace csidelta::csi_driver
