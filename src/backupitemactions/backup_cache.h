#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "csi/environment.h"
#include "csi/group/group_lifecycle.h"
#include "csi/once_map.h"
#include "objects/backup.h"
#include "objects/persistent_volume.h"
#include "objects/volume_group_snapshot.h"
#include "objects/volume_snapshot.h"
#include "objects/workload.h"
#include "velero/plugin_config.h"
#include "velero/volume_policy.h"

namespace csidelta::backupitemactions {

// Settings, classes and volumes of a whole backup, read from the API server on first use and kept
// by the backup's uid. Thread-safe.
class BackupCache {
 public:
  explicit BackupCache(const csi::Environment& env) : env_(env), pods_(env.api) {}

  // The backup's volume policies and after them the global ones.
  absl::StatusOr<std::shared_ptr<const velero::VolumePolicies>> Policies(
      const CallContext& ctx, const objects::Backup& backup);

  // This plugin's settings. Warns once per backup about what it does not know in them.
  absl::StatusOr<std::shared_ptr<const velero::PluginConfig>> Config(const CallContext& ctx,
                                                                     const objects::Backup& backup);

  // All VolumeSnapshotClasses.
  absl::StatusOr<std::shared_ptr<const std::vector<objects::VolumeSnapshotClass>>> SnapshotClasses(
      const CallContext& ctx, const objects::Backup& backup);

  // The group kinds and all VolumeGroupSnapshotClasses. NOT_FOUND when the cluster has none.
  absl::StatusOr<std::shared_ptr<const objects::GroupKinds>> GroupKinds(
      const CallContext& ctx, const objects::Backup& backup);

  // The PersistentVolume of a PVC; nothing where it has none. A volume that was read to form a
  // group is not read again for each member.
  absl::StatusOr<std::optional<objects::PersistentVolume>> Volume(
      const CallContext& ctx, const objects::Backup& backup,
      const objects::PersistentVolumeClaim& pvc);

  absl::StatusOr<std::shared_ptr<const std::vector<objects::Pod>>> Pods(
      const CallContext& ctx, const objects::Backup& backup, const std::string& namespace_name);

  // Removes what earlier backups left behind, once per backup, in the first caller's time.
  void SweepOnce(const CallContext& ctx, const objects::Backup& backup,
                 const velero::PluginConfig& config);

 private:
  csi::Environment env_;
  csi::NamespacePods pods_;
  csi::OnceMap<velero::VolumePolicies> policies_{8};
  csi::OnceMap<velero::PluginConfig> configs_{8};
  csi::OnceMap<std::vector<objects::VolumeSnapshotClass>> classes_{8};
  csi::OnceMap<objects::GroupKinds> group_kinds_{8};
  csi::OnceMap<std::optional<objects::PersistentVolume>> volumes_{csi::kGroupMembersMax};
  Mutex mutex_;
  std::set<std::string> swept_ ABSL_GUARDED_BY(mutex_);  // uids; one process serves few backups
};

}  // namespace csidelta::backupitemactions
