#pragma once

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/json.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/group_lifecycle.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "restoreitemactions/immediate_action.h"
#include "velero/backup.h"
#include "velero/item_action.h"

namespace csidelta::restoreitemactions {

// What the actions for VolumeSnapshots, their contents and classes have in common: one resource,
// nothing to restore when the user wants no volumes, and no operation that goes on afterwards.
class SnapshotObjectAction : public ImmediateAction {
 public:
  using ImmediateAction::ImmediateAction;

  absl::StatusOr<velero::RestoreItemResult> Execute(const CallContext& ctx, const Json& item,
                                                    const Json& item_from_backup,
                                                    const Json& restore_json) final {
    ASSIGN_OR_RETURN(const velero::Restore restore, velero::ParseRestore(restore_json));
    if (restore.restore_pvs.has_value() && !*restore.restore_pvs) {
      return Skip();
    }
    if (csi::IsOfAnotherBackup(objects::Object(item_from_backup), restore.backup_name)) {
      CSIDELTA_LOG(kInfo, "left out what another backup had left when this one was taken",
                   {"kind", GetString(item_from_backup, {"kind"})},
                   {"namespace", k8s::Namespace(item_from_backup)},
                   {"name", k8s::Name(item_from_backup)},
                   {"backup", k8s::Label(item_from_backup, objects::kBackupNameLabel)});
      return Skip();
    }
    return RestoreObject(ctx, restore, item, item_from_backup);
  }

 private:
  virtual absl::StatusOr<velero::RestoreItemResult> RestoreObject(const CallContext& ctx,
                                                                  const velero::Restore& restore,
                                                                  const Json& item,
                                                                  const Json& item_from_backup) = 0;
};

}  // namespace csidelta::restoreitemactions
