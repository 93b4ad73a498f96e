#include <utility>

#include "csi/snapshot_secrets.h"
#include "objects/keys.h"
#include "objects/volume_snapshot.h"
#include "restoreitemactions/actions.h"
#include "restoreitemactions/snapshot_object_action.h"
#include "velero/backup.h"

namespace csidelta::restoreitemactions {
namespace {

class VolumeSnapshotClassAction : public SnapshotObjectAction<objects::VolumeSnapshotClass> {
 public:
  VolumeSnapshotClassAction()
      : SnapshotObjectAction("volumesnapshotclasses.snapshot.storage.k8s.io") {}

 private:
  absl::StatusOr<velero::RestoreItemResult> RestoreObject(
      const CallContext& /*ctx*/, const velero::Restore& /*restore*/,
      const objects::VolumeSnapshotClass& item,
      const objects::VolumeSnapshotClass& item_from_backup) override {
    velero::RestoreItemResult result;
    // The archive holds the Secrets only when an action of the backup asked for them.
    if (item_from_backup.Annotation(objects::kMustIncludeAnnotation) == "true" ||
        !item_from_backup.Annotation(objects::kSnapshotterListSecretName).empty()) {
      result.additional_items = csi::SecretsOfClass(item_from_backup);
    }
    if (objects::Object changed = item; changed.RemoveAnnotation(objects::kMustIncludeAnnotation)) {
      result.item = std::move(changed);
    }
    return result;
  }
};

}  // namespace

std::unique_ptr<velero::RestoreItemAction> MakeVolumeSnapshotClassAction(
    const csi::Environment& /*env*/) {
  return std::make_unique<VolumeSnapshotClassAction>();
}

}  // namespace csidelta::restoreitemactions
