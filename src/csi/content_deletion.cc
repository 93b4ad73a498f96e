#include "csi/content_deletion.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/orphan_sweep.h"
#include "csi/snapshot_types.h"
#include "csi/static_content.h"
#include "k8s/find.h"
#include "k8s/wait.h"
#include "velero/labels.h"

namespace csidelta::csi {
namespace {

constexpr char kBeingDeletedAnnotation[] =
    "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";
constexpr int kNameHashDigits = 32;
// Without the right to write a status, the driver's sidecar is given this long to do it.
constexpr absl::Duration kStatusWait = absl::Seconds(30);

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
  return BeingDeleted(content) && IsPreProvisioned(content) &&
         GetString(content, {"spec", "deletionPolicy"}) == "Delete" &&
         GetString(content, {"spec", "volumeSnapshotRef", "uid"}).empty();
}

// The original, left over or kept by an older Velero, or one that a restore of the backup made:
// every restored object carries the backup's label too.
bool BelongsToBackup(const Json& content, const Target& target) {
  if (Label(content, velero::kBackupNameLabel) != target.backup_label) {
    return false;
  }
  return Name(content) == target.content_name || !Label(content, velero::kRestoreNameLabel).empty();
}

// The VolumeSnapshot that the content is bound to, or that waits to be bound to it.
absl::StatusOr<std::optional<Json>> FindSnapshot(const CallContext& ctx, const Environment& env,
                                                 const Json& content) {
  const std::string uid = GetString(content, {"spec", "volumeSnapshotRef", "uid"});
  const std::string name = GetString(content, {"spec", "volumeSnapshotRef", "name"});
  const std::string space = GetString(content, {"spec", "volumeSnapshotRef", "namespace"});
  if (name.empty() || space.empty()) {
    return std::optional<Json>();
  }
  ASSIGN_OR_RETURN(std::optional<Json> snapshot,
                   k8s::Find(ctx, env.api, VolumeSnapshotKey(space, name)));
  if (snapshot.has_value() && !uid.empty() && Uid(*snapshot) != uid) {
    snapshot.reset();
  }
  return snapshot;
}

// Sets what becomes of the driver's snapshot when the content goes. `now`: the content is deleted
// next; with Delete it then also gets the mark by which the snapshot controller tells the sidecar
// that deletion is meant, because the controller leaves it out where it sees no VolumeSnapshot.
absl::Status SetPolicy(const CallContext& ctx, const Environment& env, const Json& content,
                       const std::string& policy, bool now) {
  Json patch = {{"spec", {{"deletionPolicy", policy}}}};
  if (now && policy == "Delete") {
    SetJson(patch, {"metadata", "annotations", kBeingDeletedAnnotation}, "yes");
  }
  return k8s::IgnoreNotFound(
      env.api.Patch(ctx, VolumeSnapshotContentKey(Name(content)), k8s::PatchKind::kMerge, patch, "")
          .status());
}

absl::Status DeleteContent(const CallContext& ctx, const Environment& env, const Json& content) {
  return k8s::IgnoreNotFound(env.api.Delete(ctx, VolumeSnapshotContentKey(Name(content)),
                                            {.uid = Uid(content), .resource_version = ""}));
}

absl::Status DeleteVolumeSnapshot(const CallContext& ctx, const Environment& env,
                                  const Json& snapshot) {
  return k8s::IgnoreNotFound(env.api.Delete(ctx,
                                            VolumeSnapshotKey(Namespace(snapshot), Name(snapshot)),
                                            {.uid = Uid(snapshot), .resource_version = ""}));
}

// A content of the backup and who stands at its other end.
struct Owned {
  Json content;
  std::optional<Json> snapshot;
  bool needed = false;  // a claim is still being filled from it
};

absl::StatusOr<Owned> LookAtOwned(const CallContext& ctx, const Environment& env,
                                  const Json& content) {
  Owned owned{.content = content, .snapshot = std::nullopt};
  ASSIGN_OR_RETURN(owned.snapshot, FindSnapshot(ctx, env, content));
  if (owned.snapshot.has_value()) {
    ASSIGN_OR_RETURN(owned.needed, FillsClaim(ctx, env, *owned.snapshot));
  }
  return owned;
}

// Leaves the VolumeSnapshot for the sweep, which deletes the driver's snapshot with it.
absl::Status DeleteLater(const CallContext& ctx, const Environment& env, const Target& target,
                         const Owned& owned) {
  RETURN_IF_ERROR(SetPolicy(ctx, env, owned.content, "Delete", false));
  Json mark;
  SetJson(mark, {"metadata", "annotations", kDeleteWhenFilledAnnotation}, "true");
  SetJson(mark, {"metadata", "annotations", velero::kVolumeSnapshotHandleAnnotation},
          target.handle);
  SetJson(mark, {"metadata", "labels", velero::kCsiDeltaLabel}, env.velero_namespace);
  const k8s::ObjectKey key = VolumeSnapshotKey(Namespace(*owned.snapshot), Name(*owned.snapshot));
  return k8s::IgnoreNotFound(env.api.Patch(ctx, key, k8s::PatchKind::kMerge, mark, "").status());
}

// Removes the objects; `policy` says whether the driver's snapshot goes with them.
absl::Status RemoveObjects(const CallContext& ctx, const Environment& env, const Owned& owned,
                           const std::string& policy) {
  RETURN_IF_ERROR(SetPolicy(ctx, env, owned.content, policy, true));
  if (owned.snapshot.has_value()) {
    RETURN_IF_ERROR(DeleteVolumeSnapshot(ctx, env, *owned.snapshot));
  }
  return DeleteContent(ctx, env, owned.content);
}

// Removes the backup's contents of the snapshot. Returns whether a claim still needs one of them:
// then that one is left for the sweep, and the others go without the driver's snapshot.
absl::StatusOr<bool> RemoveOwned(const CallContext& ctx, const Environment& env,
                                 const Target& target, const std::vector<Json>& contents) {
  std::vector<Owned> all;
  bool needed = false;
  for (const Json& content : contents) {
    ASSIGN_OR_RETURN(Owned owned, LookAtOwned(ctx, env, content));
    needed = needed || owned.needed;
    all.push_back(std::move(owned));
  }
  for (const Owned& owned : all) {
    RETURN_IF_ERROR(owned.needed ? DeleteLater(ctx, env, target, owned)
                                 : RemoveObjects(ctx, env, owned, needed ? "Retain" : "Delete"));
  }
  return needed;
}

// Waits until the content of that name is gone; false when it still stands after `wait`.
absl::StatusOr<bool> AwaitGone(const CallContext& ctx, const Environment& env,
                               const std::string& name, absl::Duration wait) {
  const absl::Status status =
      k8s::WaitFor(ctx.WithTimeout(wait), env.api, VolumeSnapshotContentKey(name),
                   [](const Json* content) -> absl::StatusOr<bool> { return content == nullptr; });
  if (absl::IsDeadlineExceeded(status)) {
    RETURN_IF_ERROR(ctx.Check());
    return false;
  }
  RETURN_IF_ERROR(status);
  return true;
}

// What the driver's sidecar last said about a content, for a log line.
std::string LastError(const CallContext& ctx, const Environment& env, const std::string& name) {
  const absl::StatusOr<Json> content = env.api.Get(ctx, VolumeSnapshotContentKey(name));
  return content.ok() ? ErrorMessage(*content) : "";
}

DeletionResult StillThere(const CallContext& ctx, const Environment& env, const Target& target,
                          const std::string& content_name) {
  CSIDELTA_LOG(kWarn, "the driver has not deleted the snapshot yet and will be asked again",
               {"driver", target.driver}, {"snapshot_handle", target.handle},
               {"volume_snapshot_content", content_name},
               {"last_error", LastError(ctx, env, content_name)});
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
  content.labels = {{velero::kCsiDeltaLabel, env.velero_namespace},
                    {velero::kBackupNameLabel, target.backup_label}};
  if (const std::string node = Label(archived_content, velero::kManagedByLabel); !node.empty()) {
    content.labels.emplace(velero::kManagedByLabel, node);
  }
  content.annotations = DeletionSecretAnnotations(archived_content);
  // Nothing is bound to it, so the snapshot controller would not protect it.
  content.finalizers = {velero::kContentBoundProtectionFinalizer};
  return MakeStaticContent(content);
}

// The sidecar deletes only what its status calls by its handle. Writing it here leaves no moment in
// which a deletion would be lost, and needs no sidecar to be up.
absl::Status WriteHandle(const CallContext& ctx, const Environment& env, const std::string& name,
                         const Target& target) {
  const k8s::ObjectKey key = VolumeSnapshotContentKey(name);
  const Json patch = {{"status", {{"snapshotHandle", target.handle}}}};
  const absl::Status written =
      env.api.Patch(ctx, key, k8s::PatchKind::kMerge, patch, "status").status();
  if (!absl::IsPermissionDenied(written)) {
    return k8s::IgnoreNotFound(written);
  }
  const absl::Status seen = k8s::WaitFor(
      ctx.WithTimeout(kStatusWait), env.api, key, [](const Json* content) -> absl::StatusOr<bool> {
        return content == nullptr || !SnapshotHandle(*content).empty() ||
               !ErrorMessage(*content).empty();
      });
  return Annotate(seen, absl::StrCat("wait for the sidecar to take up ", Describe(target)));
}

absl::StatusOr<DeletionResult> DeleteByTemporaryContent(const CallContext& ctx,
                                                        const Environment& env,
                                                        const Target& target,
                                                        const Json& archived_content,
                                                        absl::Duration wait) {
  ASSIGN_OR_RETURN(const Json content, TemporaryContent(ctx, env, target, archived_content));
  const std::string name = Name(content);
  const absl::Status created =
      env.api.Create(ctx, VolumeSnapshotContentType(), "", content).status();
  if (!created.ok() && !absl::IsAlreadyExists(created)) {
    return Annotate(created, absl::StrCat("delete ", Describe(target)));
  }
  RETURN_IF_ERROR(WriteHandle(ctx, env, name, target));
  RETURN_IF_ERROR(k8s::IgnoreNotFound(env.api.Delete(ctx, VolumeSnapshotContentKey(name), {})));
  ASSIGN_OR_RETURN(const bool gone, AwaitGone(ctx, env, name, wait));
  return gone ? DeletionResult::kGone : StillThere(ctx, env, target, name);
}

}  // namespace

std::string DeletionContentName(absl::string_view driver, absl::string_view handle) {
  return absl::StrCat("csi-delta-delete-",
                      Sha256Hex(absl::StrCat(driver, "/", handle)).substr(0, kNameHashDigits));
}

absl::StatusOr<bool> FillsClaim(const CallContext& ctx, const Environment& env,
                                const Json& snapshot) {
  ASSIGN_OR_RETURN(const k8s::ObjectList claims,
                   env.api.List(ctx, PersistentVolumeClaimType(), Namespace(snapshot), {}));
  for (const Json& claim : claims.items) {
    for (const char* field : {"dataSource", "dataSourceRef"}) {
      if (GetString(claim, {"spec", field, "kind"}) == "VolumeSnapshot" &&
          GetString(claim, {"spec", field, "name"}) == Name(snapshot) &&
          GetString(claim, {"status", "phase"}) != "Bound" && !BeingDeleted(claim)) {
        return true;
      }
    }
  }
  return false;
}

absl::StatusOr<DeletionResult> DeleteSnapshotOfBackup(const CallContext& ctx,
                                                      const Environment& env,
                                                      const Json& archived_content,
                                                      const velero::Backup& backup,
                                                      absl::Duration wait) {
  const Target target = {.driver = GetString(archived_content, {"spec", "driver"}),
                         .handle = HandleOf(archived_content),
                         .content_name = Name(archived_content),
                         .backup_label = velero::ValidLabelValue(backup.name)};
  if (Label(archived_content, velero::kBackupNameLabel) != target.backup_label ||
      target.driver.empty() || target.handle.empty()) {
    return DeletionResult::kNothing;
  }
  ASSIGN_OR_RETURN(const k8s::ObjectList contents,
                   env.api.List(ctx, VolumeSnapshotContentType(), "", {}));
  std::vector<Json> owned;
  for (const Json& content : contents.items) {
    if (!HasTarget(content, target)) {
      continue;
    }
    if (IsDeletionInFlight(content)) {
      ASSIGN_OR_RETURN(const bool gone, AwaitGone(ctx, env, Name(content), wait));
      if (!gone) {
        return StillThere(ctx, env, target, Name(content));
      }
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

}  // namespace csidelta::csi
