#include "csi/content_deletion.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/backup_contents.h"
#include "csi/deletion_proof.h"
#include "csi/orphan_sweep.h"
#include "csi/snapshot_types.h"
#include "csi/static_content.h"
#include "k8s/find.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "velero/labels.h"

namespace csidelta::csi {
namespace {

// What a backup waits for all deletions of earlier backups that it goes on with.
constexpr absl::Duration kFinishTimeMax = absl::Seconds(5);

// One snapshot of the driver's that has to go.
struct Target {
  std::string driver;
  std::string handle;
  std::string content_name;  // the original's
  std::string backup_label;
};

std::string Describe(const Target& target) {
  return absl::StrCat("snapshot ", target.handle, " of driver ", target.driver);
}

bool HasTarget(const Json& content, const Target& target) {
  return GetString(content, {"spec", "driver"}) == target.driver &&
         HandleOf(content) == target.handle;
}

// A content that nobody can bind any more and that takes the driver's snapshot along: Velero's own
// temporary content, or ours from another process.
bool IsDeletionInFlight(const Json& content) {
  return k8s::BeingDeleted(content) && IsPreProvisioned(content) &&
         GetString(content, {"spec", "deletionPolicy"}) == "Delete" &&
         GetString(content, {"spec", "volumeSnapshotRef", "uid"}).empty();
}

// The original, left over or kept by an older Velero, or one that a restore of the backup made:
// every restored object carries the backup's label too.
bool BelongsToBackup(const Json& content, const Target& target) {
  if (k8s::Label(content, objects::kBackupNameLabel) != target.backup_label) {
    return false;
  }
  return k8s::Name(content) == target.content_name || IsRestored(content);
}

// Leaves the VolumeSnapshot for the sweep, which deletes the driver's snapshot with it.
absl::Status DeleteLater(const CallContext& ctx, const Environment& env, const Target& target,
                         const BackupContent& owned) {
  RETURN_IF_ERROR(SetContentPolicy(ctx, env, owned.content, "Delete"));
  Json mark;
  SetJson(mark, {"metadata", "annotations", objects::kDeleteWhenFilledAnnotation}, "true");
  SetJson(mark, {"metadata", "annotations", objects::kVolumeSnapshotHandleAnnotation},
          target.handle);
  SetJson(mark, {"metadata", "labels", objects::kCsiDeltaLabel}, env.velero_namespace);
  const k8s::ObjectKey key =
      VolumeSnapshotKey(k8s::Namespace(*owned.snapshot), k8s::Name(*owned.snapshot));
  return k8s::IgnoreNotFound(env.api.Patch(ctx, key, k8s::PatchKind::kMerge, mark, "").status());
}

// Removes the backup's contents of the snapshot. Returns whether a claim still needs one of them:
// then that one is left for the sweep, and the others go without the driver's snapshot.
absl::StatusOr<bool> RemoveOwned(const CallContext& ctx, const Environment& env,
                                 const Target& target, const std::vector<Json>& contents) {
  ASSIGN_OR_RETURN(const std::vector<BackupContent> all, LookAtContents(ctx, env, contents));
  const bool needed =
      std::any_of(all.begin(), all.end(), [](const BackupContent& owned) { return owned.needed; });
  for (const BackupContent& owned : all) {
    RETURN_IF_ERROR(owned.needed ? DeleteLater(ctx, env, target, owned)
                                 : RemoveContent(ctx, env, owned, needed ? "Retain" : "Delete"));
  }
  return needed;
}

DeletionResult StillThere(const CallContext& ctx, const Environment& env, const Target& target,
                          const std::string& content_name) {
  CSIDELTA_LOG(kWarn, "the driver has not deleted the snapshot yet and will be asked again",
               {"driver", target.driver}, {"snapshot_handle", target.handle},
               {"volume_snapshot_content", content_name},
               {"last_error", LastError(ctx, env, VolumeSnapshotContentKey(content_name))});
  return DeletionResult::kInProgress;
}

absl::StatusOr<Json> TemporaryContent(const CallContext& ctx, const Environment& env,
                                      const Target& target, const Json& archived_content) {
  ASSIGN_OR_RETURN(const std::vector<Json> classes, ListSnapshotClasses(ctx, env));
  StaticContent content;
  content.name = DeletionContentName(target.driver, target.handle);
  content.driver = target.driver;
  content.handle = target.handle;
  content.snapshot_namespace = env.velero_namespace;
  content.snapshot_name = content.name;
  content.deletion_policy = "Delete";
  content.class_name = ClassOfDriver(
      classes, target.driver, GetString(archived_content, {"spec", "volumeSnapshotClassName"}));
  content.labels = {{objects::kCsiDeltaLabel, env.velero_namespace},
                    {objects::kBackupNameLabel, target.backup_label}};
  if (const std::string node = k8s::Label(archived_content, objects::kManagedByLabel);
      !node.empty()) {
    content.labels.emplace(objects::kManagedByLabel, node);
  }
  content.annotations = DeletionSecretAnnotations(archived_content);
  // Nothing is bound to it, so the snapshot controller would not protect it.
  content.finalizers = {objects::kContentBoundProtectionFinalizer, objects::kDeletionFinalizer};
  return MakeStaticContent(content);
}

absl::StatusOr<DeletionState> RunTemporaryContent(const CallContext& ctx, const Environment& env,
                                                  const Target& target,
                                                  const Json& archived_content,
                                                  absl::Duration wait) {
  ASSIGN_OR_RETURN(const Json content, TemporaryContent(ctx, env, target, archived_content));
  const k8s::ObjectKey key = VolumeSnapshotContentKey(k8s::Name(content));
  ASSIGN_OR_RETURN(const bool made, EnsurePendingDeletion(ctx, env, key, content, wait));
  if (!made) {
    return DeletionState::kPending;
  }
  RETURN_IF_ERROR(WriteHandle(ctx, env, key, "snapshotHandle", target.handle, wait));
  return ProveDeletion(ctx, env, {.key = key, .handle = target.handle}, wait);
}

absl::StatusOr<DeletionResult> DeleteByTemporaryContent(const CallContext& ctx,
                                                        const Environment& env,
                                                        const Target& target,
                                                        const Json& archived_content,
                                                        absl::Duration wait) {
  const absl::StatusOr<DeletionState> state =
      RunTemporaryContent(ctx, env, target, archived_content, wait);
  RETURN_IF_ERROR(Annotate(state.status(), absl::StrCat("delete ", Describe(target))));
  switch (*state) {
    case DeletionState::kProven:
      return DeletionResult::kGone;
    case DeletionState::kDeclined:
      return DeletionResult::kDeclined;
    case DeletionState::kPending:
      break;
  }
  return StillThere(ctx, env, target, DeletionContentName(target.driver, target.handle));
}

}  // namespace

std::string DigestOfHandle(absl::string_view driver, absl::string_view handle) {
  constexpr int kDigits = 32;
  return Sha256Hex(absl::StrCat(driver, "/", handle)).substr(0, kDigits);
}

std::string DeletionContentName(absl::string_view driver, absl::string_view handle) {
  return absl::StrCat("csi-delta-delete-", DigestOfHandle(driver, handle));
}

absl::StatusOr<DeletionResult> DeleteSnapshotOfBackup(const CallContext& ctx,
                                                      const Environment& env,
                                                      const Json& archived_content,
                                                      const velero::Backup& backup,
                                                      absl::Duration wait) {
  const Target target = {.driver = GetString(archived_content, {"spec", "driver"}),
                         .handle = HandleOf(archived_content),
                         .content_name = k8s::Name(archived_content),
                         .backup_label = velero::ValidLabelValue(backup.name)};
  if (k8s::Label(archived_content, objects::kBackupNameLabel) != target.backup_label ||
      target.driver.empty() || target.handle.empty()) {
    return DeletionResult::kNothing;
  }
  // Temporary contents have the backup's label, too: ours, and Velero's, which has all labels of
  // the archived one.
  ASSIGN_OR_RETURN(const k8s::ObjectList contents,
                   env.api.List(ctx, VolumeSnapshotContentType(), "",
                                {.label_selector = absl::StrCat(objects::kBackupNameLabel, "=",
                                                                target.backup_label),
                                 .field_selector = ""}));
  std::vector<Json> owned;
  for (const Json& content : contents.items) {
    if (!HasTarget(content, target) || IsPendingDeletion(content)) {
      continue;
    }
    if (IsDeletionInFlight(content)) {
      ASSIGN_OR_RETURN(const bool gone,
                       AwaitGone(ctx, env, VolumeSnapshotContentKey(k8s::Name(content)), wait));
      // It may lose its handle and go without the driver's snapshot, so ours goes beside it.
      wait = gone ? wait : absl::ZeroDuration();
    } else if (BelongsToBackup(content, target)) {
      owned.push_back(content);
    }
  }
  ASSIGN_OR_RETURN(const bool needed, RemoveOwned(ctx, env, target, owned));
  if (needed) {
    CSIDELTA_LOG(kInfo, "a claim is still being filled from the snapshot: deleted later",
                 {"driver", target.driver}, {"snapshot_handle", target.handle});
    return DeletionResult::kDeferred;
  }
  return DeleteByTemporaryContent(ctx, env, target, archived_content, wait);
}

absl::StatusOr<int> FinishSnapshotDeletions(const CallContext& ctx, const Environment& env) {
  ASSIGN_OR_RETURN(const k8s::ObjectList contents,
                   env.api.List(ctx, VolumeSnapshotContentType(), "",
                                {.label_selector = absl::StrCat(objects::kCsiDeltaLabel, "=",
                                                                env.velero_namespace),
                                 .field_selector = ""}));
  const absl::Time end = ctx.clock->Now() + kFinishTimeMax;
  int proven = 0;
  for (const Json& content : contents.items) {
    if (!IsPendingDeletion(content)) {
      continue;
    }
    const absl::StatusOr<DeletionState> state = ProveDeletion(
        ctx, env, PendingDeletionOf(VolumeSnapshotContentType(), content), end - ctx.clock->Now());
    RETURN_IF_ERROR(ctx.Check());
    if (!state.ok() || *state == DeletionState::kPending) {
      CSIDELTA_LOG(kWarn, "the driver has not deleted the snapshot of a deleted backup yet",
                   {"driver", GetString(content, {"spec", "driver"})},
                   {"snapshot_handle", HandleOf(content)},
                   {"volume_snapshot_content", k8s::Name(content)},
                   {"last_error", state.ok() ? ErrorMessage(content) : state.status().ToString()});
    }
    proven += state.ok() && *state == DeletionState::kProven ? 1 : 0;
  }
  return proven;
}

}  // namespace csidelta::csi
