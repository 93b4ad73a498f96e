#include <memory>
#include <string>

#include "backupitemactions/actions.h"
#include "backupitemactions/backup_cache.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "objects/persistent_volume_claim.h"
#include "velero/backup.h"
#include "velero/volume_decision.h"

namespace csidelta::backupitemactions {
namespace {

class UnclaimedVolumeAction : public velero::ActionOn<velero::BackupItemAction> {
 public:
  explicit UnclaimedVolumeAction(const csi::Environment& env)
      : ActionOn("persistentvolumeclaims"), env_(env), cache_(env) {}

  absl::StatusOr<velero::BackupItemResult> Execute(const CallContext& ctx,
                                                   const objects::Object& item,
                                                   const objects::Object& backup_object) override {
    if (env_.enable_csi) {
      return velero::BackupItemResult{};  // The action on claims does it, and says what it does.
    }
    ASSIGN_OR_RETURN(const velero::Backup backup, velero::ParseBackup(backup_object));
    if (backup.Finalizing()) {
      return velero::BackupItemResult{};
    }
    ASSIGN_OR_RETURN(const auto pvc, objects::PersistentVolumeClaim::From(item));
    const velero::VolumeQueries queries{
        .policies = [&] { return cache_.Policies(ctx, backup); },
        .pv = [&] { return cache_.Volume(ctx, backup, pvc); },
        .pods = [&] { return cache_.Pods(ctx, backup, pvc.namespace_name()); },
    };
    const velero::DecisionInput input{.backup = backup, .pvc = pvc, .enable_csi = false};
    ASSIGN_OR_RETURN(const velero::VolumeDecision decision, velero::DecideVolume(input, queries));
    if (decision.warn) {
      CSIDELTA_LOG(kWarn, "volume left alone", {"namespace", pvc.namespace_name()},
                   {"pvc", pvc.name()}, {"reason", decision.reason});
    }
    return velero::BackupItemResult{};
  }

 private:
  const csi::Environment env_;
  BackupCache cache_;
};

}  // namespace

std::unique_ptr<velero::BackupItemAction> MakeUnclaimedVolumeAction(const csi::Environment& env) {
  return std::make_unique<UnclaimedVolumeAction>(env);
}

}  // namespace csidelta::backupitemactions
