#include <algorithm>
#include <map>
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
#include "cli/text.h"
#include "k8s/find.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/cluster.h"
#include "objects/data_download.h"
#include "objects/data_upload.h"
#include "objects/keys.h"
#include "objects/persistent_volume_claim.h"
#include "objects/restore.h"
#include "velero/backup.h"
#include "velero/data_reference.h"
#include "velero/data_upload.h"
#include "velero/labels.h"

namespace csidelta::cli {
namespace {

using objects::Backup;
using objects::DataDownload;
using objects::DataUpload;
using objects::Namespace;
using objects::PersistentVolumeClaim;
using objects::Restore;

constexpr absl::Duration kDrillTimeout = absl::Hours(4);
constexpr absl::Duration kRemovalTimeout = absl::Minutes(10);
constexpr std::size_t kScratchBaseBytesMax = 50;  // of the name of the namespace in others

// What a drill makes, and of what.
struct DrillPlan {
  std::string velero_namespace = {};
  std::string from = {};  // the namespace
  std::string backup = {};
  std::string into = {};  // the scratch namespace
  std::string restore = {};
};

// What became of one PVC; "" for one that is restored.
using DrillResult = std::map<std::string, std::string>;

int64_t CountFailed(const DrillResult& result) {
  return std::count_if(result.begin(), result.end(),
                       [](const auto& volume) { return !volume.second.empty(); });
}

class DrillCommand : public Command {
 public:
  VerbSyntax Declare() override;
  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override;

 private:
  absl::StatusOr<DrillPlan> Plan(const CallContext& ctx, k8s::ApiClient& api) const;
  absl::StatusOr<std::string> NewestBackup(const CallContext& ctx, k8s::ApiClient& api) const;
  static absl::Status CheckScratch(const CallContext& ctx, k8s::ApiClient& api,
                                   const DrillPlan& plan);
  // What is not as it should be; "" when the Restore is Completed. Waits until it is over.
  static absl::StatusOr<std::string> RestoreAll(const CallContext& ctx, k8s::ApiClient& api,
                                                const DrillPlan& plan);
  // Holds the PVCs that are there to those that the backup has.
  static absl::StatusOr<DrillResult> Compare(const CallContext& ctx, k8s::ApiClient& api,
                                             const DrillPlan& plan);
  static absl::Status RemoveScratch(const CallContext& ctx, k8s::ApiClient& api,
                                    const DrillPlan& plan);
  absl::StatusOr<ExitCode> Print(Session& session, const DrillPlan& plan,
                                 const std::string& trouble, const DrillResult& result,
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
      .summary = "Prove that the newest backup of a namespace can be restored",
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
  ASSIGN_OR_RETURN(const DrillPlan plan, Plan(ctx, *api));
  RETURN_IF_ERROR(CheckScratch(ctx, *api, plan));
  session.console().Note(absl::StrCat("Backup ", plan.backup, " is restored into namespace ",
                                      plan.into, " by Restore ", plan.restore));
  CallContext restore_ctx = ctx;
  restore_ctx.deadline =
      std::min(ctx.deadline, ctx.clock->Now() + timeout_.value_or(kDrillTimeout));
  absl::StatusOr<std::string> trouble = RestoreAll(restore_ctx, *api, plan);
  if (absl::IsDeadlineExceeded(trouble.status()) && ctx.clock->Now() < ctx.deadline) {
    trouble = absl::StrCat("the restore was not over in time; velero restore describe ",
                           plan.restore, " --details says what it waits for");
  }
  RETURN_IF_ERROR(
      Annotate(trouble.status(), absl::StrCat("the drill has not ended; kubectl delete namespace ",
                                              plan.into, " removes what it made")));
  ASSIGN_OR_RETURN(const DrillResult result, Compare(ctx, *api, plan));
  const absl::Status removed = keep_ ? absl::OkStatus() : RemoveScratch(ctx, *api, plan);
  return Print(session, plan, *trouble, result, removed);
}

absl::StatusOr<DrillPlan> DrillCommand::Plan(const CallContext& ctx, k8s::ApiClient& api) const {
  DrillPlan plan{.velero_namespace = velero_namespace_,
                 .from = namespace_,
                 .backup = backup_,
                 .into = into_.empty()
                             ? absl::StrCat(namespace_.substr(0, kScratchBaseBytesMax), "-drill")
                             : into_};
  if (!velero::IsNamespaceName(plan.from) || !velero::IsNamespaceName(plan.into) ||
      plan.from == plan.into) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", plan.from, "\" and \"", plan.into,
                     "\" are not the names of two namespaces; choose another one by --into"));
  }
  if (plan.backup.empty()) {
    ASSIGN_OR_RETURN(plan.backup, NewestBackup(ctx, api));
  }
  plan.restore = absl::StrCat(
      "drill-", absl::FormatTime("%Y%m%d%H%M%S", ctx.clock->Now(), absl::UTCTimeZone()), "-",
      namespace_.substr(0, kScratchBaseBytesMax - 10));
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

absl::Status DrillCommand::CheckScratch(const CallContext& ctx, k8s::ApiClient& api,
                                        const DrillPlan& plan) {
  ASSIGN_OR_RETURN(const std::optional<Namespace> there,
                   objects::Find<Namespace>(ctx, api, Namespace::Key("", plan.into)));
  return there.has_value()
             ? absl::FailedPreconditionError(absl::StrCat(
                   "namespace ", plan.into,
                   " exists, and a drill removes its scratch namespace: delete it, or choose "
                   "another one by --into"))
             : absl::OkStatus();
}

absl::StatusOr<std::string> DrillCommand::RestoreAll(const CallContext& ctx, k8s::ApiClient& api,
                                                     const DrillPlan& plan) {
  RETURN_IF_ERROR(objects::Create(ctx, api,
                                  Restore::OfNamespace(plan.velero_namespace, plan.restore,
                                                       plan.backup, plan.from, plan.into))
                      .status());
  std::string trouble;
  RETURN_IF_ERROR(objects::WaitFor<Restore>(
      ctx, api, Restore::Key(plan.velero_namespace, plan.restore),
      [&](const Restore* restore) -> absl::StatusOr<bool> {
        if (restore == nullptr) {
          return absl::NotFoundError(absl::StrCat("Restore ", plan.restore, " is gone"));
        }
        if (restore->is_over() && restore->phase() != "Completed") {
          trouble =
              absl::StrCat("Restore ", plan.restore, " is ", restore->phase(),
                           restore->failure_reason().empty() ? "" : ": ", restore->failure_reason(),
                           "; velero restore describe ", plan.restore, " --details says more");
        }
        return restore->is_over();
      }));
  return trouble;
}

absl::StatusOr<DrillResult> DrillCommand::Compare(const CallContext& ctx, k8s::ApiClient& api,
                                                  const DrillPlan& plan) {
  ASSIGN_OR_RETURN(const std::vector<DataUpload> uploads,
                   objects::List<DataUpload>(
                       ctx, api, plan.velero_namespace,
                       {.label_selector = absl::StrCat(objects::kBackupNameLabel, "=",
                                                       velero::ValidLabelValue(plan.backup)),
                        .field_selector = ""}));
  DrillResult result;
  for (const DataUpload& upload : uploads) {
    if (upload.source_namespace() == plan.from && upload.phase() == "Completed") {
      result[upload.source_pvc()] = "no DataDownload was made for it";
    }
  }
  ASSIGN_OR_RETURN(const std::vector<DataDownload> downloads,
                   objects::List<DataDownload>(
                       ctx, api, plan.velero_namespace,
                       {.label_selector = absl::StrCat(objects::kRestoreNameLabel, "=",
                                                       velero::ValidLabelValue(plan.restore)),
                        .field_selector = ""}));
  for (const DataDownload& download : downloads) {
    const absl::StatusOr<velero::DataDownload> read = velero::ParseDataDownload(download);
    if (read.ok() && read->target_namespace == plan.into) {
      result[read->target_claim] = read->phase == velero::DataPhase::kCompleted
                                       ? ""
                                       : absl::StrCat("DataDownload ", read->name, " is ",
                                                      download.phase(), ": ", read->message);
    }
  }
  ASSIGN_OR_RETURN(const std::vector<PersistentVolumeClaim> pvcs,
                   objects::List<PersistentVolumeClaim>(ctx, api, plan.into));
  std::map<std::string, bool> are_bound;
  for (const PersistentVolumeClaim& pvc : pvcs) {
    are_bound[pvc.name()] = pvc.is_bound();
    result.try_emplace(pvc.name());  // of a backup by native snapshots: it is bound, or not
  }
  for (auto& [pvc, trouble] : result) {
    const auto bound = are_bound.find(pvc);
    if (bound == are_bound.end()) {
      trouble = "it is not in the scratch namespace";
    } else if (trouble.empty() && !bound->second) {
      trouble = "it is not bound";
    }
  }
  return result;
}

absl::Status DrillCommand::RemoveScratch(const CallContext& ctx, k8s::ApiClient& api,
                                         const DrillPlan& plan) {
  const k8s::ObjectKey key = Namespace::Key("", plan.into);
  RETURN_IF_ERROR(k8s::IgnoreNotFound(api.Delete(ctx, key, {})));
  CallContext removal_ctx = ctx;
  removal_ctx.deadline = std::min(ctx.deadline, ctx.clock->Now() + kRemovalTimeout);
  return objects::WaitFor<Namespace>(
      removal_ctx, api, key,
      [](const Namespace* scratch) -> absl::StatusOr<bool> { return scratch == nullptr; });
}

absl::StatusOr<ExitCode> DrillCommand::Print(Session& session, const DrillPlan& plan,
                                             const std::string& trouble, const DrillResult& result,
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
    absl::StrAppend(&text, "  no PVC was restored, so nothing is proven\n");
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
