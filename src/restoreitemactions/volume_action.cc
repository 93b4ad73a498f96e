#include <memory>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/persistent_volume.h"
#include "objects/volume_snapshot.h"
#include "restoreitemactions/actions.h"
#include "velero/labels.h"

namespace csidelta::restoreitemactions {
namespace {

using objects::PersistentVolume;
using objects::VolumeSnapshot;

// Velero (source of 1.18.3) restores a PersistentVolume that is retained as it was, unless its own
// record of the backup has a snapshot of the volume. A backup with snapshotMoveData records none
// that a rule of csi-delta kept. VolumeSnapshots are restored before PersistentVolumes, PVCs after
// them. Where the filters of a restore change that, RequireVolumeIsNotReserved() stops the PVC.
class PersistentVolumeAction : public velero::ActionOn<velero::RestoreItemAction> {
 public:
  explicit PersistentVolumeAction(const csi::Environment& env)
      : ActionOn("persistentvolumes"), env_(env) {}

  absl::StatusOr<velero::RestoreItemResult> Execute(
      const CallContext& ctx, const objects::Object& /*item*/,
      const objects::Object& item_from_backup, const objects::Object& restore_object) override {
    ASSIGN_OR_RETURN(const objects::Restore restore, objects::Restore::Parse(restore_object));
    ASSIGN_OR_RETURN(const PersistentVolume archived, PersistentVolume::From(item_from_backup));
    velero::RestoreItemResult result;
    if (restore.is_without_data() || archived.pvc_namespace().empty() ||
        archived.pvc_uid().empty()) {
      return result;
    }
    const auto snapshots = objects::List<VolumeSnapshot>(
        ctx, env_.api, restore.MapNamespace(archived.pvc_namespace()),
        {.label_selector = absl::StrCat(
             objects::kRestoreNameLabel, "=", velero::ValidLabelValue(restore.name()), ",",
             objects::kPvcUidLabel, "=", velero::ValidLabelValue(archived.pvc_uid()))});
    if (absl::IsNotFound(snapshots.status())) {
      return result;
    }
    RETURN_IF_ERROR(snapshots.status());
    result.skip_restore = !snapshots->empty();
    if (result.skip_restore) {
      CSIDELTA_LOG(kInfo, "left out a volume whose PVC is restored from its snapshot",
                   {"pv", archived.name()}, {"namespace", archived.pvc_namespace()},
                   {"pvc", archived.pvc_name()}, {"volume_snapshot", snapshots->front().name()});
    }
    return result;
  }

 private:
  const csi::Environment env_;
};

}  // namespace

std::unique_ptr<velero::RestoreItemAction> MakePersistentVolumeAction(const csi::Environment& env) {
  return std::make_unique<PersistentVolumeAction>(env);
}

}  // namespace csidelta::restoreitemactions
