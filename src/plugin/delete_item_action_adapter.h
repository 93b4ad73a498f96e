#pragma once

#include "DeleteItemAction.grpc.pb.h"
#include "plugin/call_tracker.h"
#include "plugin/registry.h"

namespace csidelta::plugin {

// Puts velero::DeleteItemAction on the wire, for all names of that kind. Borrows both. Thread-safe.
class DeleteItemActionAdapter final : public generated::DeleteItemAction::Service {
 public:
  DeleteItemActionAdapter(const ActionTable<velero::DeleteItemAction>& actions, CallTracker& calls);

  grpc::Status AppliesTo(grpc::ServerContext* context,
                         const generated::DeleteItemActionAppliesToRequest* request,
                         generated::DeleteItemActionAppliesToResponse* response) override;
  grpc::Status Execute(grpc::ServerContext* context,
                       const generated::DeleteItemActionExecuteRequest* request,
                       generated::Empty* response) override;

 private:
  const ActionTable<velero::DeleteItemAction>& actions_;
  CallTracker& calls_;
};

}  // namespace csidelta::plugin
