#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backupitemactions/actions.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/expose/snapshot_secrets.h"
#include "csi/group/group_deletion.h"
#include "csi/owner_references.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/volume_group_snapshot.h"
#include "objects/volume_snapshot.h"
#include "velero/labels.h"

namespace csidelta::backupitemactions {
namespace {

using objects::VolumeGroupSnapshotClass;
using objects::VolumeSnapshotClass;
using objects::VolumeSnapshotContent;

// What contents and classes have in common: their Secrets go along.
template <typename Kind>
class WithSecretsAction : public velero::ActionOn<velero::BackupItemAction> {
 public:
  explicit WithSecretsAction(const csi::Environment& env)
      : ActionOn(k8s::ToString(Kind::Type())), env_(env) {}

  absl::StatusOr<velero::BackupItemResult> Execute(const CallContext& ctx,
                                                   const objects::Object& item,
                                                   const objects::Object& backup_object) override {
    ASSIGN_OR_RETURN(const objects::Backup backup, objects::Backup::Parse(backup_object));
    velero::BackupItemResult result;
    if (!env_.enable_csi) {
      return result;
    }
    ASSIGN_OR_RETURN(Kind archived, Kind::From(item));
    if (!backup.is_finalizing()) {
      result.additional_items = Prepare(ctx, backup, archived);
    }
    if (!result.additional_items.empty()) {
      archived.SetAnnotation(objects::kMustIncludeAnnotation, "true");
    }
    Describe(backup, archived);
    if (archived != item) {
      result.item = std::move(archived);
    }
    return result;
  }

 protected:
  // Makes the item what is archived; returns the Secrets that go along.
  virtual std::vector<velero::ResourceIdentifier> Prepare(const CallContext& ctx,
                                                          const objects::Backup& backup,
                                                          Kind& item) = 0;

  // The same for what the archive alone has. Also of the backup that is being finalized, which
  // reads the object again.
  virtual void Describe(const objects::Backup& /*backup*/, Kind& /*item*/) {}

  csi::Environment env_;
};

class VolumeSnapshotContentAction : public WithSecretsAction<VolumeSnapshotContent> {
 public:
  using WithSecretsAction::WithSecretsAction;

 protected:
  std::vector<velero::ResourceIdentifier> Prepare(const CallContext& ctx,
                                                  const objects::Backup& backup,
                                                  VolumeSnapshotContent& item) override {
    objects::Patch repair;
    if (LacksLabel(ctx, backup, item)) {
      const std::string label = velero::ValidLabelValue(backup.name());
      item.SetLabel(objects::kBackupNameLabel, label);
      repair.SetLabel(objects::kBackupNameLabel, label);
    }
    if (csi::StripForeignOwners(env_.velero_namespace, item) && IsOf(backup, item)) {
      repair.SetOwnersOf(item);
    }
    if (!repair.is_empty()) {
      Repair(ctx, item, repair);
    }
    return csi::SecretsOf(item);
  }

  // Velero's own delete action takes whatever has the label, and asks the driver for this snapshot
  // alone: many drivers refuse that, and others then refuse to delete the rest of the group.
  void Describe(const objects::Backup& backup, VolumeSnapshotContent& item) override {
    if (csi::IsManagedMember(item) && IsOf(backup, item)) {
      item.RemoveLabel(objects::kBackupNameLabel);
      item.SetLabel(objects::kMemberOfBackupLabel, velero::ValidLabelValue(backup.name()));
    }
  }

 private:
  static bool IsOf(const objects::Backup& backup, const objects::Object& object) {
    return object.Label(objects::kBackupNameLabel) == velero::ValidLabelValue(backup.name());
  }

  // Whether the content belongs to a VolumeSnapshot that this backup took, and does not say so.
  // Without the label Velero would not delete it with the backup.
  bool LacksLabel(const CallContext& ctx, const objects::Backup& backup,
                  const VolumeSnapshotContent& item) {
    if (IsOf(backup, item) || item.is_pre_provisioned()) {
      return false;
    }
    const auto snapshot = objects::Get<objects::VolumeSnapshot>(
        ctx, env_.api, item.snapshot_namespace(), item.snapshot_name());
    return snapshot.ok() && IsOf(backup, *snapshot) &&
           snapshot->Label(objects::kRestoreNameLabel).empty() &&
           snapshot->uid() == item.snapshot_uid();
  }

  void Repair(const CallContext& ctx, const VolumeSnapshotContent& item,
              const objects::Patch& repair) {
    const absl::Status status =
        objects::Apply(ctx, env_.api, VolumeSnapshotContent::Key("", item.name()), repair);
    if (!status.ok()) {
      CSIDELTA_LOG(kWarn, "a volume snapshot content keeps labels or owners that it should not",
                   {"volume_snapshot_content", item.name()}, {"status", status.ToString()});
    }
  }
};

// `Class`: a class of either kind.
template <typename Class>
class ClassAction : public WithSecretsAction<Class> {
 public:
  using WithSecretsAction<Class>::WithSecretsAction;

 protected:
  std::vector<velero::ResourceIdentifier> Prepare(const CallContext& /*ctx*/,
                                                  const objects::Backup& /*backup*/,
                                                  Class& item) override {
    return csi::SecretsOf(item);
  }
};

}  // namespace

std::unique_ptr<velero::BackupItemAction> MakeVolumeSnapshotContentAction(
    const csi::Environment& env) {
  return std::make_unique<VolumeSnapshotContentAction>(env);
}

std::unique_ptr<velero::BackupItemAction> MakeVolumeSnapshotClassAction(
    const csi::Environment& env) {
  return std::make_unique<ClassAction<VolumeSnapshotClass>>(env);
}

std::unique_ptr<velero::BackupItemAction> MakeVolumeGroupSnapshotClassAction(
    const csi::Environment& env) {
  return std::make_unique<ClassAction<VolumeGroupSnapshotClass>>(env);
}

}  // namespace csidelta::backupitemactions
