#include <string>

#include "base/log.h"
#include "base/status_macros.h"
#include "csi/content_deletion.h"
#include "csi/group_deletion.h"
#include "csi/static_content.h"
#include "deleteitemactions/actions.h"
#include "deleteitemactions/driver_patience.h"
#include "velero/backup.h"

namespace csidelta::deleteitemactions {
namespace {

class VolumeSnapshotContentAction : public velero::DeleteItemAction {
 public:
  explicit VolumeSnapshotContentAction(const csi::Environment& env) : env_(env), patience_(env) {}

  velero::ResourceSelector AppliesTo() const override {
    velero::ResourceSelector selector;
    selector.included_resources = {"volumesnapshotcontents.snapshot.storage.k8s.io"};
    return selector;
  }

  absl::Status Execute(const CallContext& ctx, const Json& item, const Json& backup_json) override {
    ASSIGN_OR_RETURN(const velero::Backup backup, velero::ParseBackup(backup_json));
    if (csi::IsMemberOfOurs(item)) {
      return absl::OkStatus();  // Goes with its group.
    }
    const std::string driver = GetString(item, {"spec", "driver"});
    ASSIGN_OR_RETURN(
        const csi::DeletionResult result,
        csi::DeleteSnapshotOfBackup(ctx, env_, item, backup, patience_.WaitFor(ctx, driver)));
    switch (result) {
      case csi::DeletionResult::kNothing:
      case csi::DeletionResult::kDeferred:
        return absl::OkStatus();
      case csi::DeletionResult::kGone:
        CSIDELTA_LOG(kInfo, "the driver holds the snapshot no more", {"driver", driver},
                     {"snapshot_handle", csi::HandleOf(item)}, {"backup", backup.name});
        return absl::OkStatus();
      case csi::DeletionResult::kInProgress:
        patience_.WasSlow(driver);
        return absl::OkStatus();
    }
    return absl::OkStatus();
  }

 private:
  const csi::Environment env_;
  DriverPatience patience_;
};

}  // namespace

std::unique_ptr<velero::DeleteItemAction> MakeVolumeSnapshotContentAction(
    const csi::Environment& env) {
  return std::make_unique<VolumeSnapshotContentAction>(env);
}

}  // namespace csidelta::deleteitemactions
