#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/content_deletion.h"
#include "csi/drop.h"
#include "csi/group/group_deletion.h"
#include "csi/snapshot_need.h"
#include "deleteitemactions/actions.h"
#include "deleteitemactions/group_deletions.h"
#include "deleteitemactions/undeleted.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/volume_snapshot.h"
#include "velero/labels.h"

namespace csidelta::deleteitemactions {
namespace {

class VolumeSnapshotContentAction : public velero::ActionOn<velero::DeleteItemAction> {
 public:
  VolumeSnapshotContentAction(const csi::Environment& env, std::shared_ptr<GroupDeletions> groups)
      : ActionOn("volumesnapshotcontents.snapshot.storage.k8s.io"),
        env_(env),
        grace_period_(env),
        groups_(std::move(groups)) {}

  absl::Status Execute(const CallContext& ctx, const objects::Object& item,
                       const objects::Object& backup_object) override {
    ASSIGN_OR_RETURN(const objects::Backup backup, objects::Backup::Parse(backup_object));
    ASSIGN_OR_RETURN(const auto content, objects::VolumeSnapshotContent::From(item));
    if (csi::IsManagedMember(content)) {
      const auto group_content = objects::VolumeGroupSnapshotContent::RecordedIn(content);
      return group_content.has_value() ? groups_->Delete(ctx, *group_content, backup)
                                       : absl::OkStatus();  // Goes with its group's content.
    }
    const std::string driver = content.driver();
    const UndeletedData data = {
        .backup = backup,
        .text = absl::StrCat("snapshot ", content.handle_or_source(), " of driver ", driver)};
    const absl::StatusOr<csi::DeletionResult> result =
        csi::DeleteSnapshotOfBackup(ctx, env_, content, backup, grace_period_.WaitFor(ctx, driver));
    if (!result.ok()) {
      return ConcludeDeletion(ctx, env_, data, result.status(), [&] {
        return objects::List<objects::VolumeSnapshotContent>(
                   ctx, env_.api, "", {.label_selector = objects::kCsiDeltaLabel})
            .status();
      });
    }
    switch (*result) {
      case csi::DeletionResult::kNothing:
      case csi::DeletionResult::kDeferred:
        return absl::OkStatus();
      case csi::DeletionResult::kGone:
        CSIDELTA_LOG(kInfo, "the driver holds the snapshot no more", {"driver", driver},
                     {"snapshot_handle", content.handle_or_source()}, {"backup", backup.name()});
        return absl::OkStatus();
      case csi::DeletionResult::kDeclined:
        return RecordUndeleted(ctx, env_, data,
                               "it is a member of a group that the driver holds: the CSI sidecar "
                               "deletes it only with its group, and nothing here knows that group");
      case csi::DeletionResult::kNoDriver:
        return RecordUndeleted(ctx, env_, {backup, "snapshots of driver " + driver}, kNoDriver);
      case csi::DeletionResult::kInProgress:
        grace_period_.WasSlow(driver);
        return absl::OkStatus();
    }
    return absl::OkStatus();
  }

 private:
  const csi::Environment env_;
  DriverGracePeriod grace_period_;
  const std::shared_ptr<GroupDeletions> groups_;
};

class VolumeGroupSnapshotContentAction : public velero::ActionOn<velero::DeleteItemAction> {
 public:
  explicit VolumeGroupSnapshotContentAction(std::shared_ptr<GroupDeletions> groups)
      : ActionOn("volumegroupsnapshotcontents.groupsnapshot.storage.k8s.io"),
        groups_(std::move(groups)) {}

  absl::Status Execute(const CallContext& ctx, const objects::Object& item,
                       const objects::Object& backup_object) override {
    ASSIGN_OR_RETURN(const objects::Backup backup, objects::Backup::Parse(backup_object));
    ASSIGN_OR_RETURN(const auto content, objects::VolumeGroupSnapshotContent::From(item));
    return groups_->Delete(ctx, content, backup);
  }

 private:
  const std::shared_ptr<GroupDeletions> groups_;
};

class VolumeSnapshotAction : public velero::ActionOn<velero::DeleteItemAction> {
 public:
  explicit VolumeSnapshotAction(const csi::Environment& env)
      : ActionOn("volumesnapshots.snapshot.storage.k8s.io"), env_(env) {}

  // Acts on the very object that was archived, and only if the backup made it.
  absl::Status Execute(const CallContext& ctx, const objects::Object& item,
                       const objects::Object& backup_object) override {
    ASSIGN_OR_RETURN(const objects::Backup backup, objects::Backup::Parse(backup_object));
    if (item.Label(objects::kBackupNameLabel) != velero::ValidLabelValue(backup.name()) ||
        !item.Label(objects::kRestoreNameLabel).empty() || item.uid().empty()) {
      return absl::OkStatus();
    }
    const k8s::ObjectKey key = objects::VolumeSnapshot::Key(item.namespace_name(), item.name());
    ASSIGN_OR_RETURN(const auto now, objects::Find<objects::VolumeSnapshot>(ctx, env_.api, key));
    if (!now.has_value() || now->uid() != item.uid()) {
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const bool is_needed, csi::IsStillNeeded(ctx, env_, *now));
    return is_needed
               ? absl::FailedPreconditionError(absl::StrCat(k8s::ToString(key),
                                                            " is kept: a PVC is being filled from "
                                                            "it; delete the backup again later"))
               : csi::DeleteSnapshot(ctx, env_.api, key, item.uid());
  }

 private:
  const csi::Environment env_;
};

}  // namespace

std::shared_ptr<GroupDeletions> MakeGroupDeletions(const csi::Environment& env) {
  return std::make_shared<GroupDeletions>(env);
}

std::unique_ptr<velero::DeleteItemAction> MakeVolumeSnapshotContentAction(
    const csi::Environment& env, std::shared_ptr<GroupDeletions> groups) {
  return std::make_unique<VolumeSnapshotContentAction>(env, std::move(groups));
}

std::unique_ptr<velero::DeleteItemAction> MakeVolumeGroupSnapshotContentAction(
    std::shared_ptr<GroupDeletions> groups) {
  return std::make_unique<VolumeGroupSnapshotContentAction>(std::move(groups));
}

std::unique_ptr<velero::DeleteItemAction> MakeVolumeSnapshotAction(const csi::Environment& env) {
  return std::make_unique<VolumeSnapshotAction>(env);
}

}  // namespace csidelta::deleteitemactions
