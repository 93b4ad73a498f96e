#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/extent.h"
#include "base/status_macros.h"
#include "cli/change_map.h"
#include "cli/cluster_snapshot_flags.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/snapshot_filter.h"
#include "cli/text.h"
#include "incremental/validating_source.h"
#include "incremental/volume_record.h"

namespace csidelta::cli {
namespace {

using engine::ClusterBase;
using engine::ClusterSnapshot;
using incremental::TreeFetcher;
using incremental::VolumeRecord;
using repository::BlobId;
using repository::Repository;
using repository::VolumeLayout;

// Leaf trees that are compared at a time: 17 KiB of text each, on both sides.
constexpr int64_t kLeavesAtOnce = 64;
constexpr char kEndOfExtents[] = "{\"end\":true}\n";

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
  VerbSyntax Declare() override;
  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override;

 private:
  absl::StatusOr<ExitCode> CompareSnapshots(const CallContext& ctx, Session& session);
  absl::StatusOr<ExitCode> AskCluster(const CallContext& ctx, Session& session);
  void PrintMap(Console& console, const incremental::ChangedBlockSource& source,
                const std::string& base, int64_t volume_bytes, const ChangeMap& map) const;

  // What the list is; "": of what is allocated.
  static void PrintBase(Console& console, const std::string& base);
  static void PrintExtent(Console& console, const incremental::ListedExtent& listed);
  static absl::StatusOr<std::unique_ptr<VolumeRecord>> Load(const CallContext& ctx,
                                                            Console& console,
                                                            Repository& repository,
                                                            const std::string& id);
  static ExitCode PrintExtents(Console& console, const std::vector<Extent>& extents);
  static ExitCode PrintSummary(Console& console, const VolumeRecord& before,
                               const VolumeRecord& after, const std::vector<Extent>& extents);

  std::vector<std::string> ids_;
  bool print_extents_ = false;
  ClusterSnapshotFlags cluster_flags_;
  std::string base_name_;
};

VerbSyntax DiffCommand::Declare() {
  ArgumentTable table;
  table.AddWords("ID", "the older and the newer snapshot, by the beginnings of their ids", 0, 2,
                 ids_);
  table.Add("--extents",
            "print the extents of the newer that differ, in the form that backup --extents reads",
            print_extents_);
  table.Add("--volume-snapshot", "NS/NAME",
            "instead of two snapshots: a VolumeSnapshot whose CSI driver is asked what changed",
            cluster_flags_.query.volume_snapshot);
  table.Add("--base", "NAME",
            "the older VolumeSnapshot, of the same namespace; without a base what is allocated is "
            "listed",
            base_name_);
  table.Add("--base-handle", "HANDLE",
            "the same by what the driver knows it by, also when its VolumeSnapshot is gone",
            cluster_flags_.query.base_handle);
  cluster_flags_.DeclareAccess(table);
  return {
      .name = "diff",
      .summary = "Say where two snapshots of volumes differ",
      .details =
          "Compares chunks by their ids, without reading data. Both volumes must have "
          "chunks of one size.\n"
          "With --volume-snapshot no repository is needed: the driver says what changed, and the "
          "picture has one character for each 64th of the volume, where \" \" is nothing, "
          "\".\" less than a tenth, \":\" less than half, \"+\" more and \"#\" all of it.",
      .table = std::move(table),
      .family = VerbFamily::kRepository};
}

absl::StatusOr<ExitCode> DiffCommand::Run(const CallContext& ctx, Session& session) {
  const bool asks_cluster = !cluster_flags_.query.volume_snapshot.empty();
  const bool has_base = !base_name_.empty() || !cluster_flags_.query.base_handle.empty();
  if (ids_.size() != (asks_cluster ? 0 : 2) || (has_base && !asks_cluster)) {
    return absl::InvalidArgumentError(
        "diff takes two snapshots of the repository, or --volume-snapshot with or without a "
        "base");
  }
  return asks_cluster ? AskCluster(ctx, session) : CompareSnapshots(ctx, session);
}

absl::StatusOr<ExitCode> DiffCommand::CompareSnapshots(const CallContext& ctx, Session& session) {
  ASSIGN_OR_RETURN(Repository * repository, session.Open(ctx, LockKind::kRead));
  ASSIGN_OR_RETURN(const std::unique_ptr<VolumeRecord> before,
                   Load(ctx, session.console(), *repository, ids_[0]));
  ASSIGN_OR_RETURN(const std::unique_ptr<VolumeRecord> after,
                   Load(ctx, session.console(), *repository, ids_[1]));
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
    PrintBase(session.console(), before->stored.id.Hex());
    return PrintExtents(session.console(), extents);
  }
  return PrintSummary(session.console(), *before, *after, extents);
}

absl::StatusOr<ExitCode> DiffCommand::AskCluster(const CallContext& ctx, Session& session) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ClusterSnapshot> snapshot,
                   ClusterSnapshot::Open(ctx, cluster_flags_.Query()));
  ASSIGN_OR_RETURN(const ClusterBase base, snapshot->FindBase(ctx, base_name_));
  const int64_t volume_bytes = snapshot->snapshot().restore_size_bytes.value_or(0);
  if (volume_bytes <= 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the driver does not say how large ", cluster_flags_.query.volume_snapshot,
                     " is: status.restoreSize of its VolumeSnapshotContent is missing"));
  }
  const std::unique_ptr<incremental::ChangedBlockSource> source =
      snapshot->MakeSource(ctx, base.facts, *session.environment().random);
  ChangeMap map(volume_bytes);
  Console& console = session.console();
  if (print_extents_) {
    PrintBase(console, base.handle);
  }
  incremental::ValidatingSource validated(*source);
  RETURN_IF_ERROR(validated.ListExtents(ctx,
                                        {.base = base.handle,
                                         .target = cluster_flags_.query.volume_snapshot,
                                         .size_bytes = volume_bytes},
                                        [&](const incremental::ListedExtent& listed) {
                                          map.Add(listed);
                                          if (print_extents_) {
                                            PrintExtent(console, listed);
                                          }
                                          return console.Check();
                                        }));
  if (print_extents_) {
    console.Print(kEndOfExtents);
    return ExitCode::kOk;
  }
  PrintMap(console, *source, base.handle, volume_bytes, map);
  return ExitCode::kOk;
}

void DiffCommand::PrintMap(Console& console, const incremental::ChangedBlockSource& source,
                           const std::string& base, int64_t volume_bytes,
                           const ChangeMap& map) const {
  console.PrintResult({{"message_type", "result"},
                       {"target", cluster_flags_.query.volume_snapshot},
                       {"base", base},
                       {"source", std::string(source.name())},
                       {"volume_bytes", volume_bytes},
                       {"extents", map.extents()},
                       {"bytes", map.bytes()},
                       {"zero_bytes", map.zero_bytes()},
                       {"picture", map.Picture()},
                       {"sizes", map.Histogram()}},
                      absl::StrCat(cluster_flags_.query.volume_snapshot, ": ",
                                   FormatBytes(map.bytes()), " of ", FormatBytes(volume_bytes),
                                   base.empty() ? " allocated, in "
                                                : absl::StrCat(" changed since ", base, ", in "),
                                   map.extents(), " extents, by ", source.name(), "\n[",
                                   map.Picture(), "]\n", map.HistogramLines()));
}

void DiffCommand::PrintBase(Console& console, const std::string& base) {
  const Json line = base.empty() ? Json{{"allocated", true}} : Json{{"base", base}};
  console.Print(absl::StrCat(line.dump(), "\n"));
}

void DiffCommand::PrintExtent(Console& console, const incremental::ListedExtent& listed) {
  const bool zero = listed.kind == incremental::ExtentKind::kZero;
  console.Print(absl::StrCat("{\"offset\":", listed.extent.offset_bytes, ",\"length\":",
                             listed.extent.length_bytes, zero ? ",\"zero\":true}\n" : "}\n"));
}

absl::StatusOr<std::unique_ptr<VolumeRecord>> DiffCommand::Load(const CallContext& ctx,
                                                                Console& console,
                                                                Repository& repository,
                                                                const std::string& id) {
  ASSIGN_OR_RETURN(const repository::StoredSnapshot stored,
                   ChooseSnapshot(ctx, console, repository, id, {}, LatestOf::kOneVolume));
  return incremental::OpenVolumeRecord(ctx, repository, stored);
}

ExitCode DiffCommand::PrintExtents(Console& console, const std::vector<Extent>& extents) {
  for (const Extent& extent : extents) {
    PrintExtent(console, {.extent = extent});
  }
  console.Print(kEndOfExtents);
  return ExitCode::kOk;
}

ExitCode DiffCommand::PrintSummary(Console& console, const VolumeRecord& before,
                                   const VolumeRecord& after, const std::vector<Extent>& extents) {
  const int64_t changed_bytes = TotalBytes(extents);
  console.PrintResult(
      {{"message_type", "result"},
       {"source_snapshot", before.stored.id.Hex()},
       {"target_snapshot", after.stored.id.Hex()},
       {"source_bytes", before.layout.size_bytes()},
       {"target_bytes", after.layout.size_bytes()},
       {"chunk_bytes", after.layout.chunk_bytes()},
       {"changed_bytes", changed_bytes},
       {"extents", extents.size()}},
      absl::StrCat("snapshots ", before.stored.id.ShortHex(), " and ", after.stored.id.ShortHex(),
                   ": ", FormatBytes(changed_bytes), " of ", FormatBytes(after.layout.size_bytes()),
                   " differ, in ", extents.size(), " extents\n"));
  return ExitCode::kOk;
}

}  // namespace

std::unique_ptr<Command> MakeDiffCommand() { return std::make_unique<DiffCommand>(); }

}  // namespace csidelta::cli
