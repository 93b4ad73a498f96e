#include <mutex>
#include <set>
#include <string>

#include "base/log.h"
#include "base/status_macros.h"
#include "csi/content_deletion.h"
#include "csi/settings.h"
#include "csi/snapshot_types.h"
#include "csi/static_content.h"
#include "deleteitemactions/actions.h"
#include "velero/backup.h"
#include "velero/labels.h"

namespace csidelta::deleteitemactions {
namespace {

// Velero deletes one item after the other. A driver that has not agreed once in time is not waited
// for as long again: what it was asked stands in the cluster and is finished there.
constexpr absl::Duration kWaitForSlowDriver = absl::Seconds(1);

class VolumeSnapshotContentAction : public velero::DeleteItemAction {
 public:
  explicit VolumeSnapshotContentAction(const csi::Environment& env) : env_(env) {}

  velero::ResourceSelector AppliesTo() const override {
    velero::ResourceSelector selector;
    selector.included_resources = {"volumesnapshotcontents.snapshot.storage.k8s.io"};
    return selector;
  }

  absl::Status Execute(const CallContext& ctx, const Json& item, const Json& backup_json) override {
    ASSIGN_OR_RETURN(const velero::Backup backup, velero::ParseBackup(backup_json));
    const std::string driver = GetString(item, {"spec", "driver"});
    ASSIGN_OR_RETURN(const csi::DeletionResult result,
                     csi::DeleteSnapshotOfBackup(ctx, env_, item, backup, WaitFor(ctx, driver)));
    switch (result) {
      case csi::DeletionResult::kNothing:
      case csi::DeletionResult::kDeferred:
        return absl::OkStatus();
      case csi::DeletionResult::kGone:
        CSIDELTA_LOG(kInfo, "the driver holds the snapshot no more", {"driver", driver},
                     {"snapshot_handle", csi::HandleOf(item)}, {"backup", backup.name});
        return absl::OkStatus();
      case csi::DeletionResult::kInProgress: {
        std::scoped_lock lock(mutex_);
        slow_drivers_.insert(driver);
        return absl::OkStatus();
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Duration WaitFor(const CallContext& ctx, const std::string& driver) {
    {
      std::scoped_lock lock(mutex_);
      if (slow_drivers_.count(driver) > 0) {
        return kWaitForSlowDriver;
      }
    }
    const absl::StatusOr<velero::PluginConfig> config = csi::ReadPluginConfig(ctx, env_);
    if (!config.ok()) {
      CSIDELTA_LOG(kWarn, "settings cannot be read: the defaults count",
                   {"error", config.status().ToString()});
      return velero::PluginConfig().deletion_wait;
    }
    return config->deletion_wait;
  }

  const csi::Environment env_;
  std::mutex mutex_;
  std::set<std::string> slow_drivers_;  // guarded by mutex_
};

}  // namespace

std::unique_ptr<velero::DeleteItemAction> MakeVolumeSnapshotContentAction(
    const csi::Environment& env) {
  return std::make_unique<VolumeSnapshotContentAction>(env);
}

}  // namespace csidelta::deleteitemactions
