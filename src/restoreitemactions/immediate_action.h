#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "objects/object.h"
#include "velero/item_action.h"

namespace csidelta::restoreitemactions {

// A restore action of which nothing goes on after Execute, for one resource. Thread-safe.
class ImmediateAction : public velero::RestoreItemAction {
 public:
  // `resource` as "plural.group"; "*.group" stands for all of a group.
  explicit ImmediateAction(std::string resource) : resource_(std::move(resource)) {}

  velero::ResourceSelector AppliesTo() const final {
    velero::ResourceSelector selector;
    selector.included_resources = {resource_};
    return selector;
  }

  absl::StatusOr<velero::OperationProgress> Progress(const CallContext& /*ctx*/,
                                                     absl::string_view operation_id,
                                                     const objects::Object& /*restore*/) final {
    velero::OperationProgress progress;
    progress.completed = true;
    progress.error = absl::StrCat("no such operation: ", operation_id);
    return progress;
  }

  absl::Status Cancel(const CallContext& /*ctx*/, absl::string_view /*operation_id*/,
                      const objects::Object& /*restore*/) final {
    return absl::OkStatus();
  }

  absl::StatusOr<bool> AreAdditionalItemsReady(
      const CallContext& /*ctx*/, const std::vector<velero::ResourceIdentifier>& /*items*/,
      const objects::Object& /*restore*/) final {
    return true;
  }

 protected:
  static velero::RestoreItemResult Skip() {
    velero::RestoreItemResult result;
    result.skip_restore = true;
    return result;
  }

 private:
  const std::string resource_;
};

}  // namespace csidelta::restoreitemactions
