#include "plugin/placeholder_actions.h"

namespace csidelta::plugin {
namespace {

velero::ResourceSelector NoItem() {
  velero::ResourceSelector selector;
  selector.included_resources = {"persistentvolumeclaims"};
  selector.label_selector = "velero.io/csi-delta,!velero.io/csi-delta";  // No labels satisfy both.
  return selector;
}

class PlaceholderBackupAction final : public velero::BackupItemAction {
 public:
  velero::ResourceSelector AppliesTo() const override { return NoItem(); }
  absl::StatusOr<velero::BackupItemResult> Execute(const CallContext& /*ctx*/,
                                                   const objects::Object& /*item*/,
                                                   const objects::Object& /*backup*/) override {
    return velero::BackupItemResult();
  }
};

class PlaceholderRestoreAction final : public velero::RestoreItemAction {
 public:
  velero::ResourceSelector AppliesTo() const override { return NoItem(); }
  absl::StatusOr<velero::RestoreItemResult> Execute(const CallContext& /*ctx*/,
                                                    const objects::Object& /*item*/,
                                                    const objects::Object& /*item_from_backup*/,
                                                    const objects::Object& /*restore*/) override {
    return velero::RestoreItemResult();
  }
};

}  // namespace

std::unique_ptr<velero::BackupItemAction> MakePlaceholderBackupAction() {
  return std::make_unique<PlaceholderBackupAction>();
}

std::unique_ptr<velero::RestoreItemAction> MakePlaceholderRestoreAction() {
  return std::make_unique<PlaceholderRestoreAction>();
}

}  // namespace csidelta::plugin
