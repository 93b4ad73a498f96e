#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/cluster_verb.h"
#include "cli/command.h"
#include "cli/snapshot/snapshot_text.h"
#include "cli/text.h"
#include "csi/snapshot_state.h"
#include "csi/static_content.h"
#include "objects/client.h"
#include "objects/volume_snapshot.h"
#include "snapshots/promotion.h"
#include "snapshots/snapshot_import.h"

namespace csidelta::cli {
namespace {

using objects::VolumeSnapshot;

constexpr absl::Duration kImportTimeout = absl::Minutes(1);

class SnapshotImportCommand : public ClusterCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override;
  absl::StatusOr<ExitCode> Work() override;

 private:
  // Replaces `snapshot` by what it became. Both objects stay after an error.
  absl::Status Await(const CallContext& limited, VolumeSnapshot& snapshot) const;
  void Report(const snapshots::ImportPlan& plan, const VolumeSnapshot* snapshot) const;

  csi::StaticContent request_;
  std::string mode_;
  bool wait_ = false;
  std::optional<absl::Duration> timeout_ = kImportTimeout;
  bool dry_run_ = false;
};

VerbSyntax SnapshotImportCommand::Describe(ArgumentTable& table) {
  table.AddPositional("HANDLE", "the driver's handle of the snapshot", request_.handle);
  table.Add("--driver", "DRIVER", "the CSI driver (required)", request_.driver);
  table.Add("--name", "NAME", "name of the VolumeSnapshot (default: imported- and a hash)",
            request_.snapshot_name);
  table.Add("--class", "CLASS", "the VolumeSnapshotClass, for drivers that need its Secret",
            request_.class_name);
  table.AddChoice("--mode", {"Filesystem", "Block"}, "the mode of the volume that it was taken of",
                  mode_);
  table.AddChoice("--policy", {"Retain", "Delete"},
                  "what becomes of the snapshot when the VolumeSnapshot is deleted",
                  request_.deletion_policy);
  table.Add("--wait", "wait until the driver has reported the snapshot", wait_);
  table.AddWait("--timeout", "how long to wait", timeout_);
  table.Add("--dry-run", "check all, and print what would be made", dry_run_);
  return {.name = "snapshot import",
          .summary = "Make a VolumeSnapshot for a snapshot that exists on the storage",
          .details =
              "Needs the ClusterRole csi-delta-snapshot-admin: it makes a VolumeSnapshotContent, "
              "and reads all others. A handle that has a content already is refused, and the "
              "content is named. If it is interrupted, run the same command again. If the driver "
              "does not list its snapshots, the VolumeSnapshot stays Unverified.",
          .examples = {"snapshot import snap-0a1b2c3d --driver ebs.csi.aws.com -n shop",
                       "snapshot import snap-0a1b2c3d --driver ebs.csi.aws.com -n shop --dry-run"}};
}

absl::StatusOr<ExitCode> SnapshotImportCommand::Work() {
  if (request_.driver.empty()) {
    return MissingFlag("--driver", "the CSI driver whose handle it is");
  }
  ASSIGN_OR_RETURN(request_.snapshot_namespace, OneNamespace(cluster(), "snapshot import"));
  request_.mode = objects::ParseVolumeMode(mode_);
  ASSIGN_OR_RETURN(const snapshots::ImportPlan plan, snapshots::PlanImport(ctx(), api(), request_));
  if (plan.was_begun) {
    console().Info("an earlier run has begun this: it is taken up");
  }
  if (dry_run_) {
    Report(plan, nullptr);
    return ExitCode::kOk;
  }
  ASSIGN_OR_RETURN(VolumeSnapshot snapshot, snapshots::CarryOutImport(ctx(), api(), plan));
  absl::Status outcome;
  if (wait_) {
    outcome = Await(ctx().WithTimeout(*timeout_), snapshot);
    if (!outcome.ok()) {
      // Its present state, if it can be read.
      snapshot = objects::Get<VolumeSnapshot>(ctx(), api(), snapshot.key()).value_or(snapshot);
    }
  }
  Report(plan, &snapshot);
  RETURN_IF_ERROR(outcome);
  return ExitCode::kOk;
}

absl::Status SnapshotImportCommand::Await(const CallContext& limited,
                                          VolumeSnapshot& snapshot) const {
  const std::string removal =
      absl::StrCat("; csi-delta snapshot delete -n ", snapshot.namespace_name(), " ",
                   snapshot.name(), " removes it");
  absl::StatusOr<VolumeSnapshot> awaited =
      snapshots::AwaitUsableSnapshot(limited, api(), snapshot.namespace_name(), snapshot.name());
  if (absl::IsDeadlineExceeded(awaited.status())) {
    return absl::DeadlineExceededError(absl::StrCat(awaited.status().message(), removal));
  }
  RETURN_IF_ERROR(awaited.status());
  snapshot = *std::move(awaited);
  const csi::SnapshotStatus status = csi::StatusOf(snapshot, {});
  const bool is_usable =
      status.state == csi::SnapshotState::kReady || status.state == csi::SnapshotState::kUnverified;
  return is_usable
             ? absl::OkStatus()
             : absl::FailedPreconditionError(absl::StrCat(
                   "VolumeSnapshot ", snapshot.namespace_name(), "/", snapshot.name(), " is ",
                   csi::ToString(status.state), ": ", status.conditions.front().message, removal));
}

void SnapshotImportCommand::Report(const snapshots::ImportPlan& plan,
                                   const VolumeSnapshot* snapshot) const {
  const std::string state(snapshot == nullptr ? "Planned"
                                              : csi::ToString(csi::StatusOf(*snapshot, {}).state));
  const std::optional<int64_t> size_bytes =
      snapshot == nullptr ? std::nullopt : snapshot->restore_size_bytes();
  const csi::StaticContent& pair = plan.pair;
  PrintClusterResult(
      session(), {.value = {{"name", pair.snapshot_name},
                            {"namespace", pair.snapshot_namespace},
                            {"state", state},
                            {"size_bytes", OrNull(size_bytes)},
                            {"driver", pair.driver},
                            {"handle", pair.handle},
                            {"content", pair.name},
                            {"class", pair.class_name},
                            {"policy", pair.deletion_policy}},
                  .table = FormatTable({{"NAME", "STATE", "SIZE", "POLICY", "CONTENT", "HANDLE"},
                                        {pair.snapshot_name, state,
                                         size_bytes.has_value() ? FormatBytes(*size_bytes) : "",
                                         pair.deletion_policy, pair.name, pair.handle}}),
                  .names = {SnapshotResourceName(pair.snapshot_name)}});
}

}  // namespace

void AddSnapshotImportCommand(Commands& all) { AddEach<SnapshotImportCommand>(all); }

}  // namespace csidelta::cli
