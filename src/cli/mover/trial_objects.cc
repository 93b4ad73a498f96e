#include "cli/mover/trial_objects.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "k8s/api_client.h"
#include "objects/client.h"
#include "objects/cluster.h"
#include "objects/data_transfer.h"
#include "objects/keys.h"
#include "objects/persistent_volume.h"
#include "objects/protected_volume.h"
#include "velero/data_reference.h"
#include "velero/labels.h"

namespace csidelta::cli {
namespace {

using objects::Backup;
using objects::DataDownload;
using objects::DataUpload;
using objects::DeleteBackupRequest;
using objects::Namespace;
using objects::PersistentVolume;
using objects::PersistentVolumeClaim;
using objects::ProtectedVolume;
using objects::Restore;

constexpr absl::Duration kRemovalTimeout = absl::Minutes(10);
constexpr std::size_t kScratchBaseBytesMax = 50;  // of the name of the namespace in others
constexpr std::size_t kRunBaseBytesMax = 38;
constexpr char kDelete[] = "Delete";

absl::StatusOr<std::vector<DataDownload>> ListDownloads(const CallContext& ctx, k8s::ApiClient& api,
                                                        const ScratchRestore& plan) {
  return objects::List<DataDownload>(ctx, api, plan.velero_namespace,
                                     LabelledWith(objects::kRestoreNameLabel, plan.restore));
}

// Has each volume that the Restore filled go with its PVC. Others may stand for data that was there
// before, such as a volume of NFS, and stay as they are.
absl::Status ReleaseVolumes(const CallContext& ctx, k8s::ApiClient& api,
                            const ScratchRestore& plan) {
  ASSIGN_OR_RETURN(const std::vector<DataDownload> downloads, ListDownloads(ctx, api, plan));
  for (const DataDownload& download : downloads) {
    if (!download.Validate().ok() || download.target_namespace() != plan.into ||
        !download.target_volume().empty()) {
      continue;
    }
    ASSIGN_OR_RETURN(const std::optional<PersistentVolumeClaim> pvc,
                     objects::Find<PersistentVolumeClaim>(
                         ctx, api, PersistentVolumeClaim::Key(plan.into, download.target_pvc())));
    if (!pvc.has_value() || !pvc->is_bound()) {
      continue;
    }
    ASSIGN_OR_RETURN(
        const std::optional<PersistentVolume> volume,
        objects::Find<PersistentVolume>(ctx, api, PersistentVolume::Key("", pvc->volume_name())));
    if (volume.has_value() && volume->is_retained()) {
      RETURN_IF_ERROR(k8s::IgnoreNotFound(
          objects::Apply(ctx, api, volume->key(),
                         objects::Patch().IfUid(volume->uid()).SetReclaimPolicy(kDelete))));
    }
  }
  return absl::OkStatus();
}

// Transfer is DataUpload or DataDownload.
template <typename Transfer>
absl::Status CancelTransfers(const CallContext& ctx, k8s::ApiClient& api,
                             absl::string_view velero_namespace, const k8s::ListOptions& own) {
  ASSIGN_OR_RETURN(const std::vector<Transfer> transfers,
                   objects::List<Transfer>(ctx, api, velero_namespace, own));
  for (const Transfer& transfer : transfers) {
    if (!transfer.is_over() && !transfer.is_cancelled()) {
      RETURN_IF_ERROR(
          k8s::IgnoreNotFound(objects::Apply(ctx, api, transfer.key(), objects::Patch().Cancel())));
    }
  }
  return absl::OkStatus();
}

// Velero goes through the items, and makes transfers.
template <typename Run>
bool MakesTransfers(const Run& run) {
  const std::string phase = run.phase();
  return phase.empty() || phase == "New" || phase == "Queued" || phase == "ReadyToStart" ||
         phase == "InProgress";
}

// Run is Backup or Restore, and Transfer what Velero makes for it. Until Velero is done with it;
// OK if it is gone.
template <typename Run, typename Transfer>
absl::Status EndRun(const CallContext& ctx, k8s::ApiClient& api, const Run& run,
                    const k8s::ListOptions& own) {
  if (run.is_over()) {
    return absl::OkStatus();
  }
  const std::string space = run.namespace_name();
  RETURN_IF_ERROR(CancelTransfers<Transfer>(ctx, api, space, own));
  RETURN_IF_ERROR(
      objects::WaitFor<Run>(ctx, api, run.key(), [](const Run* now) -> absl::StatusOr<bool> {
        return now == nullptr || !MakesTransfers(*now);
      }));
  RETURN_IF_ERROR(CancelTransfers<Transfer>(ctx, api, space, own));
  return objects::WaitFor<Run>(ctx, api, run.key(), [](const Run* now) -> absl::StatusOr<bool> {
    return now == nullptr || now->is_over();
  });
}

// The namespaces that the Restore made, and that are still there.
absl::StatusOr<std::vector<ScratchRestore>> ScratchOf(const CallContext& ctx, k8s::ApiClient& api,
                                                      const Restore& restore) {
  std::vector<ScratchRestore> scratch;
  for (const auto& [from, into] : restore.namespace_mapping()) {
    ASSIGN_OR_RETURN(const std::optional<Namespace> there,
                     objects::Find<Namespace>(ctx, api, Namespace::Key("", into)));
    if (there.has_value() && there->created_at().has_value() &&
        there->created_at() >= restore.created_at()) {
      scratch.push_back({.velero_namespace = restore.namespace_name(),
                         .from = from,
                         .into = into,
                         .restore = restore.name()});
    }
  }
  return scratch;
}

absl::Status RemoveScratchOf(const CallContext& ctx, k8s::ApiClient& api, const Restore& restore) {
  absl::Status first = EndRun<Restore, DataDownload>(
      ctx, api, restore, LabelledWith(objects::kRestoreNameLabel, restore.name()));
  ASSIGN_OR_RETURN(const std::vector<ScratchRestore> scratch, ScratchOf(ctx, api, restore));
  for (const ScratchRestore& one : scratch) {
    first.Update(Annotate(RemoveScratch(ctx, api, one), absl::StrCat("namespace ", one.into)));
  }
  return first;
}

absl::Status DeleteBackup(const CallContext& ctx, k8s::ApiClient& api, const Backup& backup) {
  RETURN_IF_ERROR((EndRun<Backup, DataUpload>(
      ctx, api, backup, LabelledWith(objects::kBackupNameLabel, backup.name()))));
  const DeleteBackupRequest request = DeleteBackupRequest::For(
      backup, absl::StrCat(backup.name(), "-", absl::ToUnixSeconds(ctx.clock->Now())));
  RETURN_IF_ERROR(objects::CreateOrGet(ctx, api, request).status());
  return objects::WaitFor<DeleteBackupRequest>(
      ctx, api, request.key(), [](const DeleteBackupRequest* now) -> absl::StatusOr<bool> {
        if (now != nullptr && now->is_processed() && !now->errors().empty()) {
          return absl::FailedPreconditionError(
              absl::StrCat("Velero did not delete it: ", absl::StrJoin(now->errors(), ", ")));
        }
        return now == nullptr || now->is_processed();
      });
}

// A record that the data mover made for these Backups, and for no other.
bool IsRecordOf(const ProtectedVolume& record, const std::vector<Backup>& backups) {
  const auto is_one = [&backups](const std::string& name) {
    return absl::c_any_of(backups, [&name](const Backup& one) { return one.name() == name; });
  };
  const auto is_older = [&record](const Backup& one) {
    return !record.created_at().has_value() || record.created_at() < one.created_at();
  };
  const objects::ProtectedVolumeStatus status = record.status();
  return !absl::c_all_of(backups, is_older) &&
         (!status.last_good.has_value() || is_one(status.last_good->backup)) &&
         (!status.last_attempt.has_value() || is_one(status.last_attempt->backup));
}

// Without Backups a record would soon report that the newest is too old.
absl::Status DeleteRecords(const CallContext& ctx, k8s::ApiClient& api,
                           const TrialLeftovers& leftovers) {
  if (leftovers.backups.empty()) {
    return absl::OkStatus();
  }
  const absl::StatusOr<std::vector<ProtectedVolume>> records =
      objects::List<ProtectedVolume>(ctx, api, leftovers.backups.front().namespace_name());
  if (absl::IsNotFound(records.status())) {
    return absl::OkStatus();  // of a data mover that has none
  }
  RETURN_IF_ERROR(Annotate(records.status(), "ProtectedVolumes"));
  absl::Status first;
  for (const ProtectedVolume& record : *records) {
    if (record.spec().pvc_namespace == leftovers.namespace_name &&
        IsRecordOf(record, leftovers.backups)) {
      first.Update(k8s::IgnoreGone(
          k8s::IgnoreNotFound(api.Delete(ctx, record.key(), {.uid = record.uid()}))));
    }
  }
  return first;
}

}  // namespace

int64_t CountFailed(const RestoredPvcs& pvcs) {
  return std::count_if(pvcs.begin(), pvcs.end(),
                       [](const auto& pvc) { return !pvc.second.empty(); });
}

k8s::ListOptions LabelledWith(absl::string_view label, absl::string_view name) {
  return {.label_selector = absl::StrCat(label, "=", velero::ValidLabelValue(name)),
          .field_selector = ""};
}

std::string ScratchName(absl::string_view namespace_name) {
  return absl::StrCat(namespace_name.substr(0, kScratchBaseBytesMax), "-try");
}

std::string RunName(absl::Time now, absl::string_view namespace_name) {
  return absl::StrCat("try-", absl::FormatTime("%Y%m%d%H%M%S", now, absl::UTCTimeZone()), "-",
                      namespace_name.substr(0, kRunBaseBytesMax));
}

absl::Status CheckScratch(const CallContext& ctx, k8s::ApiClient& api, const ScratchRestore& plan) {
  if (!velero::IsNamespaceName(plan.from) || !velero::IsNamespaceName(plan.into) ||
      plan.from == plan.into) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", plan.from, "\" and \"", plan.into,
                     "\" are not the names of two namespaces; choose another one by --into"));
  }
  ASSIGN_OR_RETURN(const std::optional<Namespace> there,
                   objects::Find<Namespace>(ctx, api, Namespace::Key("", plan.into)));
  return there.has_value()
             ? absl::FailedPreconditionError(absl::StrCat(
                   "namespace ", plan.into,
                   " exists, and the scratch namespace is removed afterwards: delete it, or choose "
                   "another one by --into"))
             : absl::OkStatus();
}

absl::StatusOr<std::string> RestoreIntoScratch(const CallContext& ctx, k8s::ApiClient& api,
                                               const ScratchRestore& plan, absl::Duration timeout) {
  Restore restore =
      Restore::OfNamespace(plan.velero_namespace, plan.restore, plan.backup, plan.from, plan.into);
  for (const auto& [key, value] : plan.labels) {
    restore.SetLabel(key, value);
  }
  RETURN_IF_ERROR(objects::Create(ctx, api, restore).status());
  std::string trouble;
  const absl::Status status = objects::WaitFor<Restore>(
      ctx.WithTimeout(timeout), api, restore.key(),
      [&](const Restore* now) -> absl::StatusOr<bool> {
        if (now == nullptr) {
          return absl::NotFoundError(absl::StrCat("Restore ", plan.restore, " is gone"));
        }
        if (now->is_over() && now->phase() != "Completed") {
          trouble =
              absl::StrCat("Restore ", plan.restore, " is ", now->phase(),
                           now->failure_reason().empty() ? "" : ": ", now->failure_reason(),
                           "; velero restore describe ", plan.restore, " --details says more");
        }
        return now->is_over();
      });
  if (absl::IsDeadlineExceeded(status) && ctx.Check().ok()) {
    return absl::StrCat("the restore was not over in time; velero restore describe ", plan.restore,
                        " --details says what it waits for");
  }
  RETURN_IF_ERROR(status);
  return trouble;
}

absl::StatusOr<RestoredPvcs> CompareScratch(const CallContext& ctx, k8s::ApiClient& api,
                                            const ScratchRestore& plan) {
  ASSIGN_OR_RETURN(const std::vector<DataUpload> uploads,
                   objects::List<DataUpload>(ctx, api, plan.velero_namespace,
                                             LabelledWith(objects::kBackupNameLabel, plan.backup)));
  RestoredPvcs result;
  for (const DataUpload& upload : uploads) {
    if (upload.source_namespace() == plan.from && upload.phase() == "Completed") {
      result[upload.source_pvc()] = "no DataDownload was made for it";
    }
  }
  ASSIGN_OR_RETURN(const std::vector<DataDownload> downloads, ListDownloads(ctx, api, plan));
  for (const DataDownload& download : downloads) {
    if (download.Validate().ok() && download.target_namespace() == plan.into) {
      result[download.target_pvc()] =
          download.known_phase() == objects::DataPhase::kCompleted
              ? ""
              : absl::StrCat("DataDownload ", download.name(), " is ", download.phase(), ": ",
                             download.message());
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

absl::Status RemoveScratch(const CallContext& ctx, k8s::ApiClient& api,
                           const ScratchRestore& plan) {
  const absl::Status released = ReleaseVolumes(ctx, api, plan);
  const k8s::ObjectKey key = Namespace::Key("", plan.into);
  RETURN_IF_ERROR(k8s::IgnoreNotFound(api.Delete(ctx, key, {})));
  RETURN_IF_ERROR(objects::WaitFor<Namespace>(
      ctx.WithTimeout(kRemovalTimeout), api, key,
      [](const Namespace* scratch) -> absl::StatusOr<bool> { return scratch == nullptr; }));
  return released;
}

std::string TrialLeftovers::Unfinished() const {
  for (const Backup& backup : backups) {
    if (!backup.is_over() && !backup.is_being_deleted()) {
      return absl::StrCat("Backup ", backup.name());
    }
  }
  for (const Restore& restore : restores) {
    if (!restore.is_over() && !restore.is_being_deleted()) {
      return absl::StrCat("Restore ", restore.name());
    }
  }
  return "";
}

absl::StatusOr<TrialLeftovers> FindTrialLeftovers(const CallContext& ctx, k8s::ApiClient& api,
                                                  absl::string_view velero_namespace,
                                                  absl::string_view namespace_name) {
  const k8s::ListOptions own = {
      .label_selector = absl::StrCat(objects::kTrialLabel, "=", namespace_name),
      .field_selector = ""};
  TrialLeftovers leftovers{.namespace_name = std::string(namespace_name)};
  ASSIGN_OR_RETURN(leftovers.backups, objects::List<Backup>(ctx, api, velero_namespace, own));
  ASSIGN_OR_RETURN(leftovers.restores, objects::List<Restore>(ctx, api, velero_namespace, own));
  return leftovers;
}

absl::Status RemoveTrialLeftovers(const CallContext& ctx, k8s::ApiClient& api,
                                  const TrialLeftovers& leftovers) {
  absl::Status first;
  std::vector<k8s::ObjectKey> done;  // Restores without a namespace
  done.reserve(leftovers.restores.size());
  for (const Restore& restore : leftovers.restores) {
    const absl::Status removed = RemoveScratchOf(ctx, api, restore);
    if (removed.ok()) {
      done.push_back(restore.key());
    }
    first.Update(Annotate(removed, absl::StrCat("Restore ", restore.name())));
  }
  if (!first.ok()) {
    return first;
  }
  // Before the Backups, because a later run identifies the records by them. And after them, because
  // the data mover makes a record again if a DataUpload changes meanwhile.
  first.Update(DeleteRecords(ctx, api, leftovers));
  for (const Backup& backup : leftovers.backups) {
    first.Update(Annotate(DeleteBackup(ctx, api, backup), absl::StrCat("Backup ", backup.name())));
  }
  first.Update(DeleteRecords(ctx, api, leftovers));
  for (const k8s::ObjectKey& restore : done) {
    first.Update(k8s::IgnoreNotFound(api.Delete(ctx, restore, {})));
  }
  return first;
}

}  // namespace csidelta::cli
