#include "backupitemactions/backup_cache.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/content_deletion.h"
#include "csi/group/group_deletion.h"
#include "csi/orphan_sweep.h"
#include "csi/volume_lease.h"
#include "objects/client.h"
#include "objects/core.h"

namespace csidelta::backupitemactions {
namespace {

absl::StatusOr<velero::VolumePolicies> ReadPolicies(const CallContext& ctx, k8s::ApiClient& api,
                                                    const std::string& namespace_name,
                                                    const std::string& config_map) {
  if (config_map.empty()) {
    return velero::VolumePolicies();
  }
  ASSIGN_OR_RETURN(const auto object,
                   objects::Get<objects::ConfigMap>(ctx, api, namespace_name, config_map));
  return velero::VolumePolicies::FromConfigMap(object);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const velero::VolumePolicies>> BackupCache::Policies(
    const CallContext& ctx, const objects::Backup& backup) {
  const std::string& from = backup.namespace_name();
  return policies_.Get(ctx, backup.uid(), [&]() -> absl::StatusOr<velero::VolumePolicies> {
    ASSIGN_OR_RETURN(const velero::VolumePolicies own,
                     ReadPolicies(ctx, env_.api, from, backup.resource_policy_config_map()));
    ASSIGN_OR_RETURN(const velero::VolumePolicies global,
                     ReadPolicies(ctx, env_.api, from, backup.global_policy_config_map()));
    return own.FollowedBy(global);
  });
}

absl::StatusOr<std::shared_ptr<const velero::PluginConfig>> BackupCache::Config(
    const CallContext& ctx, const objects::Backup& backup) {
  return configs_.Get(ctx, backup.uid(), [&]() -> absl::StatusOr<velero::PluginConfig> {
    ASSIGN_OR_RETURN(velero::PluginConfig config, csi::ReadPluginConfig(ctx, env_));
    if (!config.warnings.empty()) {
      CSIDELTA_LOG(kWarn, "settings that this plugin does not know",
                   {"reason", absl::StrJoin(config.warnings, "; ")});
    }
    return config;
  });
}

absl::StatusOr<std::shared_ptr<const std::vector<objects::VolumeSnapshotClass>>>
BackupCache::SnapshotClasses(const CallContext& ctx, const objects::Backup& backup) {
  return classes_.Get(ctx, backup.uid(), [&] {
    return objects::List<objects::VolumeSnapshotClass>(ctx, env_.api, "");
  });
}

absl::StatusOr<std::shared_ptr<const objects::GroupKinds>> BackupCache::GroupKinds(
    const CallContext& ctx, const objects::Backup& backup) {
  return group_kinds_.Get(ctx, backup.uid(),
                          [&] { return objects::FindGroupKinds(ctx, env_.api); });
}

absl::StatusOr<std::optional<objects::PersistentVolume>> BackupCache::Volume(
    const CallContext& ctx, const objects::Backup& backup,
    const objects::PersistentVolumeClaim& pvc) {
  const std::string name = pvc.volume_name();
  if (name.empty()) {
    return std::optional<objects::PersistentVolume>();
  }
  ASSIGN_OR_RETURN(const auto volume, volumes_.Get(ctx, absl::StrCat(backup.uid(), "/", name), [&] {
    return objects::Find<objects::PersistentVolume>(ctx, env_.api, "", name);
  }));
  return *volume;
}

absl::StatusOr<std::shared_ptr<const std::vector<objects::Pod>>> BackupCache::Pods(
    const CallContext& ctx, const objects::Backup& backup, const std::string& namespace_name) {
  return pods_.Get(ctx, backup.uid(), namespace_name);
}

void BackupCache::SweepOnce(const CallContext& ctx, const objects::Backup& backup,
                            const velero::PluginConfig& config) {
  {
    const MutexLock lock(mutex_);
    if (!swept_.insert(backup.uid()).second) {
      return;
    }
  }
  if (const absl::Status status =
          csi::RemoveStaleVolumeLeases(ctx, env_.api, env_.velero_namespace);
      !status.ok()) {
    CSIDELTA_LOG(kInfo, "old turns are left", {"status", status.ToString()});
  }
  if (!config.sweep_orphans) {
    return;
  }
  if (const absl::StatusOr<int> finished = csi::FinishGroupDeletions(ctx, env_); !finished.ok()) {
    CSIDELTA_LOG(kWarn, "cannot look for groups of deleted backups",
                 {"status", finished.status().ToString()});
  }
  if (const absl::StatusOr<int> proven = csi::FinishSnapshotDeletions(ctx, env_); !proven.ok()) {
    CSIDELTA_LOG(kWarn, "cannot look for volume snapshots of deleted backups",
                 {"status", proven.status().ToString()});
  }
  const absl::StatusOr<csi::SweepResult> swept = csi::SweepOrphans(ctx, env_, backup, config);
  if (!swept.ok()) {
    CSIDELTA_LOG(kWarn, "cannot look for volume snapshots that failed backups left behind",
                 {"status", swept.status().ToString()});
  } else if (swept->swept > 0) {
    CSIDELTA_LOG(kInfo, "removed volume snapshots that failed backups left behind",
                 {"count", absl::StrCat(swept->swept)});
  }
}

}  // namespace csidelta::backupitemactions
