#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "cli/cluster_verb.h"
#include "cli/command.h"
#include "cli/mover/movement_json.h"
#include "cli/mover/trial_needs.h"
#include "cli/mover/trial_objects.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "k8s/informer.h"
#include "k8s/object.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/data_transfer.h"
#include "objects/keys.h"
#include "objects/outcome.h"
#include "velero/data_reference.h"

namespace csidelta::cli {
namespace {

using objects::Backup;
using objects::DataUpload;

constexpr absl::Duration kTrialTimeout = absl::Hours(4);
constexpr absl::Duration kCleanUpTimeout = absl::Minutes(15);
// After that Velero deletes the Backups of a killed run, if no later run has removed them.
constexpr absl::Duration kTrialLifetime = absl::Hours(24);
constexpr int kTrialColumns = 80;
constexpr char kNewestBackup[] = "latest";

// The DataUploads of both backups, one for each PVC. A figure that is missing is 0.
using TrialCosts = std::vector<std::vector<DataUpload>>;

constexpr int kReasonIndent = 4;

std::vector<std::string> CostRow(std::size_t backup, const objects::DataUpload& upload) {
  const objects::BackupFigures figures = upload.figures();
  return {absl::StrCat("  ", backup + 1),
          figures.mode.empty() ? "?" : figures.mode,
          FormatBytes(figures.changed_bytes),
          FormatBytes(figures.read_bytes),
          FormatBytes(figures.audit_bytes),
          FormatBytes(figures.stored_bytes),
          upload.duration().has_value() ? FormatElapsed(*upload.duration()) : ""};
}

// For each PVC a line, and below it a line for each backup: its cost and, if it was full, the
// reason. No line is longer than 80 columns, except for names of PVCs.
std::string FormatCosts(const TrialCosts& costs) {
  using Numbered = std::pair<std::size_t, const objects::DataUpload*>;
  std::map<std::string, std::vector<Numbered>> by_pvc;
  for (std::size_t backup = 0; backup < costs.size(); ++backup) {
    for (const objects::DataUpload& upload : costs[backup]) {
      by_pvc[upload.source_pvc()].emplace_back(backup, &upload);
    }
  }
  std::string text;
  for (const auto& [pvc, of_pvc] : by_pvc) {
    std::vector<std::vector<std::string>> rows = {
        {"  Backup", "Mode", "Changed", "Read", "Audited", "Uploaded", "Time"}};
    std::string reasons;
    for (const auto& [backup, upload] : of_pvc) {
      rows.push_back(CostRow(backup, *upload));
      const objects::BackupFigures figures = upload->figures();
      if (!figures.reason.empty()) {
        absl::StrAppend(
            &reasons, WrapText(Printable(absl::StrCat("backup ", backup + 1, " was ", figures.mode,
                                                      ": ", objects::ReasonText(figures))),
                               kReasonIndent, kTrialColumns));
      }
    }
    absl::StrAppend(&text, "PVC ", Printable(pvc), ", ",
                    FormatBytes(of_pvc.back().second->figures().logical_bytes), "\n",
                    FormatTable(rows), reasons);
  }
  return text;
}

// The objects that a run makes.
struct TrialPlan {
  std::vector<std::string> backups = {};  // two; none with --backup
  ScratchRestore scratch = {};            // of the second backup, or of the one that --backup names

  std::string RestoredBackup() const {
    return backups.empty() ? absl::StrCat("Backup ", scratch.backup) : "the second backup";
  }
};

// The result of a run.
struct TrialResult {
  TrialCosts costs = {};
  std::string trouble = {};  // with the Restore; "": it is Completed
  RestoredPvcs pvcs = {};
  std::vector<std::string> unmoved = {};  // PVCs that the data mover was not given

  bool is_restored() const {
    return trouble.empty() && !pvcs.empty() && CountFailed(pvcs) == 0 &&
           (costs.empty() || !costs.back().empty());
  }
  // True where no backup was made.
  bool is_incremental() const {
    return costs.empty() ||
           (!costs.back().empty() && absl::c_all_of(costs.back(), [](const DataUpload& upload) {
             return upload.figures().mode == "incremental";
           }));
  }
  int64_t Sum(int64_t objects::BackupFigures::*bytes) const {  // of the second backup
    CSIDELTA_CHECK(!costs.empty());  // --backup makes no backup, and prints no sums
    int64_t sum = 0;
    for (const DataUpload& upload : costs.back()) {
      sum += upload.figures().*bytes;
    }
    return sum;
  }
};

// Reports to `meter`, which it borrows, how far the transfers of a Backup or Restore are, in bytes,
// until it is destroyed. Without the right to watch them, it reports the stage alone.
std::jthread ReportTransfers(const CallContext& ctx, k8s::ApiClient& api,
                             const k8s::WatchedObjects& transfers, const std::string& stage,
                             ProgressMeter& meter) {
  meter.ReportCount(stage, 0, 0);
  return std::jthread([=, &api, &meter](const std::stop_token& stop) {
    CallContext context = ctx;
    context.stop = stop;
    std::map<std::string, incremental::TransferProgress> all;  // by name
    const auto report = [&](const k8s::WatchEvent& event) {
      incremental::TransferProgress& one = all[k8s::Name(event.object)];
      one.done_bytes = GetInt(event.object, {"status", "progress", "bytesDone"});
      one.total_bytes = GetInt(event.object, {"status", "progress", "totalBytes"});
      incremental::TransferProgress sum;
      for (const auto& [name, transfer] : all) {
        sum.done_bytes += transfer.done_bytes;
        sum.total_bytes += transfer.total_bytes;
      }
      meter.ReportBytes(stage, sum.done_bytes, sum.total_bytes);
      return true;
    };
    while (!stop.stop_requested() && api.Watch(context, transfers.type, transfers.namespace_name,
                                               {.label_selector = transfers.label_selector}, report)
                                         .ok()) {
    }
  });
}

class TryCommand : public MoverCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override;
  absl::StatusOr<ExitCode> Work() override;

 private:
  absl::StatusOr<TrialPlan> Plan() const;
  absl::StatusOr<std::string> NewestBackup() const;
  // Removes what earlier runs left. Whether there was a run that is not over, and that stays.
  absl::StatusOr<bool> RemoveEarlier() const;
  // All that is labelled, even where `ctx` is stopped.
  absl::Status RemoveAll() const;
  absl::StatusOr<ExitCode> CleanUp() const;
  absl::StatusOr<TrialResult> RunTrial(const TrialPlan& plan, const TrialNeeds& needs,
                                       ProgressMeter& meter) const;
  // Makes a Backup, and waits until it is Completed.
  absl::StatusOr<std::vector<DataUpload>> BackUp(const std::string& name) const;
  absl::Status AwaitBackup(const std::string& name) const;
  absl::StatusOr<std::vector<DataUpload>> UploadsOf(const std::string& backup) const;
  ExitCode Print(const TrialPlan& plan, const TrialResult& result,
                 const absl::Status& removed) const;
  std::string Verdict(const TrialPlan& plan, const TrialResult& result,
                      const absl::Status& removed) const;

  TrialRequest request_;
  std::string namespace_;  // by -n
  std::string backup_;     // "": two are made
  std::string into_;
  std::optional<absl::Duration> between_;
  std::optional<absl::Duration> timeout_ = kTrialTimeout;
  bool keep_ = false;
  bool keep_namespace_ = false;
  bool clean_up_ = false;
};

VerbSyntax TryCommand::Describe(ArgumentTable& table) {
  table.AddOptionalPositional("NAMESPACE", "which is backed up and restored; or -n NAMESPACE",
                              request_.namespace_name);
  table.Add("-n,--namespace", "NAMESPACE", "the same", namespace_);
  table.Add("--backup", "NAME",
            "make no backup, and restore this Backup of Velero; \"latest\" is the newest", backup_);
  table.Add("--into", "NS", "the scratch namespace (default: NAMESPACE-try)", into_);
  table.Add("--location", "NAME", "the BackupStorageLocation (default: Velero's)",
            request_.location);
  table.AddWait("--between",
                "how long applications may write before the second backup, such as 5m (default: 0)",
                between_);
  table.AddWait("--timeout", "how long each backup and the restore may take", timeout_);
  table.Add("--keep", "keep both Backups", keep_);
  table.Add("--keep-namespace",
            "leave all that was made, to look at the application; --clean-up and the next run "
            "remove it",
            keep_namespace_);
  table.Add("--clean-up", "only remove what an earlier run left", clean_up_);
  return {
      .name = "try",
      .summary = "Back up a namespace twice, restore it, and report the cost",
      .details =
          "Has Velero back the namespace up twice with the data mover, and restore the second "
          "backup into a scratch namespace. With --backup it only restores. Each block is compared "
          "with its hash on the way, and the PVCs with those of the backup. The application's Pods "
          "run in the scratch namespace meanwhile, as after any restore; yours are not touched. "
          "Then all that was made is removed: scratch namespace, Restore, and both Backups unless "
          "--keep is given, also after Ctrl-C; what a run that was killed leaves, the next one "
          "removes. Exit code 1 when a backup or the restore failed, 3 when the restore is good, "
          "but the second backup was not incremental or something could not be removed, 11 while "
          "another run is not over.",
      .examples = {"try shop", "try shop --backup latest --context prod  # only the restore"}};
}

absl::StatusOr<ExitCode> TryCommand::Work() {
  if (request_.namespace_name.empty() == namespace_.empty()) {
    return absl::InvalidArgumentError("name one namespace to try: csi-delta try shop");
  }
  request_.namespace_name += namespace_;  // One of them is empty.
  request_.mover_namespace = cluster().mover_namespace;
  ASSIGN_OR_RETURN(request_.velero_namespace, cluster().OneVelero());
  ProgressMeter meter(console(), *ctx().clock,
                      clean_up_ ? "removing what was left" : "looking at the cluster");
  if (clean_up_) {
    return CleanUp();
  }
  if (!backup_.empty() && (keep_ || between_.has_value() || !request_.location.empty())) {
    return absl::InvalidArgumentError(
        "with --backup no backup is made; leave out --keep, --between and --location");
  }
  request_.keeps_backups = keep_;
  TrialNeeds needs;
  if (backup_.empty()) {
    ASSIGN_OR_RETURN(needs, CheckTrialNeeds(ctx(), api(), request_));
  }
  console().InfoAll(needs.notes);
  ASSIGN_OR_RETURN(const bool is_busy, RemoveEarlier());
  if (is_busy) {
    return ExitCode::kLocked;
  }
  ASSIGN_OR_RETURN(const TrialPlan plan, Plan());
  RETURN_IF_ERROR(CheckScratch(ctx(), api(), plan.scratch));
  const absl::StatusOr<TrialResult> result = RunTrial(plan, needs, meter);
  if (absl::IsCancelled(result.status())) {
    console().Info(
        absl::StrCat("interrupted: what the try made is being removed; Ctrl-C again leaves it for "
                     "csi-delta try ",
                     request_.namespace_name, " --clean-up"));
  }
  meter.ReportCount("removing what was made", 0, 0);
  const absl::Status removed = keep_namespace_ && result.ok() ? absl::OkStatus() : RemoveAll();
  if (!removed.ok()) {
    console().Warn(absl::StrCat("not all that the try made is removed: ", removed.message(),
                                "; csi-delta try ", request_.namespace_name,
                                " --clean-up tries again"));
  }
  RETURN_IF_ERROR(result.status());
  return Print(plan, *result, removed);
}

absl::StatusOr<TrialPlan> TryCommand::Plan() const {
  const std::string name = RunName(ctx().clock->Now(), request_.namespace_name);
  TrialPlan plan;
  plan.scratch = {
      .velero_namespace = request_.velero_namespace,
      .from = request_.namespace_name,
      .backup = backup_,
      .into = into_.empty() ? ScratchName(request_.namespace_name) : into_,
      .restore = name,
      .labels = {{objects::kTrialLabel, request_.namespace_name}},
  };
  if (backup_.empty()) {
    plan.backups = {absl::StrCat(name, "-1"), absl::StrCat(name, "-2")};
    plan.scratch.backup = plan.backups.back();
  } else if (backup_ == kNewestBackup) {
    ASSIGN_OR_RETURN(plan.scratch.backup, NewestBackup());
  }
  return plan;
}

absl::StatusOr<std::string> TryCommand::NewestBackup() const {
  ASSIGN_OR_RETURN(const std::vector<Backup> backups,
                   objects::List<Backup>(ctx(), api(), request_.velero_namespace));
  const Backup* newest = nullptr;
  for (const Backup& backup : backups) {
    if (backup.Validate().ok() && backup.phase() == "Completed" && !backup.is_being_deleted() &&
        backup.IncludesNamespace(request_.namespace_name) &&
        (newest == nullptr || backup.created_at() > newest->created_at())) {
      newest = &backup;
    }
  }
  if (newest == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("no Backup in namespace ", request_.velero_namespace,
                     " is Completed and includes namespace ", request_.namespace_name,
                     "; name one by --backup, or another Velero by --velero-namespace"));
  }
  return newest->name();
}

absl::StatusOr<bool> TryCommand::RemoveEarlier() const {
  ASSIGN_OR_RETURN(
      const TrialLeftovers earlier,
      FindTrialLeftovers(ctx(), api(), request_.velero_namespace, request_.namespace_name));
  const std::string unfinished = earlier.Unfinished();
  if (!unfinished.empty()) {
    console().Fail(ExitCode::kLocked,
                   absl::StrCat(unfinished,
                                " of another csi-delta try is not over; wait for it, or "
                                "cancel and remove it by csi-delta try ",
                                request_.namespace_name, " --clean-up"));
    return true;
  }
  if (!earlier.empty()) {
    console().Info("what an earlier run left is being removed");
    RETURN_IF_ERROR(
        Annotate(RemoveTrialLeftovers(ctx().WithTimeout(kCleanUpTimeout), api(), earlier),
                 "what an earlier run left is not removed"));
  }
  return false;
}

absl::Status TryCommand::RemoveAll() const {
  CallContext removal = ctx();
  removal.stop = {};
  removal.deadline = ctx().clock->Uptime() + kCleanUpTimeout;
  ASSIGN_OR_RETURN(
      const TrialLeftovers made,
      FindTrialLeftovers(removal, api(), request_.velero_namespace, request_.namespace_name));
  return RemoveTrialLeftovers(removal, api(), made);
}

absl::StatusOr<ExitCode> TryCommand::CleanUp() const {
  ASSIGN_OR_RETURN(
      const TrialLeftovers earlier,
      FindTrialLeftovers(ctx(), api(), request_.velero_namespace, request_.namespace_name));
  RETURN_IF_ERROR(RemoveTrialLeftovers(ctx().WithTimeout(kCleanUpTimeout), api(), earlier));
  console().PrintResult(
      {{"message_type", "result"},
       {"namespace", request_.namespace_name},
       {"removed_backups", earlier.backups.size()},
       {"removed_restores", earlier.restores.size()}},
      earlier.empty() ? "nothing to remove\n" : "what earlier runs left is removed\n");
  return ExitCode::kOk;
}

absl::StatusOr<TrialResult> TryCommand::RunTrial(const TrialPlan& plan, const TrialNeeds& needs,
                                                 ProgressMeter& meter) const {
  TrialResult result;
  for (const std::string& backup : plan.backups) {
    if (!result.costs.empty() && between_.has_value()) {
      console().Info(absl::StrCat("waiting ", absl::FormatDuration(*between_),
                                  " for the applications to write"));
      meter.ReportCount("waiting", 0, 0);
      ctx().clock->SleepFor(*between_, ctx().stop);
      RETURN_IF_ERROR(ctx().Check());
    }
    console().Info(absl::StrCat("Backup ", backup, " is being made (", result.costs.size() + 1,
                                " of ", plan.backups.size(), "); csi-delta status shows how far"));
    const std::jthread reporter =
        ReportTransfers(ctx(), api(),
                        {DataUpload::Type(), request_.velero_namespace,
                         LabelledWith(objects::kBackupNameLabel, backup).label_selector},
                        absl::StrCat("backing up ", request_.namespace_name, " (",
                                     result.costs.size() + 1, " of ", plan.backups.size(), ")"),
                        meter);
    ASSIGN_OR_RETURN(std::vector<DataUpload> costs, BackUp(backup));
    result.costs.push_back(std::move(costs));
  }
  console().Info(absl::StrCat("Backup ", plan.scratch.backup, " is being restored into namespace ",
                              plan.scratch.into));
  const std::jthread reporter = ReportTransfers(
      ctx(), api(),
      {objects::DataDownload::Type(), request_.velero_namespace,
       LabelledWith(objects::kRestoreNameLabel, plan.scratch.restore).label_selector},
      absl::StrCat("restoring into ", plan.scratch.into), meter);
  ASSIGN_OR_RETURN(result.trouble, RestoreIntoScratch(ctx(), api(), plan.scratch, *timeout_));
  ASSIGN_OR_RETURN(result.pvcs, CompareScratch(ctx(), api(), plan.scratch));
  for (const std::string& pvc : needs.pvcs) {
    if (!absl::c_any_of(result.costs.back(),
                        [&pvc](const DataUpload& upload) { return upload.source_pvc() == pvc; })) {
      result.unmoved.push_back(pvc);
      result.pvcs.erase(pvc);
    }
  }
  return result;
}

absl::StatusOr<std::vector<DataUpload>> TryCommand::BackUp(const std::string& name) const {
  Backup backup = Backup::OfNamespace(request_.velero_namespace, name, request_.namespace_name,
                                      objects::kDataMoverName, request_.location);
  if (!keep_) {
    backup.SetLabel(objects::kTrialLabel, request_.namespace_name);
    backup.SetTimeToLive(kTrialLifetime);
  }
  RETURN_IF_ERROR(objects::Create(ctx(), api(), backup).status());
  RETURN_IF_ERROR(AwaitBackup(name));
  return UploadsOf(name);
}

absl::Status TryCommand::AwaitBackup(const std::string& name) const {
  std::string trouble;
  const absl::Status status = objects::WaitFor<Backup>(
      ctx().WithTimeout(*timeout_), api(), Backup::Key(request_.velero_namespace, name),
      [&](const Backup* now) -> absl::StatusOr<bool> {
        if (now == nullptr) {
          return absl::NotFoundError(absl::StrCat("Backup ", name, " was deleted meanwhile"));
        }
        if (now->is_over() && now->phase() != "Completed") {
          std::vector<std::string> reasons = now->validation_errors();
          reasons.push_back(now->failure_reason());
          reasons.erase(std::remove(reasons.begin(), reasons.end(), ""), reasons.end());
          trouble = absl::StrCat("Backup ", name, " is ", now->phase(), reasons.empty() ? "" : ": ",
                                 absl::StrJoin(reasons, ", "));
        }
        return now->is_over();
      });
  if (absl::IsDeadlineExceeded(status) && ctx().Check().ok()) {
    trouble = absl::StrCat("Backup ", name, " was not over in time");
  } else {
    RETURN_IF_ERROR(status);
  }
  if (trouble.empty()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<DataUpload> uploads, UploadsOf(name));
  for (const DataUpload& upload : uploads) {
    if (upload.phase() != "Completed") {
      absl::StrAppend(&trouble, ": PVC ", upload.source_pvc(), ": DataUpload is ",
                      upload.phase().empty() ? "New" : upload.phase(),
                      upload.message().empty() ? "" : ": ", upload.message());
    }
  }
  return absl::FailedPreconditionError(
      absl::StrCat(trouble,
                   "; csi-delta doctor looks for the cause, and --keep leaves the Backup "
                   "for velero backup describe --details"));
}

absl::StatusOr<std::vector<DataUpload>> TryCommand::UploadsOf(const std::string& backup) const {
  return objects::List<DataUpload>(ctx(), api(), request_.velero_namespace,
                                   LabelledWith(objects::kBackupNameLabel, backup));
}

ExitCode TryCommand::Print(const TrialPlan& plan, const TrialResult& result,
                           const absl::Status& removed) const {
  Json backups = Json::array();
  for (std::size_t i = 0; i < result.costs.size(); ++i) {
    Json volumes = Json::array();
    for (const DataUpload& upload : result.costs[i]) {
      volumes.push_back(FiguresJson(upload));
      volumes.back()["pvc"] = upload.source_pvc();
    }
    backups.push_back({{"backup", plan.backups[i]}, {"volumes", std::move(volumes)}});
  }
  Json volumes = Json::array();
  for (const auto& [pvc, error] : result.pvcs) {
    volumes.push_back({{"pvc", pvc}, {"restored", error.empty()}, {"error", error}});
  }
  console().PrintResult(
      {{"message_type", "result"},
       {"namespace", request_.namespace_name},
       {"ok", result.is_restored()},
       {"incremental", result.costs.empty() ? Json() : Json(result.is_incremental())},
       {"backup", plan.scratch.backup},
       {"backups", std::move(backups)},
       {"scratch_namespace", plan.scratch.into},
       {"error", result.trouble},
       {"volumes", std::move(volumes)},
       {"not_moved", result.unmoved},
       {"kept_backups", keep_},
       {"removed", removed.ok() && !keep_namespace_}},
      absl::StrCat(result.costs.empty() ? "" : absl::StrCat(FormatCosts(result.costs), "\n"),
                   Verdict(plan, result, removed)));
  if (!result.is_restored()) {
    return ExitCode::kFailed;
  }
  return result.is_incremental() && result.unmoved.empty() && removed.ok() ? ExitCode::kOk
                                                                           : ExitCode::kIncomplete;
}

std::string TryCommand::Verdict(const TrialPlan& plan, const TrialResult& result,
                                const absl::Status& removed) const {
  std::string text;
  const auto add = [&text](absl::string_view sentence) {
    absl::StrAppend(&text, WrapText(Printable(sentence), 0, kTrialColumns));
  };
  for (const auto& [pvc, error] : result.pvcs) {
    if (!error.empty()) {
      add(absl::StrCat("PVC ", pvc, ": ", error));
    }
  }
  if (!result.trouble.empty()) {
    add(result.trouble);
  }
  for (const std::string& pvc : result.unmoved) {
    add(absl::StrCat("PVC ", pvc, " was not moved by the data mover: a label, an annotation or a ",
                     "volume policy excludes it"));
  }
  if (!result.is_restored()) {
    add(absl::StrCat("Not verified: ", plan.RestoredBackup(), " could not be restored",
                     result.pvcs.empty() ? ": no PVC was restored." : "."));
  } else {
    add(absl::StrCat("Verified: ", plan.RestoredBackup(), " was restored into namespace ",
                     plan.scratch.into, ", ",
                     Counted(static_cast<int64_t>(result.pvcs.size()), "PVC"),
                     ", and each block was compared with its hash."));
  }
  if (!result.is_incremental()) {
    add("The second backup was not incremental for each PVC, so no incremental restore is "
        "verified. The reasons are above; docs/full-backups.md says what to do about each.");
  } else if (!result.costs.empty()) {
    add(absl::StrCat("The second backup was incremental: of ",
                     FormatBytes(result.Sum(&objects::BackupFigures::logical_bytes)), " it read ",
                     FormatBytes(result.Sum(&objects::BackupFigures::read_bytes)),
                     ", and uploaded ",
                     FormatBytes(result.Sum(&objects::BackupFigures::stored_bytes)), "."));
    if (result.Sum(&objects::BackupFigures::changed_bytes) == 0) {
      add("Nothing had changed since the first one, so this is the least that a backup costs; with "
          "--between 5m the applications have time to write.");
    }
  }
  if (keep_) {
    add(absl::StrCat("Backups ", absl::StrJoin(plan.backups, " and "),
                     " stay; velero backup delete removes them."));
  }
  if (keep_namespace_) {
    add(absl::StrCat("Namespace ", plan.scratch.into, " stays; csi-delta try ",
                     request_.namespace_name, " --clean-up removes what was made."));
  } else if (removed.ok()) {
    add(keep_ ? "All else that was made is removed." : "All that was made is removed.");
  }
  return text;
}

}  // namespace

void AddTryCommand(Commands& all) { AddEach<TryCommand>(all); }

}  // namespace csidelta::cli
