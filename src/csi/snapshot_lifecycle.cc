#include "csi/snapshot_lifecycle.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/base_snapshots.h"
#include "csi/driver_rules.h"
#include "csi/lock.h"
#include "csi/volume_lease.h"
#include "objects/keys.h"
#include "velero/labels.h"

namespace csidelta::csi {
namespace {

using objects::VolumeSnapshot;

constexpr size_t kNameClaimBytesMax = 35;

std::string NameFor(const std::string& claim_name, const std::string& backup_uid,
                    const std::string& claim_uid) {
  std::string claim = absl::StrReplaceAll(claim_name, {{".", "-"}});
  claim.resize(std::min(claim.size(), kNameClaimBytesMax));
  const std::string hash = Sha256Hex(absl::StrCat(backup_uid, "/", claim_uid));
  return absl::StrCat("velero-", claim, "-", hash.substr(0, kNameHashBytes));
}

// Whether one was dropped. What stays for an error is in the way as before.
bool DropBasesForRoom(const CallContext& ctx, const Environment& env,
                      const std::vector<std::string>& claim_uids, absl::string_view driver_error) {
  bool was_any_dropped = false;
  for (const std::string& uid : claim_uids) {
    const absl::StatusOr<bool> was_dropped = DropBaseForRoom(ctx, env, uid, driver_error);
    if (!was_dropped.ok()) {
      CSIDELTA_LOG(kWarn, "a base snapshot cannot be dropped", {"pvc_uid", uid},
                   {"error", std::string(was_dropped.status().message())});
    }
    was_any_dropped = was_any_dropped || was_dropped.value_or(false);
  }
  return was_any_dropped;
}

VolumeSnapshot MakeSnapshot(const Environment& env, const SnapshotRequest& request) {
  auto snapshot = VolumeSnapshot::Make(request.claim_namespace, SnapshotName(request));
  // None of the claim's own labels: a controller that prunes by label would take the VolumeSnapshot
  // for a stray object of its own.
  snapshot.SetLabels(LabelsOf(env, request.backup));
  snapshot.SetLabel(objects::kPvcUidLabel, request.claim_uid);
  snapshot.SetSourcePvc(request.claim_name);
  snapshot.SetClassName(request.class_name);
  return snapshot;
}

}  // namespace

TakeRules BackupRules(const CallContext& ctx, const Environment& env, const objects::Backup& backup,
                      const std::vector<std::string>& claim_uids) {
  return {.own_labels = {{objects::kBackupUidLabel, backup.uid()},
                         {objects::kCsiDeltaLabel, env.velero_namespace}},
          .asked_at_annotation = objects::kAskedAtAnnotation,
          .deletes_joined = true,
          .name_advice = ", and is not of this backup",
          .timeout = backup.csi_snapshot_timeout(),
          .errors = {.drop_base = [&ctx, env, claim_uids](absl::string_view error) {
            return DropBasesForRoom(ctx, env, claim_uids, error);
          }}};
}

std::map<std::string, std::string> LabelsOf(const Environment& env, const objects::Backup& backup) {
  return {{objects::kBackupNameLabel, velero::ValidLabelValue(backup.name())},
          {objects::kBackupUidLabel, backup.uid()},
          {objects::kCsiDeltaLabel, env.velero_namespace}};
}

VolumeLeaseRequest LeaseRequestOf(const Environment& env, const objects::Backup& backup,
                                  const std::string& claim_namespace, const std::string& claim_name,
                                  const std::string& claim_uid) {
  return {.lease_namespace = env.velero_namespace,
          .claim_namespace = claim_namespace,
          .claim_name = claim_name,
          .claim_uid = claim_uid,
          .backup_name = backup.name(),
          .backup_uid = backup.uid(),
          .holder = absl::StrCat(backup.uid(), "_", absl::Hex(env.random.Below(UINT64_MAX)))};
}

absl::Duration LockWaitMax(const objects::Backup& backup) {
  return std::max(backup.csi_snapshot_timeout(), 2 * kVolumeLeaseDuration);
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
  return NameFor(request.claim_name, request.backup.uid(), request.claim_uid);
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

bool IsManaged(const VolumeSnapshot& snapshot, const objects::Backup& backup) {
  return !backup.uid().empty() && snapshot.Label(objects::kBackupUidLabel) == backup.uid() &&
         IsMadeByUs(snapshot);
}

absl::StatusOr<TakenSnapshot> TakeSnapshot(const CallContext& ctx, const Environment& env,
                                           const SnapshotRequest& request) {
  TakeRequest take{.rules = BackupRules(ctx, env, request.backup, {request.claim_uid}),
                   .lock = {.leases = {LeaseRequestOf(env, request.backup, request.claim_namespace,
                                                      request.claim_name, request.claim_uid)},
                            .namespace_name = request.claim_namespace,
                            .pvcs = {{request.claim_name, {}}},
                            .subject = "claim",
                            .name = SnapshotName(request),
                            .wait_max = LockWaitMax(request.backup)},
                   .object = MakeSnapshot(env, request)};
  if (const std::string limits = LimitsText(RulesOf(request.driver)); !limits.empty()) {
    take.rules.errors.room_hint = absl::StrCat("; ", request.driver, " ", limits);
  }
  take.rules.own_labels[objects::kPvcUidLabel] = request.claim_uid;
  take.rules.referred_annotation = objects::kVolumeSnapshotHandleAnnotation;
  return TakeSnapshot(ctx, env.api, take);
}

}  // namespace csidelta::csi
