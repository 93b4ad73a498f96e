#pragma once

#include "itemblockaction/v1/ItemBlockAction.grpc.pb.h"
#include "plugin/call_tracker.h"
#include "plugin/registry.h"

namespace csidelta::plugin {

// Puts velero::ItemBlockAction on the wire, for all names of that kind. Borrows both. Thread-safe.
class ItemBlockActionAdapter final : public v1::ItemBlockAction::Service {
 public:
  ItemBlockActionAdapter(const ActionTable<velero::ItemBlockAction>& actions, CallTracker& calls);

  grpc::Status AppliesTo(grpc::ServerContext* context,
                         const v1::ItemBlockActionAppliesToRequest* request,
                         v1::ItemBlockActionAppliesToResponse* response) override;
  grpc::Status GetRelatedItems(grpc::ServerContext* context,
                               const v1::ItemBlockActionGetRelatedItemsRequest* request,
                               v1::ItemBlockActionGetRelatedItemsResponse* response) override;

 private:
  const ActionTable<velero::ItemBlockAction>& actions_;
  CallTracker& calls_;
};

}  // namespace csidelta::plugin
