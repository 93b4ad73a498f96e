#include "cli/mover/trial_leftovers.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "cli/mover/scratch_restore.h"
#include "k8s/api_client.h"
#include "objects/client.h"
#include "objects/cluster.h"
#include "objects/data_transfer.h"
#include "objects/keys.h"
#include "objects/protected_volume.h"

namespace csidelta::cli {
namespace {

using objects::Backup;
using objects::DataDownload;
using objects::DataUpload;
using objects::DeleteBackupRequest;
using objects::Namespace;
using objects::ProtectedVolume;
using objects::Restore;

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
// OK where it is gone.
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
  // Before the Backups, which tell a later run whose the records are; and after them, because the
  // data mover makes a record again where it is told of a DataUpload once more.
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
