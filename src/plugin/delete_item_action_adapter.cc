#include "plugin/delete_item_action_adapter.h"

#include "base/status_macros.h"
#include "plugin/convert.h"

namespace csidelta::plugin {

DeleteItemActionAdapter::DeleteItemActionAdapter(
    const ActionTable<velero::DeleteItemAction>& actions, CallTracker& calls)
    : actions_(actions), calls_(calls) {}

grpc::Status DeleteItemActionAdapter::AppliesTo(
    grpc::ServerContext* /*context*/, const generated::DeleteItemActionAppliesToRequest* request,
    generated::DeleteItemActionAppliesToResponse* response) {
  const CallName call{request->plugin(), "DeleteItemAction.AppliesTo"};
  return calls_.Run(call, [&](const CallContext&) -> absl::Status {
    ASSIGN_OR_RETURN(const auto* action, actions_.Find(request->plugin()));
    *response->mutable_resourceselector() = ToProto(action->AppliesTo());
    return absl::OkStatus();
  });
}

grpc::Status DeleteItemActionAdapter::Execute(
    grpc::ServerContext* /*context*/, const generated::DeleteItemActionExecuteRequest* request,
    generated::Empty* /*response*/) {
  const CallName call{request->plugin(), "DeleteItemAction.Execute"};
  return calls_.Run(call, [&](const CallContext& ctx) -> absl::Status {
    ASSIGN_OR_RETURN(auto* action, actions_.Find(request->plugin()));
    ASSIGN_OR_RETURN(const objects::Object item, DecodeItem("item", request->item()));
    ASSIGN_OR_RETURN(const objects::Object backup, DecodeOwner("backup", request->backup()));
    return action->Execute(ctx, item, backup);
  });
}

}  // namespace csidelta::plugin
