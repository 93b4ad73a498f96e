#include "datamover/archive_reconciler.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "csi/data_transfer.h"
#include "csi/snapshot_types.h"
#include "datamover/data_deletion.h"
#include "k8s/event_recorder.h"
#include "k8s/find.h"
#include "k8s/object.h"
#include "objects/keys.h"
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

// Whether the plugin that made the upload was to mark it when it enters the archive, and has not.
bool IsMarkAwaited(const Json& upload) {
  return k8s::Annotation(upload, objects::kArchivedAnnotation) == objects::kArchiveAwaited;
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
  ASSIGN_OR_RETURN(const Backup backup,
                   BackupAsRead(ctx, {csi::BackupType(), upload->namespace_name, owner->name}));
  if (backup.uid != owner->uid) {
    return absl::InfiniteFuture();
  }
  if (IsArchived(backup.phase)) {
    ASSIGN_OR_RETURN(const bool is_awaited, IsAwaited(ctx, object));
    if (is_awaited) {
      RETURN_IF_ERROR(AskToGo(ctx, object, *upload, "NotInArchive",
                              absl::StrCat("Backup ", owner->name,
                                           " is over, and the DataUpload is "
                                           "not in its archive")));
    }
    const MutexLock lock(mutex_);
    over_.insert(owner->uid);
    return absl::InfiniteFuture();
  }
  if (backup.phase != "Failed") {
    return backup.read_at + kArchiveLookEvery;
  }
  RETURN_IF_ERROR(
      AskToGo(ctx, object, *upload, "BackupFailed",
              absl::StrCat("Backup ", owner->name, " failed before it wrote its archive")));
  return absl::InfiniteFuture();
}

// One that goes on is read once for all of its uploads. That it is over, or gone, is not remembered
// here.
absl::StatusOr<ArchiveReconciler::Backup> ArchiveReconciler::BackupAsRead(
    const CallContext& ctx, const k8s::ObjectKey& key) {
  const std::pair name(key.namespace_name, key.name);
  const absl::Time now = ctx.clock->Now();
  {
    const MutexLock lock(mutex_);
    const auto found = going_on_.find(name);
    if (found != going_on_.end() && now < found->second.read_at + kArchiveLookEvery) {
      return found->second;
    }
  }
  ASSIGN_OR_RETURN(const Json object, k8s::FindOrNull(ctx, env_.api, key));
  const Backup backup{
      .uid = k8s::Uid(object), .phase = GetString(object, {"status", "phase"}), .read_at = now};
  const MutexLock lock(mutex_);
  if (object.is_null() || IsArchived(backup.phase) || backup.phase == "Failed") {
    going_on_.erase(name);
  } else {
    going_on_[name] = backup;
  }
  return backup;
}

bool ArchiveReconciler::Concerns(const Json& object) const {
  const absl::StatusOr<velero::DataUpload> upload = velero::ParseDataUpload(object);
  const std::optional<Owner> owner = BackupOf(object);
  if (!upload.ok() || upload->data_mover != velero::kDataMoverName ||
      upload->phase != velero::DataPhase::kCompleted || !owner.has_value()) {
    return false;
  }
  const MutexLock lock(mutex_);
  return !over_.contains(owner->uid) || IsMarkAwaited(object);
}

void ArchiveReconciler::Reduce(Json& object) const {
  const std::string mark = k8s::Annotation(object, objects::kArchivedAnnotation);
  Json& metadata = object["metadata"];
  for (const char* field :
       {"annotations", "creationTimestamp", "finalizers", "generation", "resourceVersion"}) {
    metadata.erase(field);
  }
  if (!mark.empty()) {
    metadata["annotations"][objects::kArchivedAnnotation] = mark;
  }
  Json status;
  for (const char* field : {"phase", "snapshotID"}) {
    status[field] = GetString(object, {"status", field});
  }
  object["status"] = std::move(status);
}

// The plugin marks an upload before its Backup is over, so only what is read afterwards tells.
absl::StatusOr<bool> ArchiveReconciler::IsAwaited(const CallContext& ctx, const Json& object) {
  if (!IsMarkAwaited(object)) {
    return false;
  }
  ASSIGN_OR_RETURN(
      const std::optional<Json> now,
      k8s::Find(ctx, env_.api, {csi::DataUploadType(), k8s::Namespace(object), k8s::Name(object)}));
  return now.has_value() && k8s::Uid(*now) == k8s::Uid(object) && IsMarkAwaited(*now);
}

absl::Status ArchiveReconciler::AskToGo(const CallContext& ctx, const Json& object,
                                        const velero::DataUpload& upload, const char* reason,
                                        const std::string& why) {
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
      absl::StrCat(why, ": what was moved can never be restored, and is removed from the bucket");
  CSIDELTA_LOG(kWarn, message, {"namespace", upload.namespace_name}, {"name", upload.name});
  const absl::Status told = k8s::EmitEvent(ctx, env_.api, object, k8s::EventType::kWarning, reason,
                                           message, kMoverComponent);
  if (!told.ok()) {
    CSIDELTA_LOG(kWarn, "the event was not written", {"namespace", upload.namespace_name},
                 {"name", upload.name}, {"error", std::string(told.message())});
  }
  return absl::OkStatus();
}

}  // namespace csidelta::datamover
