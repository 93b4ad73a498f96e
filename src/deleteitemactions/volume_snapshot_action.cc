#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/backup_contents.h"
#include "csi/snapshot_lifecycle.h"
#include "deleteitemactions/actions.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/volume_snapshot.h"
#include "velero/backup.h"
#include "velero/labels.h"

namespace csidelta::deleteitemactions {
namespace {

class VolumeSnapshotAction : public velero::ActionOn<velero::DeleteItemAction> {
 public:
  explicit VolumeSnapshotAction(const csi::Environment& env)
      : ActionOn("volumesnapshots.snapshot.storage.k8s.io"), env_(env) {}

  // Acts on the very object that was archived, and only if the backup made it.
  absl::Status Execute(const CallContext& ctx, const objects::Object& item,
                       const objects::Object& backup_object) override {
    ASSIGN_OR_RETURN(const velero::Backup backup, velero::ParseBackup(backup_object));
    if (item.Label(objects::kBackupNameLabel) != velero::ValidLabelValue(backup.name) ||
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
               : csi::RemoveSnapshot(ctx, env_.api, key, item.uid());
  }

 private:
  const csi::Environment env_;
};

}  // namespace

std::unique_ptr<velero::DeleteItemAction> MakeVolumeSnapshotAction(const csi::Environment& env) {
  return std::make_unique<VolumeSnapshotAction>(env);
}

}  // namespace csidelta::deleteitemactions
