#include "csi/content_deletion.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/drop.h"
#include "csi/population.h"
#include "csi/snapshot_need.h"
#include "csi/static_content.h"
#include "k8s/api_client.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "velero/labels.h"

namespace csidelta::csi {
namespace {

using objects::VolumeSnapshotContent;

// How long a backup waits for all deletions of earlier backups that it resumes.
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

bool HasTarget(const VolumeSnapshotContent& content, const Target& target) {
  return content.driver() == target.driver && content.handle_or_source() == target.handle;
}

// A temporary content that is being deleted with the driver's snapshot: Velero's own, or one of
// another csi-delta process. It can no longer be bound.
bool IsDeletionInFlight(const VolumeSnapshotContent& content) {
  return content.is_being_deleted() && content.is_pre_provisioned() &&
         content.deletion_policy() == "Delete" && content.snapshot_uid().empty();
}

// The original, if it is left, or a content that a restore of the backup made. Every restored
// object has the backup's label too.
bool BelongsToBackup(const VolumeSnapshotContent& content, const Target& target) {
  return content.Label(objects::kBackupNameLabel) == target.backup_label &&
         (content.name() == target.content_name || IsRestored(content));
}

// Leaves the VolumeSnapshot for the sweep, which deletes the driver's snapshot with it.
absl::Status DeleteLater(const CallContext& ctx, const Environment& env, const Target& target,
                         const BackupContent& owned) {
  RETURN_IF_ERROR(SetPolicy(ctx, env.api, owned.content.key(), Data::kDelete).status());
  return k8s::IgnoreNotFound(
      objects::Apply(ctx, env.api, owned.snapshot->key(),
                     objects::Patch()
                         .SetAnnotation(objects::kDeleteWhenFilledAnnotation, "true")
                         .SetAnnotation(objects::kVolumeSnapshotHandleAnnotation, target.handle)
                         .SetLabel(objects::kCsiDeltaLabel, env.velero_namespace)));
}

// Finds copies that no VolumeSnapshot leads to: the one that a PVC was made of is gone, or in
// another namespace.
absl::Status RequireNoCopies(const CallContext& ctx, const Environment& env, const Target& target) {
  const absl::StatusOr<std::vector<std::string>> copies =
      PopulationReader(ctx, env.api, &env).UnfilledFromHandle(target.driver, target.handle);
  RETURN_IF_ERROR(
      Annotate(copies.status(),
               absl::StrCat(Describe(target), " is kept: whether data is copied from ",
                            "it is not known (deploy/longhorn-rbac.yaml allows to list volumes)")));
  return copies->empty() ? absl::OkStatus()
                         : absl::FailedPreconditionError(absl::StrCat(
                               Describe(target), " is kept: data is copied from it: ",
                               absl::StrJoin(*copies, "; "), "; delete the backup again later"));
}

// Removes the backup's contents of the snapshot. Returns whether a claim still needs one of them:
// then that one is left for the sweep, and the others go without the driver's snapshot.
absl::StatusOr<bool> RemoveOwned(const CallContext& ctx, const Environment& env,
                                 const Target& target,
                                 const std::vector<VolumeSnapshotContent>& contents) {
  ASSIGN_OR_RETURN(const std::vector<BackupContent> all, ReadBackupContents(ctx, env, contents));
  const bool needed =
      std::any_of(all.begin(), all.end(), [](const BackupContent& owned) { return owned.needed; });
  if (!needed) {
    RETURN_IF_ERROR(RequireNoCopies(ctx, env, target));
  }
  for (const BackupContent& owned : all) {
    RETURN_IF_ERROR(owned.needed
                        ? DeleteLater(ctx, env, target, owned)
                        : DropContent(ctx, env.api, IdOf(owned.content), IdOf(owned.snapshot),
                                      needed ? Data::kRetain : Data::kDelete));
  }
  return needed;
}

absl::StatusOr<DeletionResult> RunTemporaryContent(const CallContext& ctx, const Environment& env,
                                                   const Target& target,
                                                   const VolumeSnapshotContent& archived_content,
                                                   absl::Duration wait) {
  CSIDELTA_CHECK(!target.driver.empty() && !target.handle.empty());
  ASSIGN_OR_RETURN(const auto classes, ListSnapshotClasses(ctx, env));
  ASSIGN_OR_RETURN(const bool has_driver, HasDriver(ctx, env, classes, target.driver));
  if (!has_driver) {
    return DeletionResult::kNoDriver;
  }
  StaticContent content = ContentBeside(archived_content);
  content.name = DeletionContentName(target.driver, target.handle);
  content.snapshot_namespace = env.velero_namespace;
  content.snapshot_name = content.name;
  content.deletion_policy = "Delete";
  content.class_name = ClassOfDriver(classes, target.driver, content.class_name);
  content.labels.insert({{objects::kCsiDeltaLabel, env.velero_namespace},
                         {objects::kBackupNameLabel, target.backup_label}});
  // Nothing is bound to it, so the snapshot controller would not protect it.
  content.finalizers = {objects::kContentBoundProtectionFinalizer, objects::kDeletionFinalizer};
  RETURN_IF_ERROR(EnsureStaticContent(ctx, env.api, content));
  const k8s::ObjectKey key = VolumeSnapshotContent::Key("", content.name);
  RETURN_IF_ERROR(WriteHandle(ctx, env, key, target.handle, wait));
  return ProveDeletion(ctx, env, {.key = key, .handle = target.handle}, wait);
}

// Waits until the object does not exist; false when it still does after `wait`.
absl::StatusOr<bool> AwaitGone(const CallContext& ctx, const Environment& env,
                               const k8s::ObjectKey& key, absl::Duration wait) {
  const absl::Status status = objects::WaitFor<objects::Object>(
      ctx.WithTimeout(wait), env.api, key,
      [](const objects::Object* object) -> absl::StatusOr<bool> { return object == nullptr; });
  if (absl::IsDeadlineExceeded(status)) {
    RETURN_IF_ERROR(ctx.Check());
    return false;
  }
  RETURN_IF_ERROR(status);
  return true;
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
                                                      const VolumeSnapshotContent& archived_content,
                                                      const objects::Backup& backup,
                                                      absl::Duration wait) {
  const Target target = {.driver = archived_content.driver(),
                         .handle = archived_content.handle_or_source(),
                         .content_name = archived_content.name(),
                         .backup_label = velero::ValidLabelValue(backup.name())};
  if (archived_content.Label(objects::kBackupNameLabel) != target.backup_label ||
      target.driver.empty() || target.handle.empty()) {
    return DeletionResult::kNothing;
  }
  // Velero's temporary contents have the backup's label, too: it copies all labels of the archived
  // one. Those of csi-delta are not read: while a driver is slow there is one for each item.
  ASSIGN_OR_RETURN(
      const auto contents,
      objects::List<VolumeSnapshotContent>(
          ctx, env.api, "",
          {.label_selector = absl::StrCat(objects::kBackupNameLabel, "=", target.backup_label, ",",
                                          objects::kCsiDeltaLabel, "!=", env.velero_namespace)}));
  std::vector<VolumeSnapshotContent> owned;
  for (const VolumeSnapshotContent& content : contents) {
    if (!HasTarget(content, target) || IsPendingDeletion(content)) {
      continue;
    }
    if (IsDeletionInFlight(content)) {
      ASSIGN_OR_RETURN(const bool gone, AwaitGone(ctx, env, content.key(), wait));
      // Velero's content may lose its handle and go without the driver's snapshot; csi-delta's does
      // not.
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
  absl::StatusOr<DeletionResult> result =
      RunTemporaryContent(ctx, env, target, archived_content, wait);
  RETURN_IF_ERROR(Annotate(result.status(), absl::StrCat("delete ", Describe(target))));
  return result;
}

absl::StatusOr<int> FinishSnapshotDeletions(const CallContext& ctx, const Environment& env) {
  ASSIGN_OR_RETURN(
      auto contents,
      objects::List<VolumeSnapshotContent>(
          ctx, env.api, "",
          {.label_selector = absl::StrCat(objects::kCsiDeltaLabel, "=", env.velero_namespace)}));
  std::erase_if(contents, [](const auto& content) { return !IsPendingDeletion(content); });
  if (contents.empty()) {
    return 0;
  }
  const absl::Time begun = ctx.clock->Now();
  const auto count = static_cast<int64_t>(contents.size());
  // Each call begins with another one. Else those that a driver refuses would take all of the time.
  std::rotate(contents.begin(), contents.begin() + absl::ToUnixSeconds(begun) % count,
              contents.end());
  int proven = 0;
  for (const VolumeSnapshotContent& content : contents) {
    if (ctx.clock->Now() - begun >= kFinishTimeMax) {
      break;
    }
    const absl::StatusOr<DeletionResult> state =
        ProveDeletion(ctx, env, PendingDeletionOf(VolumeSnapshotContent::Type(), content),
                      kFinishTimeMax / count);
    RETURN_IF_ERROR(ctx.Check());
    if (!state.ok()) {
      CSIDELTA_LOG(kWarn, "the deletion of a snapshot could not be finished",
                   {"driver", content.driver()}, {"snapshot_handle", content.handle_or_source()},
                   {"volume_snapshot_content", content.name()},
                   {"error", state.status().ToString()});
    }
    proven += state.ok() && *state == DeletionResult::kGone ? 1 : 0;
  }
  return proven;
}

}  // namespace csidelta::csi
