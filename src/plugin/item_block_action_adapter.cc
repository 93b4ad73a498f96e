#include "plugin/item_block_action_adapter.h"

#include <vector>

#include "base/status_macros.h"
#include "plugin/convert.h"

namespace csidelta::plugin {

ItemBlockActionAdapter::ItemBlockActionAdapter(const ActionTable<velero::ItemBlockAction>& actions,
                                               CallTracker& calls)
    : actions_(actions), calls_(calls) {}

grpc::Status ItemBlockActionAdapter::AppliesTo(grpc::ServerContext* /*context*/,
                                               const v1::ItemBlockActionAppliesToRequest* request,
                                               v1::ItemBlockActionAppliesToResponse* response) {
  const CallName call{request->plugin(), "ItemBlockAction.AppliesTo"};
  return calls_.Run(call, [&](const CallContext&) -> absl::Status {
    ASSIGN_OR_RETURN(const auto* action, actions_.Find(request->plugin()));
    *response->mutable_resourceselector() = ToProto(action->AppliesTo());
    return absl::OkStatus();
  });
}

grpc::Status ItemBlockActionAdapter::GetRelatedItems(
    grpc::ServerContext* /*context*/, const v1::ItemBlockActionGetRelatedItemsRequest* request,
    v1::ItemBlockActionGetRelatedItemsResponse* response) {
  const CallName call{request->plugin(), "ItemBlockAction.GetRelatedItems"};
  return calls_.Run(call, [&](const CallContext& ctx) -> absl::Status {
    ASSIGN_OR_RETURN(auto* action, actions_.Find(request->plugin()));
    ASSIGN_OR_RETURN(const objects::Object item, DecodeItem("item", request->item()));
    ASSIGN_OR_RETURN(const objects::Object backup, DecodeOwner("backup", request->backup()));
    ASSIGN_OR_RETURN(const std::vector<velero::ResourceIdentifier> related,
                     action->GetRelatedItems(ctx, item, backup));
    AppendTo(related, response->mutable_relateditems());
    return absl::OkStatus();
  });
}

}  // namespace csidelta::plugin
