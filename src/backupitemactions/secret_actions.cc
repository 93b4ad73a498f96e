#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backupitemactions/actions.h"
#include "backupitemactions/immediate_action.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/group_deletion.h"
#include "csi/group_types.h"
#include "csi/owner_references.h"
#include "csi/snapshot_secrets.h"
#include "csi/snapshot_types.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "velero/backup.h"
#include "velero/labels.h"

namespace csidelta::backupitemactions {
namespace {

// What contents and classes have in common: their Secrets go along.
class WithSecretsAction : public ImmediateAction {
 public:
  WithSecretsAction(const csi::Environment& env, const k8s::ResourceType& type)
      : ImmediateAction(absl::StrCat(type.plural, ".", type.group)), env_(env) {}

  absl::StatusOr<velero::BackupItemResult> Execute(const CallContext& ctx, const Json& item,
                                                   const Json& backup_object) override {
    ASSIGN_OR_RETURN(const velero::Backup backup, velero::ParseBackup(backup_object));
    velero::BackupItemResult result;
    if (!env_.enable_csi) {
      return result;
    }
    Json archived = item;
    if (!backup.Finalizing()) {
      result.additional_items = Prepare(ctx, backup, archived);
    }
    if (!result.additional_items.empty()) {
      SetJson(archived, {"metadata", "annotations", objects::kMustIncludeAnnotation}, "true");
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
                                                          const velero::Backup& backup,
                                                          Json& item) = 0;

  // The same for what the archive alone has. Also of the backup that is being finalized, which
  // reads the object anew.
  virtual void Describe(const velero::Backup& /*backup*/, Json& /*item*/) {}

  csi::Environment env_;
};

class VolumeSnapshotContentAction : public WithSecretsAction {
 public:
  explicit VolumeSnapshotContentAction(const csi::Environment& env)
      : WithSecretsAction(env, csi::VolumeSnapshotContentType()) {}

 protected:
  std::vector<velero::ResourceIdentifier> Prepare(const CallContext& ctx,
                                                  const velero::Backup& backup,
                                                  Json& item) override {
    Json repair = Json::object();
    if (LacksLabel(ctx, backup, item)) {
      const std::string label = velero::ValidLabelValue(backup.name);
      SetJson(item, {"metadata", "labels", objects::kBackupNameLabel}, label);
      SetJson(repair, {"metadata", "labels", objects::kBackupNameLabel}, label);
    }
    if (csi::StripForeignOwners(env_.velero_namespace, item) && IsOf(backup, item)) {
      const Json* kept = FindJson(item, {"metadata", "ownerReferences"});
      SetJson(repair, {"metadata", "ownerReferences"}, kept == nullptr ? Json() : *kept);
    }
    if (!repair.empty()) {
      Repair(ctx, item, repair);
    }
    return csi::SecretsOfContent(item);
  }

  // Velero's own delete action takes whatever has the label, and asks the driver for this snapshot
  // alone: many drivers refuse that, and others then refuse to delete the rest of the group.
  void Describe(const velero::Backup& backup, Json& item) override {
    const auto content = objects::VolumeSnapshotContent::Of(item);
    if (content.ok() && csi::IsMemberOfOurs(*content) && IsOf(backup, item)) {
      EraseJson(item, {"metadata", "labels", objects::kBackupNameLabel});
      SetJson(item, {"metadata", "labels", objects::kMemberOfBackupLabel},
              velero::ValidLabelValue(backup.name));
    }
  }

 private:
  static bool IsOf(const velero::Backup& backup, const Json& object) {
    return k8s::Label(object, objects::kBackupNameLabel) == velero::ValidLabelValue(backup.name);
  }

  // Whether the content belongs to a VolumeSnapshot that this backup took, and does not say so.
  // Without the label nobody would delete it with the backup.
  bool LacksLabel(const CallContext& ctx, const velero::Backup& backup, const Json& item) {
    if (IsOf(backup, item) || csi::IsPreProvisioned(item)) {
      return false;
    }
    const absl::StatusOr<Json> snapshot = env_.api.Get(
        ctx, csi::VolumeSnapshotKey(GetString(item, {"spec", "volumeSnapshotRef", "namespace"}),
                                    GetString(item, {"spec", "volumeSnapshotRef", "name"})));
    return snapshot.ok() && IsOf(backup, *snapshot) &&
           k8s::Label(*snapshot, objects::kRestoreNameLabel).empty() &&
           k8s::Uid(*snapshot) == GetString(item, {"spec", "volumeSnapshotRef", "uid"});
  }

  void Repair(const CallContext& ctx, const Json& item, const Json& repair) {
    const absl::Status status = env_.api
                                    .Patch(ctx, csi::VolumeSnapshotContentKey(k8s::Name(item)),
                                           k8s::PatchKind::kMerge, repair, "")
                                    .status();
    if (!status.ok()) {
      CSIDELTA_LOG(kWarn, "a volume snapshot content keeps labels or owners that it should not",
                   {"volume_snapshot_content", k8s::Name(item)}, {"status", status.ToString()});
    }
  }
};

class VolumeSnapshotClassAction : public WithSecretsAction {
 public:
  explicit VolumeSnapshotClassAction(const csi::Environment& env)
      : WithSecretsAction(env, csi::VolumeSnapshotClassType()) {}

 protected:
  std::vector<velero::ResourceIdentifier> Prepare(const CallContext& /*ctx*/,
                                                  const velero::Backup& /*backup*/,
                                                  Json& item) override {
    return csi::SecretsOfClass(item);
  }
};

class VolumeGroupSnapshotClassAction : public WithSecretsAction {
 public:
  explicit VolumeGroupSnapshotClassAction(const csi::Environment& env)
      : WithSecretsAction(env, csi::VolumeGroupSnapshotClassType("v1")) {}

 protected:
  std::vector<velero::ResourceIdentifier> Prepare(const CallContext& /*ctx*/,
                                                  const velero::Backup& /*backup*/,
                                                  Json& item) override {
    return csi::SecretsOfGroupClass(item);
  }
};

}  // namespace

std::unique_ptr<velero::BackupItemAction> MakeVolumeSnapshotContentAction(
    const csi::Environment& env) {
  return std::make_unique<VolumeSnapshotContentAction>(env);
}

std::unique_ptr<velero::BackupItemAction> MakeVolumeSnapshotClassAction(
    const csi::Environment& env) {
  return std::make_unique<VolumeSnapshotClassAction>(env);
}

std::unique_ptr<velero::BackupItemAction> MakeVolumeGroupSnapshotClassAction(
    const csi::Environment& env) {
  return std::make_unique<VolumeGroupSnapshotClassAction>(env);
}

}  // namespace csidelta::backupitemactions
