#pragma once

#include "plugin/call_tracker.h"
#include "plugin/registry.h"
#include "restoreitemaction/v2/RestoreItemAction.grpc.pb.h"

namespace csidelta::plugin {

// Puts velero::RestoreItemAction on the wire, for all names of that kind. Borrows both.
// Thread-safe.
class RestoreItemActionAdapter final : public v2::RestoreItemAction::Service {
 public:
  RestoreItemActionAdapter(const ActionTable<velero::RestoreItemAction>& actions,
                           CallTracker& calls);

  grpc::Status AppliesTo(grpc::ServerContext* context,
                         const v2::RestoreItemActionAppliesToRequest* request,
                         v2::RestoreItemActionAppliesToResponse* response) override;
  grpc::Status Execute(grpc::ServerContext* context,
                       const v2::RestoreItemActionExecuteRequest* request,
                       v2::RestoreItemActionExecuteResponse* response) override;
  grpc::Status Progress(grpc::ServerContext* context,
                        const v2::RestoreItemActionProgressRequest* request,
                        v2::RestoreItemActionProgressResponse* response) override;
  grpc::Status Cancel(grpc::ServerContext* context,
                      const v2::RestoreItemActionCancelRequest* request,
                      google::protobuf::Empty* response) override;
  grpc::Status AreAdditionalItemsReady(grpc::ServerContext* context,
                                       const v2::RestoreItemActionItemsReadyRequest* request,
                                       v2::RestoreItemActionItemsReadyResponse* response) override;

 private:
  const ActionTable<velero::RestoreItemAction>& actions_;
  CallTracker& calls_;
};

}  // namespace csidelta::plugin
