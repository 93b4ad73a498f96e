#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/extent.h"
#include "base/status_macros.h"
#include "cli/cluster_snapshot_flags.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/repository/change_map.h"
#include "cli/repository/snapshot_filter.h"
#include "cli/text.h"
#include "cli/volume_diff.h"
#include "incremental/mover/volume_record.h"
#include "incremental/sources/checked_listing.h"

namespace csidelta::cli {
namespace {

using engine::ClusterBase;
using engine::ClusterSnapshot;
using incremental::VolumeRecord;
using repository::Repository;

constexpr char kEndOfExtents[] = "{\"end\":true}\n";

// The head of the list; an empty base means a list of allocated extents.
void PrintBase(Console& console, const std::string& base) {
  const Json line = base.empty() ? Json{{"allocated", true}} : Json{{"base", base}};
  console.Print(absl::StrCat(line.dump(), "\n"));
}

// `context`: the storage vendor's own; "": none.
void PrintExtent(Console& console, const incremental::ListedExtent& listed,
                 const std::string& context) {
  const bool zero = listed.kind == incremental::ExtentKind::kZero;
  console.Print(absl::StrCat(
      "{\"offset\":", listed.extent.offset_bytes, ",\"length\":", listed.extent.length_bytes,
      zero ? ",\"zero\":true" : "",
      context.empty() ? "" : absl::StrCat(",\"context\":\"", absl::Base64Escape(context), "\""),
      "}\n"));
}

ExitCode PrintSummary(Console& console, const VolumeRecord& before, const VolumeRecord& after,
                      int64_t extents, int64_t changed_bytes) {
  console.PrintResult(
      {{"message_type", "result"},
       {"source_snapshot", before.stored.id.Hex()},
       {"target_snapshot", after.stored.id.Hex()},
       {"source_bytes", before.layout.size_bytes()},
       {"target_bytes", after.layout.size_bytes()},
       {"chunk_bytes", after.layout.chunk_bytes()},
       {"changed_bytes", changed_bytes},
       {"extents", extents}},
      absl::StrCat("snapshots ", before.stored.id.ShortHex(), " and ", after.stored.id.ShortHex(),
                   ": ", FormatBytes(changed_bytes), " of ", FormatBytes(after.layout.size_bytes()),
                   " differ, in ", Counted(extents, "extent"), "\n"));
  return ExitCode::kOk;
}

class DiffCommand : public RepositoryCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override;
  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override;

 private:
  absl::StatusOr<ExitCode> CompareSnapshots(const CallContext& ctx, Session& session);
  absl::StatusOr<ExitCode> AskCluster(const CallContext& ctx, Session& session);
  void PrintMap(Session& session, const incremental::ChangedBlockSource& source,
                const std::string& base, int64_t volume_bytes, const ChangeMap& map) const;

  std::vector<std::string> ids_;
  bool print_extents_ = false;
  ClusterSnapshotFlags cluster_flags_;
  std::string base_name_;
};

VerbSyntax DiffCommand::Describe(ArgumentTable& table) {
  table.AddPositionals(
      "ID",
      "the older and the newer snapshot, by the beginnings of their ids, or by the "
      "names of their Backups of Velero",
      0, 2, ids_);
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
  table.Add(
      "--base-handle", "HANDLE",
      "instead of --base: the driver's handle of the older one; its VolumeSnapshot may be gone",
      cluster_flags_.query.base_handle);
  cluster_flags_.DeclareAccess(table);
  return {
      .name = "diff",
      .summary = "Print where two snapshots of volumes differ",
      .details =
          "Compares chunks by their ids, without reading data. Both volumes must have "
          "chunks of one size.\n"
          "With --volume-snapshot no repository is needed: the driver says what changed, and it is "
          "drawn as by csi-delta map, in one line.",
      .examples = {"diff 8ab6fc6f 1c44d09e",
                   "diff --volume-snapshot shop/orders-tuesday --base orders-monday"}};
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
                   OpenVolume(ctx, session.console(), *repository, ids_[0]));
  ASSIGN_OR_RETURN(const std::unique_ptr<VolumeRecord> after,
                   OpenVolume(ctx, session.console(), *repository, ids_[1]));
  Console& console = session.console();
  if (print_extents_) {
    RETURN_IF_ERROR(RequireEqualChunks(*before, *after));
    PrintBase(console, before->stored.id.Hex());
  }
  int64_t extents = 0;
  int64_t changed_bytes = 0;
  {
    // Progress in JSON is on stdout, as the list is.
    Console quiet(session.environment().out, session.environment().error, {.quiet = true});
    ProgressMeter meter(print_extents_ && console.options().json ? quiet : console, *ctx.clock);
    RETURN_IF_ERROR(CompareVolumes(ctx, *before, *after, meter, [&](const Extent& extent) {
      ++extents;
      changed_bytes += extent.length_bytes;
      if (print_extents_) {
        PrintExtent(console, {.extent = extent}, "");
      }
      return console.Check();
    }));
  }
  if (print_extents_) {
    console.Print(kEndOfExtents);
    return ExitCode::kOk;
  }
  return PrintSummary(console, *before, *after, extents, changed_bytes);
}

absl::StatusOr<ExitCode> DiffCommand::AskCluster(const CallContext& ctx, Session& session) {
  cluster_flags_.cluster = session.options().in_cluster.cluster;
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
      snapshot->MakeSource(ctx, base.info, *session.environment().random);
  ChangeMap map(volume_bytes);
  Console& console = session.console();
  if (print_extents_) {
    PrintBase(console, base.handle);
  }
  std::string context;  // Of the next extent.
  incremental::DiffRequest request = {.base = base.handle,
                                      .target = cluster_flags_.query.volume_snapshot,
                                      .size_bytes = volume_bytes};
  if (print_extents_) {
    request.on_context = [&context](const std::string& of_next) { context = of_next; };
  }
  RETURN_IF_ERROR(
      incremental::ListChecked(ctx, *source, request, [&](const incremental::ListedExtent& listed) {
        map.Add(listed);
        if (print_extents_) {
          PrintExtent(console, listed, std::exchange(context, ""));
        }
        return console.Check();
      }));
  if (print_extents_) {
    console.Print(kEndOfExtents);
    return ExitCode::kOk;
  }
  PrintMap(session, *source, base.handle, volume_bytes, map);
  return ExitCode::kOk;
}

void DiffCommand::PrintMap(Session& session, const incremental::ChangedBlockSource& source,
                           const std::string& base, int64_t volume_bytes,
                           const ChangeMap& map) const {
  session.console().PrintResult(
      {{"message_type", "result"},
       {"target", cluster_flags_.query.volume_snapshot},
       {"base", base},
       {"source", std::string(source.name())},
       {"volume_bytes", volume_bytes},
       {"extents", map.extents()},
       {"bytes", map.bytes()},
       {"zero_bytes", map.zero_bytes()},
       {"picture", map.Picture()},
       {"sizes", map.Histogram()}},
      absl::StrCat(
          cluster_flags_.query.volume_snapshot, ": ", FormatBytes(map.bytes()), " of ",
          FormatBytes(volume_bytes),
          base.empty() ? " allocated, in " : absl::StrCat(" changed since ", base, ", in "),
          Counted(map.extents(), "extent"), ", by ", source.name(), "\n"),
      absl::StrCat(map.PictureLines(HasColors(session.environment())), map.HistogramLines()));
}

}  // namespace

void AddDiffCommand(Commands& all) { AddEach<DiffCommand>(all); }

}  // namespace csidelta::cli
