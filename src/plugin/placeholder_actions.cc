#include "plugin/placeholder_actions.h"

#include <vector>

namespace csidelta::plugin {
namespace {

// These actions begin no operations, so the host asks for none that exists.
absl::Status NoOperation() { return absl::NotFoundError("a placeholder has no operations"); }

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
  absl::StatusOr<velero::OperationProgress> Progress(const CallContext& /*ctx*/,
                                                     absl::string_view /*operation_id*/,
                                                     const objects::Object& /*backup*/) override {
    return NoOperation();
  }
  absl::Status Cancel(const CallContext& /*ctx*/, absl::string_view /*operation_id*/,
                      const objects::Object& /*backup*/) override {
    return NoOperation();
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
  absl::StatusOr<velero::OperationProgress> Progress(const CallContext& /*ctx*/,
                                                     absl::string_view /*operation_id*/,
                                                     const objects::Object& /*restore*/) override {
    return NoOperation();
  }
  absl::Status Cancel(const CallContext& /*ctx*/, absl::string_view /*operation_id*/,
                      const objects::Object& /*restore*/) override {
    return NoOperation();
  }
  absl::StatusOr<bool> AreAdditionalItemsReady(
      const CallContext& /*ctx*/, const std::vector<velero::ResourceIdentifier>& /*items*/,
      const objects::Object& /*restore*/) override {
    return true;
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
