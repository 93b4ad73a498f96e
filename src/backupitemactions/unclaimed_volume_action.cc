#include <memory>
#include <string>

#include "backupitemactions/actions.h"
#include "backupitemactions/backup_facts.h"
#include "backupitemactions/immediate_action.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "k8s/object.h"
#include "velero/backup.h"
#include "velero/volume_decision.h"

namespace csidelta::backupitemactions {
namespace {

class UnclaimedVolumeAction : public ImmediateAction {
 public:
  explicit UnclaimedVolumeAction(const csi::Environment& env)
      : ImmediateAction("persistentvolumeclaims"), env_(env), facts_(env) {}

  absl::StatusOr<velero::BackupItemResult> Execute(const CallContext& ctx, const Json& item,
                                                   const Json& backup_object) override {
    if (env_.enable_csi) {
      return velero::BackupItemResult{};  // The action on claims does it, and says what it does.
    }
    ASSIGN_OR_RETURN(const velero::Backup backup, velero::ParseBackup(backup_object));
    if (backup.Finalizing()) {
      return velero::BackupItemResult{};
    }
    const velero::VolumeQueries queries{
        .policies = [&] { return facts_.Policies(ctx, backup); },
        .pv = [&] { return ReadVolume(ctx, backup, item); },
        .pods = [&] { return facts_.Pods(ctx, backup, k8s::Namespace(item)); },
    };
    const velero::DecisionInput input{.backup = backup, .pvc = item, .enable_csi = false};
    ASSIGN_OR_RETURN(const velero::VolumeDecision decision, velero::DecideVolume(input, queries));
    if (decision.warn) {
      CSIDELTA_LOG(kWarn, "volume left alone", {"namespace", k8s::Namespace(item)},
                   {"pvc", k8s::Name(item)}, {"reason", decision.reason});
    }
    return velero::BackupItemResult{};
  }

 private:
  absl::StatusOr<Json> ReadVolume(const CallContext& ctx, const velero::Backup& backup,
                                  const Json& item) {
    const std::string name = GetString(item, {"spec", "volumeName"});
    if (name.empty()) {
      return Json();
    }
    ASSIGN_OR_RETURN(const auto volume, facts_.Volume(ctx, backup, name));
    return *volume;
  }

  const csi::Environment env_;
  BackupFacts facts_;
};

}  // namespace

std::unique_ptr<velero::BackupItemAction> MakeUnclaimedVolumeAction(const csi::Environment& env) {
  return std::make_unique<UnclaimedVolumeAction>(env);
}

}  // namespace csidelta::backupitemactions
