#include "datamover/archive_reconciler.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/data_transfer.h"
#include "csi/snapshot_types.h"
#include "datamover/data_deletion.h"
#include "k8s/event_recorder.h"
#include "k8s/find.h"
#include "velero/data_reference.h"

namespace csidelta::datamover {
namespace {

struct Owner {
  std::string name;
  std::string uid;
};

std::optional<Owner> BackupOf(const Json& upload) {
  const Json* owners = FindJson(upload, {"metadata", "ownerReferences"});
  if (owners == nullptr || !owners->is_array()) {
    return std::nullopt;
  }
  for (const Json& owner : *owners) {
    if (GetString(owner, {"kind"}) == "Backup" &&
        absl::StartsWith(GetString(owner, {"apiVersion"}), "velero.io/")) {
      return Owner{.name = GetString(owner, {"name"}), .uid = GetString(owner, {"uid"})};
    }
  }
  return std::nullopt;
}

bool IsArchived(const std::string& phase) {
  return phase == "Completed" || phase == "PartiallyFailed";
}

}  // namespace

absl::StatusOr<absl::Time> ArchiveReconciler::Reconcile(const CallContext& ctx,
                                                        const Json& object) {
  if (!Concerns(object)) {
    return absl::InfiniteFuture();
  }
  const absl::StatusOr<velero::DataUpload> upload = velero::ParseDataUpload(object);
  const std::optional<Owner> owner = BackupOf(object);
  ASSIGN_OR_RETURN(
      const std::optional<Json> backup,
      k8s::Find(ctx, env_.api, {csi::BackupType(), upload->namespace_name, owner->name}));
  if (!backup.has_value() || csi::Uid(*backup) != owner->uid) {
    return absl::InfiniteFuture();
  }
  const std::string phase = GetString(*backup, {"status", "phase"});
  if (IsArchived(phase)) {
    std::scoped_lock lock(mutex_);
    archived_.insert(owner->uid);
    return absl::InfiniteFuture();
  }
  if (phase != "Failed") {
    return ctx.clock->Now() + kArchiveLookEvery;
  }
  RETURN_IF_ERROR(AskToGo(ctx, object, *upload, owner->name));
  return absl::InfiniteFuture();
}

bool ArchiveReconciler::Concerns(const Json& object) const {
  const absl::StatusOr<velero::DataUpload> upload = velero::ParseDataUpload(object);
  const std::optional<Owner> owner = BackupOf(object);
  if (!upload.ok() || upload->data_mover != velero::kDataMoverName ||
      upload->phase != velero::DataPhase::kCompleted || !owner.has_value()) {
    return false;
  }
  std::scoped_lock lock(mutex_);
  return !archived_.contains(owner->uid);
}

void ArchiveReconciler::Reduce(Json& object) const {
  Json& metadata = object["metadata"];
  for (const char* field :
       {"annotations", "creationTimestamp", "finalizers", "generation", "resourceVersion"}) {
    metadata.erase(field);
  }
  Json status;
  for (const char* field : {"phase", "snapshotID"}) {
    status[field] = GetString(object, {"status", field});
  }
  object["status"] = std::move(status);
}

absl::Status ArchiveReconciler::AskToGo(const CallContext& ctx, const Json& object,
                                        const velero::DataUpload& upload,
                                        const std::string& backup) {
  const absl::StatusOr<velero::DataReference> reference =
      velero::ParseDataReference(GetString(object, {"status", "snapshotID"}));
  if (!reference.ok()) {
    return absl::OkStatus();  // Nothing of ours.
  }
  const absl::Status made =
      env_.api
          .Create(ctx, csi::DataDeletionType(), upload.namespace_name,
                  MakeDeletionOfUnnamed(upload, *reference, /*worker_ended=*/true))
          .status();
  if (absl::IsAlreadyExists(made)) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(made);
  const std::string message =
      absl::StrCat("Backup ", backup,
                   " failed before it wrote its archive: what was moved can never be restored, and "
                   "is removed from the bucket");
  CSIDELTA_LOG(kWarn, message, {"namespace", upload.namespace_name}, {"name", upload.name});
  const absl::Status told = k8s::EmitEvent(ctx, env_.api, object, k8s::EventType::kWarning,
                                           "BackupFailed", message, kMoverComponent);
  if (!told.ok()) {
    CSIDELTA_LOG(kWarn, "the event was not written", {"namespace", upload.namespace_name},
                 {"name", upload.name}, {"error", std::string(told.message())});
  }
  return absl::OkStatus();
}

}  // namespace csidelta::datamover
