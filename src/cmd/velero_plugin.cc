#include <memory>

#include "backupitemactions/actions.h"
#include "base/clock.h"
#include "base/random.h"
#include "csi/environment.h"
#include "deleteitemactions/actions.h"
#include "itemblockactions/actions.h"
#include "k8s/config.h"
#include "k8s/rest_client.h"
#include "plugin/placeholder_actions.h"
#include "plugin/program.h"
#include "restoreitemactions/actions.h"

namespace csidelta {
namespace {

constexpr char kClaims[] = "velero.io/csi-pvc";
constexpr char kVolumes[] = "velero.io/csi-pv";
constexpr char kSnapshots[] = "velero.io/csi-vs";
constexpr char kContents[] = "velero.io/csi-vsc";
constexpr char kClasses[] = "velero.io/csi-vsclass";
constexpr char kGroups[] = "velero.io/csi-vgs";
constexpr char kGroupContents[] = "velero.io/csi-vgsc";
constexpr char kGroupClasses[] = "velero.io/csi-vgsclass";
constexpr char kUploads[] = "velero.io/csi-dataupload";
constexpr char kUnclaimed[] = "velero.io/unclaimed-volumes";
// Without EnableCSI, Velero (1.13 and newer) calls no action whose name begins with csi-.
constexpr char kLonghornVolumes[] = "velero.io/longhorn-volume";
constexpr char kLonghornSnapshots[] = "velero.io/longhorn-snapshot";
constexpr char kLonghornGuard[] = "velero.io/longhorn-guard";
constexpr char kLonghornRestore[] = "velero.io/longhorn-restore";

// Velero 1.12 and 1.13 restore no CSI snapshot without an error unless these names are registered.
constexpr char kVeleroClaimBackup[] = "velero.io/csi-pvc-backupper";
constexpr char kVeleroClaimRestore[] = "velero.io/csi-pvc-restorer";

k8s::ClientSettings SettingsFor(const plugin::Arguments& arguments) {
  k8s::ClientSettings settings = k8s::ClientSettings::FromEnvironment();
  settings.kubeconfig = arguments.kubeconfig;
  settings.kubecontext = arguments.kubecontext;
  settings.qps = arguments.client_qps;
  settings.burst = arguments.client_burst;
  settings.version = plugin::kVersion;
  return settings;
}

void RegisterActions(const csi::Environment& env, plugin::Registry& registry) {
  registry.backup.Add(kClaims, backupitemactions::MakePvcAction(env));
  registry.backup.Add(kSnapshots, backupitemactions::MakeVolumeSnapshotAction(env));
  registry.backup.Add(kContents, backupitemactions::MakeVolumeSnapshotContentAction(env));
  registry.backup.Add(kClasses, backupitemactions::MakeVolumeSnapshotClassAction(env));
  registry.backup.Add(kGroups, backupitemactions::MakeVolumeGroupSnapshotAction(env));
  registry.backup.Add(kGroupContents, backupitemactions::MakeVolumeGroupSnapshotContentAction(env));
  registry.backup.Add(kGroupClasses, backupitemactions::MakeVolumeGroupSnapshotClassAction(env));
  registry.backup.Add(kUploads, backupitemactions::MakeDataUploadAction(env));
  registry.backup.Add(kUnclaimed, backupitemactions::MakeUnclaimedVolumeAction(env));
  registry.backup.Add(kLonghornVolumes, backupitemactions::MakeLonghornVolumeAction(env));
  registry.backup.Add(kLonghornSnapshots, backupitemactions::MakeLonghornSnapshotAction(env));
  registry.restore.Add(kClaims, restoreitemactions::MakePvcAction(env));
  registry.restore.Add(kVolumes, restoreitemactions::MakePersistentVolumeAction(env));
  registry.restore.Add(kSnapshots, restoreitemactions::MakeVolumeSnapshotAction(env));
  registry.restore.Add(kContents, restoreitemactions::MakeVolumeSnapshotContentAction(env));
  registry.restore.Add(kClasses, restoreitemactions::MakeVolumeSnapshotClassAction(env));
  registry.restore.Add(kGroups, restoreitemactions::MakeVolumeGroupSnapshotAction(env));
  registry.restore.Add(kGroupContents,
                       restoreitemactions::MakeVolumeGroupSnapshotContentAction(env));
  registry.restore.Add(kGroupClasses, restoreitemactions::MakeVolumeGroupSnapshotClassAction(env));
  registry.restore.Add(kLonghornGuard, restoreitemactions::MakeLonghornGuardAction(env));
  registry.restore.Add(kLonghornRestore, restoreitemactions::MakeLonghornRestoreAction(env));
  registry.deletion.Add(kUploads, deleteitemactions::MakeDataUploadAction(env));
  registry.deletion.Add(kSnapshots, deleteitemactions::MakeVolumeSnapshotAction(env));
  const auto groups = deleteitemactions::MakeGroupDeletions(env);
  registry.deletion.Add(kContents, deleteitemactions::MakeVolumeSnapshotContentAction(env, groups));
  registry.deletion.Add(kGroupContents,
                        deleteitemactions::MakeVolumeGroupSnapshotContentAction(groups));
  registry.deletion.Add(kLonghornSnapshots, deleteitemactions::MakeLonghornSnapshotAction(env));
  registry.item_block.Add(kClaims, itemblockactions::MakePvcAction(env));
  if (env.enable_csi) {
    registry.backup.AddPlaceholder(kVeleroClaimBackup, plugin::MakePlaceholderBackupAction());
    registry.restore.AddPlaceholder(kVeleroClaimRestore, plugin::MakePlaceholderRestoreAction());
  }
}

}  // namespace
}  // namespace csidelta

int main(int argc, char** argv) {
  using namespace csidelta;             // NOLINT(google-build-using-namespace)
  std::unique_ptr<k8s::ApiClient> api;  // Borrowed by every action.
  return plugin::RunProgram(
      argc, argv, [&](const plugin::Arguments& arguments, plugin::Registry& registry) {
        api = k8s::MakeClient(SettingsFor(arguments));
        const csi::Environment env{
            .api = *api,
            .clock = Clock::Real(),
            .random = Random::Real(),
            .velero_namespace = k8s::ResolveVeleroNamespace(arguments.namespace_name),
            .enable_csi = arguments.HasFeature("EnableCSI")};
        RegisterActions(env, registry);
        return absl::OkStatus();
      });
}
