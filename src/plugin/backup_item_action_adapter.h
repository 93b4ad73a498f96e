#pragma once

#include "backupitemaction/v2/BackupItemAction.grpc.pb.h"
#include "plugin/call_tracker.h"
#include "plugin/registry.h"

namespace csidelta::plugin {

// Puts velero::BackupItemAction on the wire, for all names of that kind. Borrows both. Thread-safe.
class BackupItemActionAdapter final : public v2::BackupItemAction::Service {
 public:
  BackupItemActionAdapter(const ActionTable<velero::BackupItemAction>& actions, CallTracker& calls);

  grpc::Status AppliesTo(grpc::ServerContext* context,
                         const v2::BackupItemActionAppliesToRequest* request,
                         v2::BackupItemActionAppliesToResponse* response) override;
  grpc::Status Execute(grpc::ServerContext* context, const v2::ExecuteRequest* request,
                       v2::ExecuteResponse* response) override;
  grpc::Status Progress(grpc::ServerContext* context,
                        const v2::BackupItemActionProgressRequest* request,
                        v2::BackupItemActionProgressResponse* response) override;
  grpc::Status Cancel(grpc::ServerContext* context,
                      const v2::BackupItemActionCancelRequest* request,
                      google::protobuf::Empty* response) override;

 private:
  const ActionTable<velero::BackupItemAction>& actions_;
  CallTracker& calls_;
};

}  // namespace csidelta::plugin
