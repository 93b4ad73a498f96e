#include "plugin/stand_in_actions.h"

#include <vector>

namespace csidelta::plugin {
namespace {

// No operation is ever ours, so nobody asks for one that exists.
absl::Status NoOperation() { return absl::NotFoundError("a stand-in has no operations"); }

velero::ResourceSelector NoItem() {
  velero::ResourceSelector selector;
  selector.included_resources = {"persistentvolumeclaims"};
  selector.label_selector = "velero.io/csi-delta,!velero.io/csi-delta";  // No labels satisfy both.
  return selector;
}

class StandInBackupAction final : public velero::BackupItemAction {
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

class StandInRestoreAction final : public velero::RestoreItemAction {
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

std::unique_ptr<velero::BackupItemAction> MakeStandInBackupAction() {
  return std::make_unique<StandInBackupAction>();
}

std::unique_ptr<velero::RestoreItemAction> MakeStandInRestoreAction() {
  return std::make_unique<StandInRestoreAction>();
}

}  // namespace csidelta::plugin
