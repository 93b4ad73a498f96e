#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "cli/cluster_access.h"
#include "cli/command.h"
#include "cli/scratch_restore.h"
#include "cli/text.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "velero/backup.h"

namespace csidelta::cli {
namespace {

using objects::Backup;

constexpr absl::Duration kDrillTimeout = absl::Hours(4);

class DrillCommand : public Command {
 public:
  VerbSyntax Declare() override;
  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override;

 private:
  absl::StatusOr<ScratchRestore> Plan(const CallContext& ctx, k8s::ApiClient& api) const;
  absl::StatusOr<std::string> NewestBackup(const CallContext& ctx, k8s::ApiClient& api) const;
  absl::StatusOr<ExitCode> Print(Session& session, const ScratchRestore& plan,
                                 const std::string& trouble, const RestoredPvcs& result,
                                 const absl::Status& removed) const;

  ClusterAccess access_;
  std::string namespace_;
  std::string backup_;
  std::string into_;
  std::string velero_namespace_ = "velero";
  std::optional<absl::Duration> timeout_;
  bool keep_ = false;
};

VerbSyntax DrillCommand::Declare() {
  ArgumentTable table;
  access_.Declare(table);
  table.AddWord("NAMESPACE", "whose newest backup is restored", namespace_);
  table.Add("--backup", "NAME", "this Backup of Velero instead of the newest", backup_);
  table.Add("--into", "NS", "the scratch namespace; NAMESPACE-drill", into_);
  table.Add("--velero-namespace", "NS", "where Velero runs; velero", velero_namespace_);
  table.AddWait("--timeout", "how long the restore may take, such as 30m; 4h", timeout_);
  table.Add("--keep", "leave the scratch namespace, to look at the application", keep_);
  return {
      .name = "drill",
      .summary = "Verify that the newest backup of a namespace can be restored",
      .details =
          "Asks Velero to restore it into a scratch namespace, waits, looks whether every PVC of "
          "the backup is there with its data, and removes the scratch namespace. Each block is "
          "compared with its hash on the way. The application's Pods run there meanwhile, as "
          "after any restore. The Restore stays as the record. Exit code 1 when something is "
          "missing.",
      .table = std::move(table)};
}

absl::StatusOr<ExitCode> DrillCommand::Run(const CallContext& ctx, Session& session) {
  const std::unique_ptr<k8s::ApiClient> api = access_.MakeClient();
  ASSIGN_OR_RETURN(const ScratchRestore plan, Plan(ctx, *api));
  RETURN_IF_ERROR(CheckScratch(ctx, *api, plan));
  session.console().Note(absl::StrCat("Backup ", plan.backup, " is restored into namespace ",
                                      plan.into, " by Restore ", plan.restore));
  const absl::StatusOr<std::string> trouble =
      RestoreIntoScratch(ctx, *api, plan, timeout_.value_or(kDrillTimeout));
  RETURN_IF_ERROR(
      Annotate(trouble.status(), absl::StrCat("the drill has not ended; kubectl delete namespace ",
                                              plan.into, " removes what it made")));
  ASSIGN_OR_RETURN(const RestoredPvcs result, CompareScratch(ctx, *api, plan));
  const absl::Status removed = keep_ ? absl::OkStatus() : RemoveScratch(ctx, *api, plan);
  return Print(session, plan, *trouble, result, removed);
}

absl::StatusOr<ScratchRestore> DrillCommand::Plan(const CallContext& ctx,
                                                  k8s::ApiClient& api) const {
  ScratchRestore plan{.velero_namespace = velero_namespace_,
                      .from = namespace_,
                      .backup = backup_,
                      .into = into_.empty() ? ScratchName(namespace_, "drill") : into_,
                      .restore = RunName("drill", ctx.clock->Now(), namespace_)};
  if (plan.backup.empty()) {
    ASSIGN_OR_RETURN(plan.backup, NewestBackup(ctx, api));
  }
  return plan;
}

absl::StatusOr<std::string> DrillCommand::NewestBackup(const CallContext& ctx,
                                                       k8s::ApiClient& api) const {
  ASSIGN_OR_RETURN(const std::vector<Backup> backups,
                   objects::List<Backup>(ctx, api, velero_namespace_));
  const Backup* newest = nullptr;
  for (const Backup& backup : backups) {
    const absl::StatusOr<velero::Backup> read = velero::ParseBackup(backup);
    if (!read.ok() || read->phase != "Completed" || backup.is_being_deleted() ||
        !read->IncludesNamespace(namespace_)) {
      continue;
    }
    if (newest == nullptr || backup.created_at() > newest->created_at()) {
      newest = &backup;
    }
  }
  return newest == nullptr ? absl::StatusOr<std::string>(absl::NotFoundError(
                                 absl::StrCat("no Backup in namespace ", velero_namespace_,
                                              " is Completed and includes namespace ", namespace_,
                                              "; name one by --backup, or another Velero by "
                                              "--velero-namespace")))
                           : newest->name();
}

absl::StatusOr<ExitCode> DrillCommand::Print(Session& session, const ScratchRestore& plan,
                                             const std::string& trouble, const RestoredPvcs& result,
                                             const absl::Status& removed) const {
  const int64_t failed = CountFailed(result);
  const bool is_good = trouble.empty() && failed == 0 && !result.empty();
  Json volumes = Json::array();
  std::string text;
  for (const auto& [pvc, error] : result) {
    volumes.push_back({{"pvc", pvc}, {"restored", error.empty()}, {"error", error}});
    absl::StrAppend(&text, "  PVC ", pvc, ": ", error.empty() ? "restored" : Printable(error),
                    "\n");
  }
  if (result.empty()) {
    absl::StrAppend(&text, "  no PVC was restored, so nothing is verified\n");
  }
  if (!trouble.empty()) {
    absl::StrAppend(&text, "  ", Printable(trouble), "\n");
  }
  absl::StrAppend(&text, "Backup ", plan.backup, " of namespace ", plan.from,
                  is_good ? " can be restored\n" : " was not restored as it should be\n");
  session.console().PrintResult({{"message_type", "result"},
                                 {"namespace", plan.from},
                                 {"backup", plan.backup},
                                 {"restore", plan.restore},
                                 {"scratch_namespace", plan.into},
                                 {"scratch_namespace_removed", !keep_ && removed.ok()},
                                 {"ok", is_good},
                                 {"error", trouble},
                                 {"volumes", std::move(volumes)}},
                                text);
  if (keep_) {
    session.console().Note(
        absl::StrCat("kubectl delete namespace ", plan.into, " removes what the drill made"));
  } else if (!removed.ok()) {
    session.console().Note(
        absl::StrCat("namespace ", plan.into, " is not gone yet: ", Printable(removed.message())));
  }
  if (!is_good) {
    return ExitCode::kFailed;
  }
  return removed.ok() ? ExitCode::kOk : ExitCode::kIncomplete;
}

}  // namespace

std::unique_ptr<Command> MakeDrillCommand() { return std::make_unique<DrillCommand>(); }

}  // namespace csidelta::cli
