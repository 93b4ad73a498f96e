#pragma once

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/environment.h"
#include "csi/group/group_lifecycle.h"
#include "k8s/api_client.h"
#include "objects/backup.h"
#include "objects/keys.h"
#include "objects/object.h"
#include "velero/item_action.h"

namespace csidelta::restoreitemactions {

// What the actions for VolumeSnapshots, their contents and classes have in common: one resource,
// nothing to restore when the user wants no volumes, and no operation that goes on afterwards.
template <typename Kind>
class SnapshotObjectAction : public velero::ActionOn<velero::RestoreItemAction> {
 public:
  explicit SnapshotObjectAction(const csi::Environment& env)
      : ActionOn(k8s::ToString(Kind::kKind.Type())), env_(env) {}

  absl::StatusOr<velero::RestoreItemResult> Execute(const CallContext& ctx,
                                                    const objects::Object& item,
                                                    const objects::Object& item_from_backup,
                                                    const objects::Object& restore_object) final {
    ASSIGN_OR_RETURN(const objects::Restore restore, objects::Restore::Parse(restore_object));
    if (restore.is_without_data()) {
      return Skip();
    }
    if (csi::IsOfAnotherBackup(item_from_backup, restore.backup_name())) {
      CSIDELTA_LOG(kInfo, "left out what another backup had left when this one was taken",
                   {"kind", item_from_backup.kind()},
                   {"namespace", item_from_backup.namespace_name()},
                   {"name", item_from_backup.name()},
                   {"backup", item_from_backup.Label(objects::kBackupNameLabel)});
      return Skip();
    }
    ASSIGN_OR_RETURN(const Kind kind, Kind::From(item));
    ASSIGN_OR_RETURN(const Kind kind_from_backup, Kind::From(item_from_backup));
    return RestoreObject(ctx, restore, kind, kind_from_backup);
  }

 protected:
  static velero::RestoreItemResult Skip() {
    velero::RestoreItemResult result;
    result.skip_restore = true;
    return result;
  }

  const csi::Environment env_;

 private:
  virtual absl::StatusOr<velero::RestoreItemResult> RestoreObject(const CallContext& ctx,
                                                                  const objects::Restore& restore,
                                                                  const Kind& item,
                                                                  const Kind& item_from_backup) = 0;
};

}  // namespace csidelta::restoreitemactions
