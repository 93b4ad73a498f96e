#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "velero/item_action.h"

namespace csidelta::restoreitemactions {

// What restore actions without operations answer when they are asked about one.
class SynchronousAction : public velero::RestoreItemAction {
 public:
  absl::StatusOr<velero::OperationProgress> Progress(const CallContext& /*ctx*/,
                                                     absl::string_view operation_id,
                                                     const Json& /*restore*/) override {
    return velero::OperationProgress{
        .completed = true,
        .error = absl::StrCat("no such operation: ", operation_id),
        .completed_units = 0,
        .total_units = 0,
        .units = "",
        .description = "",
        .started = std::nullopt,
        .updated = std::nullopt,
    };
  }

  absl::Status Cancel(const CallContext& /*ctx*/, absl::string_view /*operation_id*/,
                      const Json& /*restore*/) override {
    return absl::OkStatus();
  }

  absl::StatusOr<bool> AreAdditionalItemsReady(
      const CallContext& /*ctx*/, const std::vector<velero::ResourceIdentifier>& /*items*/,
      const Json& /*restore*/) override {
    return true;
  }
};

}  // namespace csidelta::restoreitemactions
