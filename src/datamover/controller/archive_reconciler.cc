#include "datamover/controller/archive_reconciler.h"

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "datamover/transfer_object.h"
#include "datamover/worker/deletion_queue.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "velero/data_reference.h"

namespace csidelta::datamover {
namespace {

// Whether the plugin that made the upload was to mark it when it enters the archive, and has not.
bool IsMarkAwaited(const objects::DataUpload& upload) {
  return upload.Annotation(objects::kArchivedAnnotation) == objects::kArchiveAwaited;
}

bool IsArchived(const std::string& phase) {
  return phase == "Completed" || phase == "PartiallyFailed";
}

}  // namespace

absl::Status ArchiveReconciler::RecordBackups(const CallContext& ctx) {
  const auto record = [this](auto& page, bool /*is_first*/) {
    const absl::StatusOr<std::vector<objects::Backup>> backups =
        objects::AllAs<objects::Backup>(std::move(page));
    const MutexLock lock(mutex_);
    for (std::size_t i = 0; backups.ok() && i < backups->size(); ++i) {
      if (IsArchived((*backups)[i].phase())) {
        over_.insert((*backups)[i].uid());
      }
    }
  };
  for (const std::string& velero_namespace : env_.velero_namespaces) {
    RETURN_IF_ERROR(
        env_.api.ListPages(ctx, objects::Backup::Type(), velero_namespace, {}, record).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::Time> ArchiveReconciler::ReconcileOne(const CallContext& ctx,
                                                           const objects::DataUpload& object) {
  if (!IsConcerned(object)) {
    return absl::InfiniteFuture();
  }
  const std::optional<objects::OwnerReference> owner = VeleroOwnerOf(object, "Backup");
  ASSIGN_OR_RETURN(const Backup backup,
                   BackupAsRead(ctx, objects::Backup::Key(object.namespace_name(), owner->name)));
  if (backup.uid != owner->uid) {
    return absl::InfiniteFuture();
  }
  if (IsArchived(backup.phase)) {
    ASSIGN_OR_RETURN(const bool is_awaited, IsAwaited(ctx, object));
    if (is_awaited) {
      RETURN_IF_ERROR(RequestRemoval(ctx, object, "NotInArchive",
                                     absl::StrCat("Backup ", owner->name,
                                                  " is over, and the DataUpload is "
                                                  "not in its archive")));
    }
    const MutexLock lock(mutex_);
    over_.insert(owner->uid);
    return absl::InfiniteFuture();
  }
  if (backup.phase != "Failed") {
    return backup.read_at + kArchiveReadEvery;
  }
  RETURN_IF_ERROR(
      RequestRemoval(ctx, object, "BackupFailed",
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
    if (found != going_on_.end() && now < found->second.read_at + kArchiveReadEvery) {
      return found->second;
    }
  }
  ASSIGN_OR_RETURN(const auto object, objects::Find<objects::Backup>(ctx, env_.api, key));
  const Backup backup{.uid = object.has_value() ? object->uid() : "",
                      .phase = object.has_value() ? object->phase() : "",
                      .read_at = now};
  const MutexLock lock(mutex_);
  if (!object.has_value() || IsArchived(backup.phase) || backup.phase == "Failed") {
    going_on_.erase(name);
  } else {
    going_on_[name] = backup;
  }
  return backup;
}

bool ArchiveReconciler::IsConcerned(const objects::DataUpload& object) const {
  const std::optional<objects::OwnerReference> owner = VeleroOwnerOf(object, "Backup");
  if (!object.is_managed() || object.known_phase() != objects::DataPhase::kCompleted ||
      !owner.has_value() || !object.Validate().ok()) {
    return false;
  }
  const MutexLock lock(mutex_);
  return !over_.contains(owner->uid) || IsMarkAwaited(object);
}

void ArchiveReconciler::ReduceOne(objects::DataUpload& object) const {
  object.ReduceTo(objects::kBackupNameLabel, objects::kArchivedAnnotation);
}

// The plugin marks an upload before its Backup is over, so only what is read afterwards tells.
absl::StatusOr<bool> ArchiveReconciler::IsAwaited(const CallContext& ctx,
                                                  const objects::DataUpload& object) {
  if (!IsMarkAwaited(object)) {
    return false;
  }
  ASSIGN_OR_RETURN(const auto now, objects::Find<objects::DataUpload>(ctx, env_.api, object.key()));
  return now.has_value() && now->uid() == object.uid() && IsMarkAwaited(*now);
}

absl::Status ArchiveReconciler::RequestRemoval(const CallContext& ctx,
                                               const objects::DataUpload& object,
                                               const char* reason, const std::string& why) {
  const absl::StatusOr<velero::DataReference> reference =
      velero::ParseDataReference(object.snapshot_id());
  if (!reference.ok()) {
    return absl::OkStatus();  // Nothing managed.
  }
  const absl::Status made =
      objects::Create(ctx, env_.api,
                      MakeDeletionOfUnnamed(object, *reference, /*worker_ended=*/true))
          .status();
  if (absl::IsAlreadyExists(made)) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(made);
  const std::string message =
      absl::StrCat(why, ": what was moved can never be restored, and is removed from the bucket");
  CSIDELTA_LOG(kWarn, message, {"namespace", object.namespace_name()}, {"name", object.name()});
  EmitMoverEvent(ctx, env_, object, k8s::EventType::kWarning, reason, message);
  return absl::OkStatus();
}

}  // namespace csidelta::datamover
