#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/extent.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/snapshot_filter.h"
#include "cli/text.h"
#include "incremental/volume_record.h"

namespace csidelta::cli {
namespace {

using incremental::TreeFetcher;
using incremental::VolumeRecord;
using repository::BlobId;
using repository::Repository;
using repository::VolumeLayout;

// Leaf trees that are compared at a time: 17 KiB of text each, on both sides.
constexpr int64_t kLeavesAtOnce = 64;

// Where two volumes with chunks of one size differ, level by level: equal trees are not read.
class VolumeDiff {
 public:
  VolumeDiff(Repository& repository, const VolumeRecord& before, const VolumeRecord& after)
      : before_(before),
        after_(after),
        before_fetcher_(repository, *before.places),
        after_fetcher_(repository, *after.places) {}

  // The extents of `after` that differ, or that `before` does not have, in order. What is shorter
  // than a chunk on one side only differs too.
  absl::StatusOr<std::vector<Extent>> Compare(const CallContext& ctx, ProgressMeter& meter) {
    const VolumeLayout& layout = after_.layout;
    for (int64_t level1 = 0; level1 < layout.level1_count(); ++level1) {
      meter.ReportCount("compare", level1, layout.level1_count());
      if (level1 < before_.layout.level1_count() &&
          before_.level1_trees[Index(level1)] == after_.level1_trees[Index(level1)]) {
        continue;
      }
      RETURN_IF_ERROR(CompareLevel1(ctx, level1));
    }
    return MergeExtents(std::move(extents_));
  }

 private:
  static std::size_t Index(int64_t number) { return static_cast<std::size_t>(number); }

  absl::Status CompareLevel1(const CallContext& ctx, int64_t level1) {
    ASSIGN_OR_RETURN(const std::vector<BlobId> after,
                     LoadLeafIds(ctx, after_, after_fetcher_, level1));
    std::vector<BlobId> before;
    if (level1 < before_.layout.level1_count()) {
      ASSIGN_OR_RETURN(before, LoadLeafIds(ctx, before_, before_fetcher_, level1));
    }
    const int64_t first = level1 * repository::kFanout;
    Leaves changed;
    for (std::size_t i = 0; i < after.size(); ++i) {
      const int64_t leaf = first + static_cast<int64_t>(i);
      if (i >= before.size()) {
        AddChunks(leaf, 0, after_.layout.ChunksInLeaf(leaf));
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
                     LoadChunkIds(ctx, before_, before_fetcher_, leaves.numbers, leaves.before));
    ASSIGN_OR_RETURN(const std::vector<std::vector<BlobId>> after,
                     LoadChunkIds(ctx, after_, after_fetcher_, leaves.numbers, leaves.after));
    for (std::size_t i = 0; i < leaves.numbers.size(); ++i) {
      for (std::size_t slot = 0; slot < after[i].size(); ++slot) {
        if (slot >= before[i].size() || before[i][slot] != after[i][slot]) {
          AddChunks(leaves.numbers[i], static_cast<int64_t>(slot), 1);
        }
      }
    }
    return absl::OkStatus();
  }

  void AddChunks(int64_t leaf, int64_t slot, int64_t count) {
    const VolumeLayout& layout = after_.layout;
    const int64_t chunk = leaf * repository::kLeafChunks + slot;
    const int64_t begin = layout.ChunkOffset(chunk);
    const int64_t end = std::min(layout.ChunkOffset(chunk + count), layout.size_bytes());
    if (!extents_.empty() && extents_.back().end_bytes() == begin) {
      extents_.back().length_bytes += end - begin;
    } else {
      extents_.push_back({.offset_bytes = begin, .length_bytes = end - begin});
    }
  }

  const VolumeRecord& before_;
  const VolumeRecord& after_;
  TreeFetcher before_fetcher_;
  TreeFetcher after_fetcher_;
  std::vector<Extent> extents_;
};

class DiffCommand : public Command {
 public:
  VerbSyntax Declare() override {
    ArgumentTable table;
    table.AddWords("ID", "the older and the newer snapshot, by the beginnings of their ids", 2, 2,
                   ids_);
    table.Add("--extents",
              "print the extents of the newer that differ, in the form that backup --extents reads",
              print_extents_);
    return {.name = "diff",
            .summary = "Say where two snapshots of volumes differ",
            .details =
                "Compares chunks by their ids, without reading data. Both volumes must have "
                "chunks of one size.",
            .table = std::move(table)};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    ASSIGN_OR_RETURN(Repository * repository, session.Open(ctx, LockKind::kRead));
    ASSIGN_OR_RETURN(const std::unique_ptr<VolumeRecord> before, Load(ctx, *repository, ids_[0]));
    ASSIGN_OR_RETURN(const std::unique_ptr<VolumeRecord> after, Load(ctx, *repository, ids_[1]));
    if (before->layout.chunk_bytes() != after->layout.chunk_bytes()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the chunks have ", before->layout.chunk_bytes(), " and ", after->layout.chunk_bytes(),
          " bytes; snapshots of two chains are compared by restoring them"));
    }
    std::vector<Extent> extents;
    {
      ProgressMeter meter(session.console(), *ctx.clock);
      ASSIGN_OR_RETURN(extents, VolumeDiff(*repository, *before, *after).Compare(ctx, meter));
    }
    if (print_extents_) {
      return PrintExtents(session.console(), extents);
    }
    return PrintSummary(session.console(), *before, *after, extents);
  }

 private:
  static absl::StatusOr<std::unique_ptr<VolumeRecord>> Load(const CallContext& ctx,
                                                            Repository& repository,
                                                            const std::string& id) {
    ASSIGN_OR_RETURN(const repository::StoredSnapshot stored,
                     ChooseSnapshot(ctx, repository, id, {}));
    return incremental::OpenVolumeRecord(ctx, repository, stored);
  }

  static ExitCode PrintExtents(Console& console, const std::vector<Extent>& extents) {
    for (const Extent& extent : extents) {
      console.Print(absl::StrCat("{\"offset\":", extent.offset_bytes,
                                 ",\"length\":", extent.length_bytes, "}\n"));
    }
    console.Print("{\"end\":true}\n");
    return ExitCode::kOk;
  }

  static ExitCode PrintSummary(Console& console, const VolumeRecord& before,
                               const VolumeRecord& after, const std::vector<Extent>& extents) {
    const int64_t changed_bytes = TotalBytes(extents);
    console.PrintResult({{"message_type", "result"},
                         {"source_snapshot", before.stored.id.Hex()},
                         {"target_snapshot", after.stored.id.Hex()},
                         {"source_bytes", before.layout.size_bytes()},
                         {"target_bytes", after.layout.size_bytes()},
                         {"chunk_bytes", after.layout.chunk_bytes()},
                         {"changed_bytes", changed_bytes},
                         {"extents", extents.size()}},
                        absl::StrCat("snapshots ", before.stored.id.ShortHex(), " and ",
                                     after.stored.id.ShortHex(), ": ", FormatBytes(changed_bytes),
                                     " of ", FormatBytes(after.layout.size_bytes()), " differ, in ",
                                     extents.size(), " extents\n"));
    return ExitCode::kOk;
  }

  std::vector<std::string> ids_;
  bool print_extents_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeDiffCommand() { return std::make_unique<DiffCommand>(); }

}  // namespace csidelta::cli
