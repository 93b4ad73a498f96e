#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "cli/cluster_verb.h"
#include "cli/command.h"
#include "cli/snapshot/snapshot_text.h"
#include "cli/text.h"
#include "csi/lock.h"
#include "inplace/volume_swap.h"
#include "objects/client.h"
#include "objects/volume_snapshot.h"
#include "snapshots/promotion.h"

namespace csidelta::cli {
namespace {

using inplace::SwapPlan;
using inplace::SwapResult;
using inplace::SwapTarget;
using objects::SwapSide;
using objects::VolumeSnapshot;

constexpr absl::Duration kRestoreTimeout = absl::Minutes(10);

enum class RestoreWork { kRestore, kUndo, kFinish };

std::string NameOf(const SwapTarget& target) {
  return absl::StrCat(target.namespace_name, "/", target.pvc_name);
}

Json PlanJson(const SwapPlan& plan) {
  return {{"message_type", "plan"},
          {"pvc", plan.target.pvc_name},
          {"namespace", plan.target.namespace_name},
          {"snapshot", plan.target.snapshot_name},
          {"method", "swap"},
          {"goes_on", plan.was_begun},
          {"original_volume", plan.original_volume},
          {"temporary_pvc", plan.temporary_pvc},
          {"storage_class", plan.storage_class},
          {"size_bytes", plan.size_bytes},
          {"node", plan.node},
          {"finalizers", plan.finalizers},
          {"safety_snapshot", plan.target.takes_safety_snapshot}};
}

std::string PlanText(const SwapPlan& plan) {
  const SwapTarget& target = plan.target;
  std::string text = absl::StrCat("PVC ", NameOf(target), " gets the data of VolumeSnapshot ",
                                  target.snapshot_name,
                                  plan.was_begun ? ", which an earlier run began:" : ":", "\n");
  if (!plan.was_exchanging) {
    absl::StrAppend(&text,
                    target.takes_safety_snapshot
                        ? "  a VolumeSnapshot of it is taken first, for safety\n"
                        : "  no VolumeSnapshot of it is taken first\n",
                    "  a volume of ", FormatBytes(plan.size_bytes), " is made of it, StorageClass ",
                    plan.storage_class, plan.node.empty() ? "" : absl::StrCat(", node ", plan.node),
                    ", by the temporary PVC ", plan.temporary_pvc, "\n");
  }
  absl::StrAppend(
      &text, "  PVC ", target.pvc_name,
      " is deleted, and made again with that volume: the same name, labels, "
      "annotations and owners\n",
      plan.finalizers.empty()
          ? ""
          : absl::StrCat("  its deletion waits for what set its finalizers, which it has "
                         "again afterwards: ",
                         absl::StrJoin(plan.finalizers, ", "), "\n"),
      "  its volume ", plan.original_volume, " is kept until ",
      inplace::SwapCommand(target, "--finish"), "\n");
  return text;
}

Json ResultJson(const SwapTarget& target, RestoreWork work, const SwapResult& result) {
  const bool is_restored = result.in_use == SwapSide::kRestored;
  const char* const state = work == RestoreWork::kFinish ? "finished"
                            : is_restored                ? "restored"
                                                         : "undone";
  return {{"message_type", "result"},
          {"pvc", target.pvc_name},
          {"namespace", target.namespace_name},
          {"state", state},
          {"did_anything", result.did_anything},
          {"original_volume", result.original_volume},
          {"restored_volume", result.restored_volume},
          {"volume_in_use", is_restored ? result.restored_volume : result.original_volume},
          {"safety_snapshot", result.safety_snapshot},
          {"kept_handles", result.kept_handles}};
}

std::string ResultText(const SwapTarget& target, RestoreWork work, const SwapResult& result) {
  const std::string pvc = absl::StrCat("PVC ", NameOf(target));
  if (work == RestoreWork::kFinish) {
    return result.did_anything ? absl::StrCat(pvc, ": the restore is finished\n")
                               : absl::StrCat(pvc, " has no restore to finish\n");
  }
  if (work == RestoreWork::kUndo) {
    if (result.original_volume.empty()) {
      return result.did_anything
                 ? absl::StrCat(pvc, " is as it was; what the restore had made is removed\n")
                 : absl::StrCat(pvc, " has no restore to undo\n");
    }
    return absl::StrCat(
        pvc, " has its volume ", result.original_volume, " again",
        result.restored_volume.empty()
            ? ""
            : absl::StrCat("; what was restored, ", result.restored_volume, ", is kept until ",
                           inplace::SwapCommand(target, "--finish")),
        "\n");
  }
  if (!result.did_anything) {
    return absl::StrCat(
        pvc, " was restored from VolumeSnapshot ", target.snapshot_name,
        result.at.has_value() ? absl::StrCat(" at ", SnapshotTimeText(result.at)) : "",
        " already, and nothing is done; to do it again, finish that one first: ",
        inplace::SwapCommand(target, "--finish"), "\n");
  }
  return absl::StrCat(pvc, " has the data of VolumeSnapshot ", target.snapshot_name,
                      "; its volume of before, ", result.original_volume,
                      ", is kept\n  back:   ", inplace::SwapCommand(target, "--undo"),
                      "\n  delete: ", inplace::SwapCommand(target, "--finish"), "\n");
}

void ReportResult(Session& session, const SwapTarget& target, RestoreWork work,
                  const SwapResult& result) {
  PrintClusterResult(session, {.value = ResultJson(target, work, result),
                               .table = ResultText(target, work, result),
                               .names = {absl::StrCat("persistentvolumeclaim/", target.pvc_name)}});
}

// A swap that prints its steps. Borrows `limited`, `api` and `session`.
std::unique_ptr<inplace::VolumeSwap> MakeSwap(const CallContext& limited, k8s::ApiClient& api,
                                              Session& session, const SwapTarget& target) {
  return std::make_unique<inplace::VolumeSwap>(
      limited, api, *session.environment().random, target,
      [&session](const inplace::SwapProgress& progress) {
        PrintClusterResult(session, {.value = {{"message_type", "step"},
                                               {"pvc", progress.pvc},
                                               {"step", inplace::VolumeSwap::NameOf(progress.step)},
                                               {"message", progress.text}},
                                     .table = absl::StrCat(Printable(progress.text), "\n")});
      });
}

// OK when no plan has a refusal.
absl::Status RefusedStatus(const std::vector<SwapPlan>& plans) {
  std::vector<Finding> all;
  std::vector<std::string> texts;
  for (const SwapPlan& plan : plans) {
    std::vector<std::string> messages = plan.refused_by_swap;
    for (const Finding& refusal : plan.refusals) {
      messages.push_back(refusal.message);
      all.push_back(refusal);
    }
    if (!messages.empty()) {
      texts.push_back(absl::StrCat("PVC ", NameOf(plan.target),
                                   " is not restored: ", absl::StrJoin(messages, "; and ")));
    }
  }
  if (texts.empty()) {
    return absl::OkStatus();
  }
  const bool are_all = std::all_of(plans.begin(), plans.end(), [](const SwapPlan& plan) {
    return plan.refused_by_swap.empty();
  });
  absl::Status refused = absl::FailedPreconditionError(
      absl::StrCat(absl::StrJoin(texts, "; "), "; nothing is changed"));
  if (are_all && inplace::IsTooSmallAlone(all)) {
    return AsTargetTooSmall(std::move(refused));
  }
  return are_all && csi::IsVolumeBusy(inplace::RefusalStatus("", "", all))
             ? csi::AsVolumeBusy(std::move(refused))
             : refused;
}

class SnapshotRestoreCommand : public ClusterCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override;

  absl::StatusOr<ExitCode> Work() override {
    RETURN_IF_ERROR(CheckFlags());
    ASSIGN_OR_RETURN(namespace_, OneNamespace(cluster(), "snapshot restore"));
    RETURN_IF_ERROR(CheckRights());
    ASSIGN_OR_RETURN(std::vector<SwapTarget> targets, Targets());
    return work() == RestoreWork::kRestore ? Restore(targets) : EndAll(targets);
  }

 private:
  RestoreWork work() const {
    return undo_ ? RestoreWork::kUndo : finish_ ? RestoreWork::kFinish : RestoreWork::kRestore;
  }
  absl::Status CheckFlags() const;
  absl::Status CheckRights() const;
  absl::StatusOr<std::vector<SwapTarget>> Targets() const;
  absl::Status Confirm(const std::vector<SwapTarget>& targets) const;
  absl::StatusOr<ExitCode> Restore(const std::vector<SwapTarget>& targets) const;
  absl::Status SwapAll(const std::vector<SwapPlan>& plans) const;
  absl::Status CheckEnds(const std::vector<SwapTarget>& targets) const;
  absl::StatusOr<ExitCode> EndAll(const std::vector<SwapTarget>& targets) const;

  std::string name_;
  std::string into_;
  std::string set_;
  std::string safety_ = "yes";
  bool undo_ = false;
  bool finish_ = false;
  bool dry_run_ = false;
  bool yes_ = false;
  std::optional<absl::Duration> timeout_ = kRestoreTimeout;
  std::string namespace_;
};

VerbSyntax SnapshotRestoreCommand::Describe(ArgumentTable& table) {
  table.AddOptionalPositional("NAME", "the VolumeSnapshot whose data the PVC gets", name_);
  table.Add("--into", "PVC", "the PVC whose data is replaced", into_);
  table.Add("--set", "SET",
            "all VolumeSnapshots that were taken together under this name, each into the PVC that "
            "it was taken of",
            set_);
  table.AddChoice("--safety", {"yes", "no"},
                  "take a VolumeSnapshot of the PVC first; \"no\" also requires --yes", safety_);
  table.Add("--undo", "give the PVC its previous volume back, and keep the restored one", undo_);
  table.Add("--finish", "delete the volume that is not in use; --undo is not possible afterwards",
            finish_);
  table.Add("--dry-run", "check all, and print what would be done", dry_run_);
  table.Add("--yes", "do not ask; required without a terminal", yes_);
  table.AddWait("--timeout", "how long to wait for the cluster", timeout_);
  return {
      .name = "snapshot restore",
      .summary = "Replace the data of a PVC by that of a VolumeSnapshot",
      .details =
          "The PVC keeps its name, labels, annotations and owners. It gets a new uid, and the next "
          "backup of it is a full one. All checks come before the first change: no Pod uses it, "
          "the VolumeSnapshot is Ready and of the same driver, its size and mode fit, no snapshot "
          "or backup of it is under way. If it is interrupted, run the same command again. It "
          "needs the rights of the ClusterRole csi-delta-snapshot-admin. Exit code 22 when the "
          "volume is too small, 11 while another operation on it is under way.",
      .examples = {"snapshot restore data-20261121-130500 --into data -n shop --dry-run",
                   "snapshot restore --into data -n shop --undo"}};
}

absl::Status SnapshotRestoreCommand::CheckFlags() const {
  if (undo_ && finish_) {
    return absl::InvalidArgumentError("--undo and --finish exclude each other; give one of them");
  }
  if (into_.empty() == set_.empty()) {
    return absl::InvalidArgumentError("give either --into PVC or --set SET");
  }
  if (work() != RestoreWork::kRestore) {
    return name_.empty() ? absl::OkStatus()
                         : absl::InvalidArgumentError(absl::StrCat(
                               "--undo and --finish go by the PVC; leave out ", name_));
  }
  if (name_.empty() == set_.empty()) {
    return absl::InvalidArgumentError("give either NAME and --into PVC, or --set SET");
  }
  if (safety_ == "no" && !yes_ && !dry_run_) {
    return absl::InvalidArgumentError(
        "--safety no replaces data without taking a snapshot of it; give --yes as well");
  }
  return absl::OkStatus();
}

absl::Status SnapshotRestoreCommand::CheckRights() const {
  const absl::Status allowed = inplace::CheckSwapRights(ctx(), api(), namespace_);
  if (!absl::IsPermissionDenied(allowed) || work() != RestoreWork::kRestore) {
    return allowed;
  }
  const std::string promote =
      set_.empty() ? absl::StrCat(name_, " NEW-PVC") : absl::StrCat("--set ", set_);
  return absl::PermissionDeniedError(
      absl::StrCat(allowed.message(),
                   ", or make a new PVC with the rights that you have: csi-delta snapshot promote ",
                   promote, " -n ", namespace_));
}

absl::StatusOr<std::vector<SwapTarget>> SnapshotRestoreCommand::Targets() const {
  std::vector<SwapTarget> targets;
  const bool takes_safety = safety_ == "yes";
  if (!set_.empty()) {
    ASSIGN_OR_RETURN(const std::vector<VolumeSnapshot> snapshots,
                     snapshots::SnapshotsOfSet(ctx(), api(), namespace_, set_));
    for (const VolumeSnapshot& snapshot : snapshots) {
      if (snapshot.source_pvc().empty()) {
        return absl::FailedPreconditionError(
            absl::StrCat("VolumeSnapshot ", snapshot.name(),
                         " does not say which PVC it was taken of; restore it by its name, with "
                         "--into"));
      }
      targets.push_back({.namespace_name = namespace_,
                         .pvc_name = snapshot.source_pvc(),
                         .snapshot_name = snapshot.name(),
                         .snapshot = snapshot,
                         .takes_safety_snapshot = takes_safety});
    }
    return targets;
  }
  SwapTarget target = {.namespace_name = namespace_,
                       .pvc_name = into_,
                       .snapshot_name = name_,
                       .takes_safety_snapshot = takes_safety};
  if (!name_.empty()) {
    const k8s::ObjectKey key = VolumeSnapshot::Key(namespace_, name_);
    ASSIGN_OR_RETURN(target.snapshot, objects::Find<VolumeSnapshot>(ctx(), api(), key));
    if (!target.snapshot.has_value()) {  // Else the plan says so.
      RETURN_IF_ERROR(OrUnserved(ctx(), api(), key, absl::OkStatus()));
    }
  }
  targets.push_back(std::move(target));
  return targets;
}

absl::Status SnapshotRestoreCommand::Confirm(const std::vector<SwapTarget>& targets) const {
  if (yes_) {
    return absl::OkStatus();
  }
  const std::string pvcs = absl::StrCat(
      "PVC ", absl::StrJoin(targets, ", ", [](std::string* out, const SwapTarget& target) {
        absl::StrAppend(out, NameOf(target));
      }));
  return session().Ask(
      ctx(), work() == RestoreWork::kFinish
                 ? absl::StrCat("Delete the volume of ", pvcs, " that is not in use, for good?")
             : work() == RestoreWork::kUndo ? absl::StrCat("Take the restore of ", pvcs, " back?")
                                            : absl::StrCat("Replace the data of ", pvcs, "?"));
}

absl::StatusOr<ExitCode> SnapshotRestoreCommand::Restore(
    const std::vector<SwapTarget>& targets) const {
  ASSIGN_OR_RETURN(const inplace::RestoreSurroundings around,
                   inplace::ReadRestoreSurroundings(ctx(), api(), namespace_));
  console().InfoAll(around.not_checked);
  std::vector<SwapPlan> plans;
  plans.reserve(targets.size());
  for (const SwapTarget& target : targets) {
    ASSIGN_OR_RETURN(SwapPlan plan, inplace::PlanSwap(ctx(), api(), around, target));
    console().InfoAll(plan.not_checked);
    plans.push_back(std::move(plan));
  }
  RETURN_IF_ERROR(RefusedStatus(plans));
  for (const SwapPlan& plan : plans) {
    PrintClusterResult(session(), {.value = PlanJson(plan), .table = PlanText(plan)});
  }
  if (dry_run_) {
    return ExitCode::kOk;
  }
  RETURN_IF_ERROR(Confirm(targets));
  RETURN_IF_ERROR(SwapAll(plans));
  return ExitCode::kOk;
}

// Names the ways on if the run was interrupted.
absl::Status WithWayOn(const absl::Status& status) {
  if (!absl::IsCancelled(status)) {
    return status;
  }
  return absl::CancelledError(
      "interrupted: no data is lost; the same command goes on, and --undo takes it back");
}

absl::Status SnapshotRestoreCommand::SwapAll(const std::vector<SwapPlan>& plans) const {
  const CallContext limited = ctx().WithTimeout(*timeout_);
  std::vector<std::unique_ptr<inplace::VolumeSwap>> swaps;
  swaps.reserve(plans.size());
  for (const SwapPlan& plan : plans) {
    swaps.push_back(MakeSwap(limited, api(), session(), plan.target));
  }
  // No PVC of a set is touched before all are prepared.
  for (std::size_t i = 0; i < plans.size(); ++i) {
    RETURN_IF_ERROR(WithWayOn(swaps[i]->Prepare(plans[i])));
  }
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const absl::StatusOr<SwapResult> result = swaps[i]->Exchange();
    RETURN_IF_ERROR(WithWayOn(result.status()));
    console().InfoAll(result->not_checked);
    ReportResult(session(), plans[i].target, RestoreWork::kRestore, *result);
  }
  return absl::OkStatus();
}

// No PVC of a set is undone or finished unless all can be.
absl::Status SnapshotRestoreCommand::CheckEnds(const std::vector<SwapTarget>& targets) const {
  ASSIGN_OR_RETURN(const inplace::RestoreSurroundings around,
                   inplace::ReadRestoreSurroundings(ctx(), api(), namespace_));
  for (const SwapTarget& target : targets) {
    ASSIGN_OR_RETURN(const inplace::SwapState state,
                     inplace::ReadSwapState(ctx(), api(), namespace_, target.pvc_name));
    if (!state.is_begun() && !state.pvc.has_value()) {
      return absl::NotFoundError(absl::StrCat("PVC ", NameOf(target),
                                              " does not exist, and no volume says that it was "
                                              "restored"));
    }
    if (work() == RestoreWork::kFinish) {
      RETURN_IF_ERROR(inplace::NextOfFinish(state).status());
      RETURN_IF_ERROR(inplace::CheckMayDeleteUnused(ctx(), api(), state));
      ASSIGN_OR_RETURN(const std::string loss, inplace::LossByFinish(ctx(), api(), state));
      if (!loss.empty()) {
        console().Info(loss);
      }
      continue;
    }
    RETURN_IF_ERROR(inplace::NextOfUndo(state).status());
    const auto users = around.pods.has_value() ? inplace::UsersOf(*around.pods, target.pvc_name)
                                               : std::vector<const objects::Pod*>();
    if (state.has_restored() && !users.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("PVC ", NameOf(target), " is not changed: ", inplace::UseText(users)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> SnapshotRestoreCommand::EndAll(
    const std::vector<SwapTarget>& targets) const {
  RETURN_IF_ERROR(CheckEnds(targets));
  if (dry_run_) {
    console().Info("nothing is against it");
    return ExitCode::kOk;
  }
  RETURN_IF_ERROR(Confirm(targets));
  const CallContext limited = ctx().WithTimeout(*timeout_);
  ExitCode code = ExitCode::kOk;
  for (const SwapTarget& target : targets) {
    const auto swap = MakeSwap(limited, api(), session(), target);
    const absl::StatusOr<SwapResult> result = undo_ ? swap->Undo() : swap->Finish();
    RETURN_IF_ERROR(WithWayOn(result.status()));
    ReportResult(session(), target, work(), *result);
    code = result->kept_handles.empty() ? code : ExitCode::kIncomplete;
  }
  return code;
}

}  // namespace

void AddSnapshotRestoreCommand(Commands& all) { AddEach<SnapshotRestoreCommand>(all); }

}  // namespace csidelta::cli
