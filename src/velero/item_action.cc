#include "velero/item_action.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace csidelta::velero {

absl::StatusOr<OperationProgress> BackupItemAction::Progress(const CallContext& ctx,
                                                             absl::string_view operation_id,
                                                             const objects::Object& /*backup*/) {
  return UnknownOperation(operation_id, ctx.clock->Now());
}

absl::Status BackupItemAction::Cancel(const CallContext& /*ctx*/,
                                      absl::string_view /*operation_id*/,
                                      const objects::Object& /*backup*/) {
  return absl::OkStatus();
}

absl::StatusOr<OperationProgress> RestoreItemAction::Progress(const CallContext& ctx,
                                                              absl::string_view operation_id,
                                                              const objects::Object& /*restore*/) {
  return UnknownOperation(operation_id, ctx.clock->Now());
}

absl::Status RestoreItemAction::Cancel(const CallContext& /*ctx*/,
                                       absl::string_view /*operation_id*/,
                                       const objects::Object& /*restore*/) {
  return absl::OkStatus();
}

absl::StatusOr<bool> RestoreItemAction::AreAdditionalItemsReady(
    const CallContext& /*ctx*/, const std::vector<ResourceIdentifier>& /*items*/,
    const objects::Object& /*restore*/) {
  return true;
}

OperationProgress UnknownOperation(absl::string_view id, absl::Time now) {
  OperationProgress progress;
  progress.completed = true;
  progress.error = absl::StrCat("\"", absl::CHexEscape(id.substr(0, 128)),
                                "\" is not an operation id of csi-delta");
  progress.description = progress.error;
  progress.started = now;
  progress.updated = now;
  return progress;
}

}  // namespace csidelta::velero
