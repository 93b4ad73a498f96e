#include "base/status_macros.h"
#include "csi/snapshot_secrets.h"
#include "csi/snapshot_types.h"
#include "restoreitemactions/actions.h"
#include "restoreitemactions/synchronous_action.h"
#include "velero/backup.h"
#include "velero/labels.h"

namespace csidelta::restoreitemactions {
namespace {

class VolumeSnapshotClassAction : public SynchronousAction {
 public:
  velero::ResourceSelector AppliesTo() const override {
    velero::ResourceSelector selector;
    selector.included_resources = {"volumesnapshotclasses.snapshot.storage.k8s.io"};
    return selector;
  }

  absl::StatusOr<velero::RestoreItemResult> Execute(const CallContext& /*ctx*/, const Json& item,
                                                    const Json& item_from_backup,
                                                    const Json& restore_json) override {
    ASSIGN_OR_RETURN(const velero::Restore restore, velero::ParseRestore(restore_json));
    velero::RestoreItemResult result;
    if (restore.restore_pvs.has_value() && !*restore.restore_pvs) {
      result.skip_restore = true;
      return result;
    }
    // The archive holds the Secrets only when an action of the backup asked for them.
    if (csi::Annotation(item_from_backup, velero::kMustIncludeAnnotation) == "true" ||
        !csi::Annotation(item_from_backup, velero::kSnapshotterListSecretName).empty()) {
      result.additional_items = csi::SecretsOfClass(item_from_backup);
    }
    if (FindJson(item, {"metadata", "annotations", velero::kMustIncludeAnnotation}) != nullptr) {
      result.item = item;
      EraseJson(*result.item, {"metadata", "annotations", velero::kMustIncludeAnnotation});
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
