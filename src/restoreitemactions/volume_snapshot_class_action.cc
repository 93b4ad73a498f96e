#include "base/status_macros.h"

#include "csi/snapshot_secrets.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "restoreitemactions/actions.h"
#include "restoreitemactions/snapshot_object_action.h"
#include "velero/backup.h"

namespace csidelta::restoreitemactions {
namespace {

class VolumeSnapshotClassAction : public SnapshotObjectAction {
 public:
  VolumeSnapshotClassAction()
      : SnapshotObjectAction("volumesnapshotclasses.snapshot.storage.k8s.io") {}

 private:
  absl::StatusOr<velero::RestoreItemResult> RestoreObject(const CallContext& /*ctx*/,
                                                          const velero::Restore& /*restore*/,
                                                          const Json& item,
                                                          const Json& item_from_backup) override {
    velero::RestoreItemResult result;
    // The archive holds the Secrets only when an action of the backup asked for them.
    if (k8s::Annotation(item_from_backup, objects::kMustIncludeAnnotation) == "true" ||
        !k8s::Annotation(item_from_backup, objects::kSnapshotterListSecretName).empty()) {
      result.additional_items = csi::SecretsOfClass(item_from_backup);
    }
    if (FindJson(item, {"metadata", "annotations", objects::kMustIncludeAnnotation}) != nullptr) {
      result.item = item;
      EraseJson(*result.item, {"metadata", "annotations", objects::kMustIncludeAnnotation});
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
