#include "csi/snapshot_lifecycle.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/crypto.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/driver_error.h"
#include "csi/drop.h"
#include "csi/lock.h"
#include "csi/moved_group.h"
#include "csi/retry.h"
#include "csi/volume_lease.h"
#include "k8s/api_client.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "velero/labels.h"

namespace csidelta::csi {
namespace {

using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

constexpr size_t kNameClaimBytesMax = 35;

std::string ToString(const SnapshotRequest& request) {
  return absl::StrCat("claim ", request.claim_namespace, "/", request.claim_name);
}

std::string NameFor(const std::string& claim_name, const std::string& backup_uid,
                    const std::string& claim_uid) {
  std::string claim = absl::StrReplaceAll(claim_name, {{".", "-"}});
  claim.resize(std::min(claim.size(), kNameClaimBytesMax));
  const std::string hash = Sha256Hex(absl::StrCat(backup_uid, "/", claim_uid));
  return absl::StrCat("velero-", claim, "-", hash.substr(0, kNameHashBytes));
}

VolumeSnapshot MakeSnapshot(const Environment& env, const SnapshotRequest& request,
                            absl::Time asked_at) {
  auto snapshot = VolumeSnapshot::Make(request.claim_namespace, SnapshotName(request));
  // None of the claim's own labels: a controller that prunes by label would take the VolumeSnapshot
  // for a stray object of its own.
  snapshot.SetLabels({{objects::kBackupNameLabel, velero::ValidLabelValue(request.backup.name)},
                      {objects::kBackupUidLabel, request.backup.uid},
                      {objects::kPvcUidLabel, request.claim_uid},
                      {objects::kCsiDeltaLabel, env.velero_namespace}});
  snapshot.SetAnnotation(objects::kAskedAtAnnotation, FormatRfc3339(asked_at));
  snapshot.SetSourcePvc(request.claim_name);
  snapshot.SetClassName(request.class_name);
  return snapshot;
}

absl::StatusOr<TakenSnapshot> AwaitHandle(const CallContext& ctx, const SnapshotRequest& request,
                                          VolumeLock& lock, const VolumeSnapshot& made) {
  LeaseWaiter waiter = lock.Waiter(ctx);
  DriverErrors errors(*ctx.clock, ToString(request), request.backup.csi_snapshot_timeout);
  TakenSnapshot taken;
  const k8s::ObjectKey key = VolumeSnapshot::Key(request.claim_namespace, SnapshotName(request));
  const auto is_bound = [&](const VolumeSnapshot* snapshot) -> absl::StatusOr<bool> {
    if (snapshot == nullptr || snapshot->uid() != made.uid() || snapshot->is_being_deleted()) {
      return absl::NotFoundError(
          absl::StrCat("VolumeSnapshot ", key.name, " was deleted by another client"));
    }
    taken.snapshot = *snapshot;
    RETURN_IF_ERROR(errors.Check(snapshot->error_message()));
    return !snapshot->bound_content().empty();
  };
  absl::Status status = waiter.WaitFor<VolumeSnapshot>(key, is_bound, &made);
  if (!status.ok()) {
    return errors.Explain(status);
  }
  const std::string content_name = taken.snapshot.bound_content();
  status = waiter.WaitForExisting<VolumeSnapshotContent>(
      VolumeSnapshotContent::Key("", content_name),
      [&](const VolumeSnapshotContent* content) -> absl::StatusOr<bool> {
        if (content == nullptr) {
          return absl::NotFoundError(absl::StrCat("VolumeSnapshotContent ", content_name,
                                                  " was deleted by another client"));
        }
        taken.content = *content;
        RETURN_IF_ERROR(errors.Check(content->error_message()));
        return !content->handle().empty();
      });
  if (!status.ok()) {
    return errors.Explain(status);
  }
  return taken;
}

// --- Making

// Creates the VolumeSnapshot, or takes up the one that an interrupted call left. An error leaves
// open whether it exists.
absl::StatusOr<VolumeSnapshot> EnsureSnapshot(const CallContext& ctx, const Environment& env,
                                              const SnapshotRequest& request) {
  absl::StatusOr<VolumeSnapshot> made =
      objects::Create(ctx, env.api, MakeSnapshot(env, request, ctx.clock->Now()));
  if (!absl::IsAlreadyExists(made.status())) {
    return made;
  }
  ASSIGN_OR_RETURN(
      VolumeSnapshot snapshot,
      objects::Get<VolumeSnapshot>(
          ctx, env.api, VolumeSnapshot::Key(request.claim_namespace, SnapshotName(request))));
  if (!IsManaged(snapshot, request.backup) || snapshot.source_pvc() != request.claim_name ||
      snapshot.Label(objects::kPvcUidLabel) != request.claim_uid) {
    return absl::AlreadyExistsError(absl::StrCat("VolumeSnapshot ", request.claim_namespace, "/",
                                                 SnapshotName(request), " is not of this backup"));
  }
  return snapshot;
}

// Deletes what TakeSnapshot() made and nothing refers to. The name alone tells it, because the
// answer to the request that created it may have been lost.
absl::Status CleanUp(const Environment& env, const SnapshotRequest& request, const Clock& clock,
                     const absl::Status& status) {
  const k8s::ObjectKey key = VolumeSnapshot::Key(request.claim_namespace, SnapshotName(request));
  return CleanUpAfter(status, clock, absl::StrCat("VolumeSnapshot ", key.name),
                      [&](const CallContext& after) -> absl::StatusOr<std::string> {
                        ASSIGN_OR_RETURN(const auto snapshot,
                                         objects::Find<VolumeSnapshot>(after, env.api, key));
                        if (!snapshot.has_value() || !IsManaged(*snapshot, request.backup) ||
                            EnteredArchive(*snapshot)) {
                          return "";
                        }
                        RETURN_IF_ERROR(DropSnapshot(after, env.api, *snapshot, Data::kDelete));
                        return " was deleted again";
                      });
}

// --- Making, in turn

absl::StatusOr<TakenSnapshot> MakeUnderLease(const CallContext& ctx, const Environment& env,
                                             const SnapshotRequest& request, VolumeLock& lock) {
  const absl::StatusOr<VolumeSnapshot> made =
      RetryTransient(ctx, [&] { return EnsureSnapshot(ctx, env, request); });
  absl::StatusOr<TakenSnapshot> taken;
  if (made.ok()) {
    taken = AwaitHandle(ctx.WithTimeout(request.backup.csi_snapshot_timeout), request, lock, *made);
  } else {
    taken = Annotate(made.status(), absl::StrCat("create a VolumeSnapshot of ", ToString(request)));
  }
  if (!taken.ok()) {
    return CleanUp(env, request, *ctx.clock, taken.status());
  }
  return taken;
}

}  // namespace

absl::Duration LockWaitMax(const velero::Backup& backup) {
  return std::max(backup.csi_snapshot_timeout, 2 * kVolumeLeaseDuration);
}

bool EnteredArchive(const VolumeSnapshot& snapshot) {
  return !snapshot.Annotation(objects::kVolumeSnapshotHandleAnnotation).empty();
}

std::string MemberGroupName(const VolumeSnapshot& snapshot) {
  std::string name = snapshot.Annotation(objects::kGroupNameLabel);
  const std::optional<objects::OwnerReference> owner = snapshot.group_owner();
  return owner.has_value() && owner->name == name ? name : "";
}

std::string SnapshotName(const SnapshotRequest& request) {
  return NameFor(request.claim_name, request.backup.uid, request.claim_uid);
}

bool IsMadeByUs(const VolumeSnapshot& snapshot) {
  if (snapshot.Label(objects::kCsiDeltaLabel).empty()) {
    return false;
  }
  if (!MemberGroupName(snapshot).empty()) {
    return true;
  }
  std::string claim_name = snapshot.source_pvc();
  if (claim_name.empty()) {
    claim_name = snapshot.Annotation(objects::kMemberClaimAnnotation);
  }
  return !claim_name.empty() &&
         snapshot.name() == NameFor(claim_name, snapshot.Label(objects::kBackupUidLabel),
                                    snapshot.Label(objects::kPvcUidLabel));
}

bool IsManaged(const VolumeSnapshot& snapshot, const velero::Backup& backup) {
  return !backup.uid.empty() && snapshot.Label(objects::kBackupUidLabel) == backup.uid &&
         IsMadeByUs(snapshot);
}

absl::StatusOr<TakenSnapshot> TakeSnapshot(const CallContext& ctx, const Environment& env,
                                           const SnapshotRequest& request) {
  VolumeLock lock(ctx, env.api,
                  {.leases = {{.lease_namespace = env.velero_namespace,
                               .claim_namespace = request.claim_namespace,
                               .claim_name = request.claim_name,
                               .claim_uid = request.claim_uid,
                               .backup_name = request.backup.name,
                               .backup_uid = request.backup.uid,
                               .holder = absl::StrCat(request.backup.uid, "_",
                                                      absl::Hex(env.random.Below(UINT64_MAX)))}},
                   .namespace_name = request.claim_namespace,
                   .pvcs = {{request.claim_name, {}}},
                   .subject = "claim",
                   .name = SnapshotName(request),
                   .wait_max = LockWaitMax(request.backup)});
  return lock.Run([&] { return MakeUnderLease(ctx, env, request, lock); });
}

}  // namespace csidelta::csi
