#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "backupitemactions/snapshot_operation.h"
#include "base/call_context.h"
#include "objects/object.h"
#include "velero/item_action.h"

namespace csidelta::backupitemactions {

// A backup action for one resource, of which nothing goes on after Execute. Thread-safe.
class ImmediateAction : public velero::BackupItemAction {
 public:
  // `resource` as "plural" or "plural.group".
  explicit ImmediateAction(std::string resource) : resource_(std::move(resource)) {}

  velero::ResourceSelector AppliesTo() const final {
    velero::ResourceSelector selector;
    selector.included_resources = {resource_};
    return selector;
  }

  absl::StatusOr<velero::OperationProgress> Progress(const CallContext& ctx,
                                                     absl::string_view operation_id,
                                                     const objects::Object& /*backup*/) final {
    return UnknownOperation(operation_id, ctx.clock->Now());
  }

  absl::Status Cancel(const CallContext& /*ctx*/, absl::string_view /*operation_id*/,
                      const objects::Object& /*backup*/) final {
    return absl::OkStatus();
  }

 private:
  const std::string resource_;
};

}  // namespace csidelta::backupitemactions
