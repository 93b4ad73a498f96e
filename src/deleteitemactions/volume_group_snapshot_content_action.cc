#include <string>

#include "base/log.h"
#include "base/status_macros.h"
#include "csi/group_deletion.h"
#include "csi/static_group.h"
#include "deleteitemactions/actions.h"
#include "deleteitemactions/driver_patience.h"
#include "velero/backup.h"

namespace csidelta::deleteitemactions {
namespace {

class VolumeGroupSnapshotContentAction : public velero::DeleteItemAction {
 public:
  explicit VolumeGroupSnapshotContentAction(const csi::Environment& env)
      : env_(env), patience_(env) {}

  velero::ResourceSelector AppliesTo() const override {
    velero::ResourceSelector selector;
    selector.included_resources = {"volumegroupsnapshotcontents.groupsnapshot.storage.k8s.io"};
    return selector;
  }

  absl::Status Execute(const CallContext& ctx, const Json& item, const Json& backup_json) override {
    ASSIGN_OR_RETURN(const velero::Backup backup, velero::ParseBackup(backup_json));
    const std::string driver = GetString(item, {"spec", "driver"});
    ASSIGN_OR_RETURN(
        const csi::DeletionResult result,
        csi::DeleteGroupOfBackup(ctx, env_, item, backup, patience_.WaitFor(ctx, driver)));
    if (result == csi::DeletionResult::kGone) {
      CSIDELTA_LOG(kInfo, "the driver holds the group no more", {"driver", driver},
                   {"group_snapshot_handle", csi::ArchivedGroupHandle(item)},
                   {"backup", backup.name});
    } else if (result == csi::DeletionResult::kInProgress) {
      patience_.WasSlow(driver);
    }
    return absl::OkStatus();
  }

 private:
  const csi::Environment env_;
  DriverPatience patience_;
};

}  // namespace

std::unique_ptr<velero::DeleteItemAction> MakeVolumeGroupSnapshotContentAction(
    const csi::Environment& env) {
  return std::make_unique<VolumeGroupSnapshotContentAction>(env);
}

}  // namespace csidelta::deleteitemactions
