#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "deleteitemactions/actions.h"
#include "deleteitemactions/group_deletions.h"
#include "velero/backup.h"

namespace csidelta::deleteitemactions {
namespace {

class VolumeGroupSnapshotContentAction : public velero::DeleteItemAction {
 public:
  explicit VolumeGroupSnapshotContentAction(std::shared_ptr<GroupDeletions> groups)
      : groups_(std::move(groups)) {}

  velero::ResourceSelector AppliesTo() const override {
    velero::ResourceSelector selector;
    selector.included_resources = {"volumegroupsnapshotcontents.groupsnapshot.storage.k8s.io"};
    return selector;
  }

  absl::Status Execute(const CallContext& ctx, const objects::Object& item,
                       const objects::Object& backup_object) override {
    ASSIGN_OR_RETURN(const velero::Backup backup, velero::ParseBackup(backup_object));
    ASSIGN_OR_RETURN(const auto content, objects::VolumeGroupSnapshotContent::From(item));
    return groups_->Delete(ctx, content, backup);
  }

 private:
  const std::shared_ptr<GroupDeletions> groups_;
};

}  // namespace

std::shared_ptr<GroupDeletions> MakeGroupDeletions(const csi::Environment& env) {
  return std::make_shared<GroupDeletions>(env);
}

std::unique_ptr<velero::DeleteItemAction> MakeVolumeGroupSnapshotContentAction(
    std::shared_ptr<GroupDeletions> groups) {
  return std::make_unique<VolumeGroupSnapshotContentAction>(std::move(groups));
}

}  // namespace csidelta::deleteitemactions
