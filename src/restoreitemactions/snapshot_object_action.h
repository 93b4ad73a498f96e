#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/group_lifecycle.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "velero/backup.h"
#include "velero/item_action.h"

namespace csidelta::restoreitemactions {

// What the actions for VolumeSnapshots, their contents and classes have in common: one resource,
// nothing to restore when the user wants no volumes, and no operation that goes on afterwards.
class SnapshotObjectAction : public velero::RestoreItemAction {
 public:
  // `resource` as "plural.group".
  explicit SnapshotObjectAction(std::string resource) : resource_(std::move(resource)) {}

  velero::ResourceSelector AppliesTo() const final {
    velero::ResourceSelector selector;
    selector.included_resources = {resource_};
    return selector;
  }

  absl::StatusOr<velero::RestoreItemResult> Execute(const CallContext& ctx, const Json& item,
                                                    const Json& item_from_backup,
                                                    const Json& restore_json) final {
    ASSIGN_OR_RETURN(const velero::Restore restore, velero::ParseRestore(restore_json));
    if (restore.restore_pvs.has_value() && !*restore.restore_pvs) {
      return Skip();
    }
    if (csi::IsOfAnotherBackup(item_from_backup, restore.backup_name)) {
      CSIDELTA_LOG(kInfo, "left out what another backup had left when this one was taken",
                   {"kind", GetString(item_from_backup, {"kind"})},
                   {"namespace", k8s::Namespace(item_from_backup)},
                   {"name", k8s::Name(item_from_backup)},
                   {"backup", k8s::Label(item_from_backup, objects::kBackupNameLabel)});
      return Skip();
    }
    return RestoreObject(ctx, restore, item, item_from_backup);
  }

  absl::StatusOr<velero::OperationProgress> Progress(const CallContext& /*ctx*/,
                                                     absl::string_view operation_id,
                                                     const Json& /*restore*/) final {
    velero::OperationProgress progress;
    progress.completed = true;
    progress.error = absl::StrCat("no such operation: ", operation_id);
    return progress;
  }

  absl::Status Cancel(const CallContext& /*ctx*/, absl::string_view /*operation_id*/,
                      const Json& /*restore*/) final {
    return absl::OkStatus();
  }

  absl::StatusOr<bool> AreAdditionalItemsReady(
      const CallContext& /*ctx*/, const std::vector<velero::ResourceIdentifier>& /*items*/,
      const Json& /*restore*/) final {
    return true;
  }

 protected:
  static velero::RestoreItemResult Skip() {
    velero::RestoreItemResult result;
    result.skip_restore = true;
    return result;
  }

 private:
  virtual absl::StatusOr<velero::RestoreItemResult> RestoreObject(const CallContext& ctx,
                                                                  const velero::Restore& restore,
                                                                  const Json& item,
                                                                  const Json& item_from_backup) = 0;

  const std::string resource_;
};

}  // namespace csidelta::restoreitemactions
