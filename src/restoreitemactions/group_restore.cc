#include "restoreitemactions/group_restore.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/crypto.h"
#include "base/status_macros.h"
#include "csi/static_content.h"
#include "k8s/api_client.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/volume_group_snapshot.h"
#include "velero/labels.h"

namespace csidelta::restoreitemactions {
namespace {

using objects::VolumeGroupSnapshotContent;
using objects::VolumeSnapshot;

// How long the complaint of a driver that was asked too early is waited for, and how long it may
// come.
constexpr absl::Duration kComplaintWait = absl::Seconds(1);
constexpr absl::Duration kYoungFor = absl::Seconds(10);
constexpr int kHandleLostMax = 5;

std::string HandleOfGroup(const VolumeSnapshot& snapshot_from_backup) {
  return snapshot_from_backup.Annotation(objects::kGroupSnapshotHandleAnnotation);
}

k8s::ObjectKey PlaceholderKey(absl::string_view version, const objects::Restore& restore,
                              const std::string& group_handle) {
  return VolumeGroupSnapshotContent::Key(version, "",
                                         velero::RestoredSnapshotName(restore.uid(), group_handle));
}

// Whether the sidecar may have met it before anybody wrote its status.
bool IsYoung(const VolumeGroupSnapshotContent& placeholder, absl::Time now) {
  const auto made = placeholder.created_at();
  return made.has_value() && now - *made < kYoungFor;
}

// Ready, so that the sidecar need not ask the driver about a group of one member.
absl::Status WriteHandle(const CallContext& ctx, const csi::Environment& env,
                         const k8s::ObjectKey& key, const std::string& handle) {
  return objects::Apply(ctx, env.api, key, objects::Patch().SetReadyGroup(handle), "status");
}

// A sidecar that met the content before it was said to be ready has asked the driver, and the
// driver's complaint of a group that lacks members replaces the whole status
// (external-snapshotter 8.6): writes the handle again where that happens.
absl::Status KeepHandle(const CallContext& ctx, const csi::Environment& env,
                        const k8s::ObjectKey& key, const std::string& handle) {
  for (int lost = 0; lost < kHandleLostMax; ++lost) {
    bool is_gone = false;
    const absl::Status status = objects::WaitFor<VolumeGroupSnapshotContent>(
        ctx.WithTimeout(kComplaintWait), env.api, key,
        [&](const VolumeGroupSnapshotContent* content) -> absl::StatusOr<bool> {
          is_gone = content == nullptr;
          return is_gone || content->handle() != handle;
        });
    RETURN_IF_ERROR(ctx.Check());
    if (is_gone || absl::IsDeadlineExceeded(status)) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(status);
    RETURN_IF_ERROR(WriteHandle(ctx, env, key, handle));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsMember(const VolumeSnapshot& snapshot_from_backup) {
  return !HandleOfGroup(snapshot_from_backup).empty() ||
         !ManagedGroup(snapshot_from_backup).empty();
}

std::string ManagedGroup(const VolumeSnapshot& snapshot_from_backup) {
  return snapshot_from_backup.Annotation(objects::kGroupNameLabel);
}

std::string RestoredGroupName(absl::string_view restore_uid, absl::string_view namespace_in_backup,
                              absl::string_view name_in_backup) {
  return Sha256Hex(absl::StrCat(restore_uid, "/", namespace_in_backup, "/", name_in_backup));
}

absl::Status EnsurePlaceholder(const CallContext& ctx, const csi::Environment& env,
                               const objects::Restore& restore,
                               const VolumeSnapshot& snapshot_from_backup) {
  const std::string handle = HandleOfGroup(snapshot_from_backup);
  const std::string snapshot_handle =
      snapshot_from_backup.Annotation(objects::kVolumeSnapshotHandleAnnotation);
  const std::string driver = snapshot_from_backup.Annotation(objects::kDriverNameAnnotation);
  if (handle.empty() || snapshot_handle.empty() || driver.empty()) {
    return absl::OkStatus();
  }
  const absl::StatusOr<objects::GroupKinds> kinds = objects::FindGroupKinds(ctx, env.api);
  if (absl::IsNotFound(kinds.status())) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(kinds.status());
  const k8s::ObjectKey key = PlaceholderKey(kinds->version, restore, handle);
  ASSIGN_OR_RETURN(const auto placeholder,
                   objects::Find<VolumeGroupSnapshotContent>(ctx, env.api, key));
  if (!placeholder.has_value()) {
    const objects::VolumeGroupSnapshotClass* const group_class =
        csi::GroupClassOf(kinds->classes, driver, "");
    const csi::StaticContent group = {
        .version = kinds->version,
        .name = key.name,
        .driver = driver,
        .handle = handle,
        .member_handles = {snapshot_handle},
        .snapshot_namespace = restore.MapNamespace(snapshot_from_backup.namespace_name()),
        .snapshot_name = key.name,
        .class_name = group_class == nullptr ? "" : group_class->name(),
        .labels = {{objects::kBackupNameLabel, velero::ValidLabelValue(restore.backup_name())},
                   {objects::kRestoreNameLabel, velero::ValidLabelValue(restore.name())}}};
    RETURN_IF_ERROR(csi::EnsureStaticContent(ctx, env.api, group));
  }
  if (!placeholder.has_value() || placeholder->handle() != handle) {
    RETURN_IF_ERROR(WriteHandle(ctx, env, key, handle));
  } else if (!IsYoung(*placeholder, ctx.clock->Now())) {
    return absl::OkStatus();
  }
  return KeepHandle(ctx, env, key, handle);
}

absl::Status RemovePlaceholder(const CallContext& ctx, const csi::Environment& env,
                               const objects::Restore& restore,
                               const VolumeSnapshot& snapshot_from_backup) {
  const std::string handle = HandleOfGroup(snapshot_from_backup);
  if (handle.empty()) {
    return absl::OkStatus();
  }
  const absl::StatusOr<objects::GroupKinds> kinds = objects::FindGroupKinds(ctx, env.api);
  RETURN_IF_ERROR(k8s::IgnoreNotFound(kinds.status()));
  return kinds.ok() ? k8s::IgnoreNotFound(
                          env.api.Delete(ctx, PlaceholderKey(kinds->version, restore, handle), {}))
                    : absl::OkStatus();
}

}  // namespace csidelta::restoreitemactions
