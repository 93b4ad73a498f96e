#include "cli/volume_diff.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "engine/snapshot_choice.h"

namespace csidelta::cli {
namespace {

using incremental::VolumeRecord;
using repository::BlobId;
using repository::VolumeLayout;

// Leaf trees that are compared at a time: 17 KiB of text each, on both sides.
constexpr int64_t kLeavesAtOnce = 64;

// Compares two volumes with chunks of one size, level by level: equal trees are not read.
class VolumeDiff {
 public:
  VolumeDiff(const VolumeRecord& before, const VolumeRecord& after,
             absl::FunctionRef<absl::Status(const Extent&)> found)
      : found_(found), before_(before), after_(after) {}

  absl::Status Compare(const CallContext& ctx, ProgressMeter& meter) {
    const VolumeLayout& layout = after_.layout;
    for (int64_t level1 = 0; level1 < layout.level1_count(); ++level1) {
      meter.ReportCount("compare", level1, layout.level1_count());
      if (level1 < before_.layout.level1_count() &&
          before_.level1_trees[Index(level1)] == after_.level1_trees[Index(level1)]) {
        continue;
      }
      RETURN_IF_ERROR(CompareLevel1(ctx, level1));
    }
    return last_.length_bytes == 0 ? absl::OkStatus() : found_(last_);
  }

 private:
  static std::size_t Index(int64_t number) { return static_cast<std::size_t>(number); }

  absl::Status CompareLevel1(const CallContext& ctx, int64_t level1) {
    ASSIGN_OR_RETURN(const std::vector<BlobId> after, LoadLeafIds(ctx, after_, level1));
    std::vector<BlobId> before;
    if (level1 < before_.layout.level1_count()) {
      ASSIGN_OR_RETURN(before, LoadLeafIds(ctx, before_, level1));
    }
    const int64_t first = level1 * repository::kFanout;
    Leaves changed;
    for (std::size_t i = 0; i < after.size(); ++i) {
      const int64_t leaf = first + static_cast<int64_t>(i);
      if (i >= before.size()) {
        RETURN_IF_ERROR(CompareLeaves(ctx, std::exchange(changed, {})));
        RETURN_IF_ERROR(AddChunks(leaf, 0, after_.layout.ChunksInLeaf(leaf)));
      } else if (before[i] != after[i]) {
        changed.numbers.push_back(leaf);
        changed.before.push_back(before[i]);
        changed.after.push_back(after[i]);
      }
      if (static_cast<int64_t>(changed.numbers.size()) == kLeavesAtOnce) {
        RETURN_IF_ERROR(CompareLeaves(ctx, std::exchange(changed, {})));
      }
    }
    return CompareLeaves(ctx, changed);
  }

  struct Leaves {
    std::vector<int64_t> numbers;
    std::vector<BlobId> before;
    std::vector<BlobId> after;
  };

  absl::Status CompareLeaves(const CallContext& ctx, const Leaves& leaves) {
    if (leaves.numbers.empty()) {
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const std::vector<std::vector<BlobId>> before,
                     LoadChunkIds(ctx, before_, leaves.numbers, leaves.before));
    ASSIGN_OR_RETURN(const std::vector<std::vector<BlobId>> after,
                     LoadChunkIds(ctx, after_, leaves.numbers, leaves.after));
    for (std::size_t i = 0; i < leaves.numbers.size(); ++i) {
      for (std::size_t slot = 0; slot < after[i].size(); ++slot) {
        if (slot >= before[i].size() || before[i][slot] != after[i][slot]) {
          RETURN_IF_ERROR(AddChunks(leaves.numbers[i], static_cast<int64_t>(slot), 1));
        }
      }
    }
    return absl::OkStatus();
  }

  // In order; what touches the last extent becomes part of it.
  absl::Status AddChunks(int64_t leaf, int64_t slot, int64_t count) {
    const VolumeLayout& layout = after_.layout;
    const int64_t chunk = leaf * repository::kLeafChunks + slot;
    const int64_t begin = layout.ChunkOffset(chunk);
    const int64_t end = std::min(layout.ChunkOffset(chunk + count), layout.size_bytes());
    if (last_.length_bytes > 0 && last_.end_bytes() == begin) {
      last_.length_bytes += end - begin;
      return absl::OkStatus();
    }
    const Extent done = std::exchange(last_, {.offset_bytes = begin, .length_bytes = end - begin});
    return done.length_bytes == 0 ? absl::OkStatus() : found_(done);
  }

  const absl::FunctionRef<absl::Status(const Extent&)> found_;
  const VolumeRecord& before_;
  const VolumeRecord& after_;
  Extent last_;  // not reported yet
};

}  // namespace

absl::StatusOr<std::unique_ptr<VolumeRecord>> OpenVolume(const CallContext& ctx, Console& console,
                                                         repository::Repository& repository,
                                                         const std::string& id) {
  engine::SnapshotFilter filter;
  if (id != "latest" && !absl::c_all_of(id, absl::ascii_isxdigit)) {
    filter.backup = id;
  }
  ASSIGN_OR_RETURN(const repository::StoredSnapshot stored,
                   engine::ChooseSnapshot(ctx, ListenerOf(console), repository,
                                          filter.backup.empty() ? id : "latest", filter,
                                          engine::LatestOf::kOneVolume));
  return incremental::OpenVolumeRecord(ctx, repository, stored);
}

absl::Status RequireEqualChunks(const VolumeRecord& before, const VolumeRecord& after) {
  if (before.layout.chunk_bytes() != after.layout.chunk_bytes()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the chunks have ", before.layout.chunk_bytes(), " and ", after.layout.chunk_bytes(),
        " bytes; snapshots of two chains are compared by restoring them"));
  }
  return absl::OkStatus();
}

absl::Status CompareVolumes(const CallContext& ctx, const VolumeRecord& before,
                            const VolumeRecord& after, ProgressMeter& meter,
                            absl::FunctionRef<absl::Status(const Extent&)> found) {
  RETURN_IF_ERROR(RequireEqualChunks(before, after));
  return VolumeDiff(before, after, found).Compare(ctx, meter);
}

}  // namespace csidelta::cli
