#include "plugin/backup_item_action_adapter.h"

#include "base/status_macros.h"
#include "plugin/convert.h"
#include "plugin/text.h"

namespace csidelta::plugin {

BackupItemActionAdapter::BackupItemActionAdapter(
    const ActionTable<velero::BackupItemAction>& actions, CallTracker& calls)
    : actions_(actions), calls_(calls) {}

grpc::Status BackupItemActionAdapter::AppliesTo(grpc::ServerContext* /*context*/,
                                                const v2::BackupItemActionAppliesToRequest* request,
                                                v2::BackupItemActionAppliesToResponse* response) {
  const CallName call{request->plugin(), "BackupItemActionV2.AppliesTo"};
  return calls_.Run(call, [&](const CallContext&) -> absl::Status {
    ASSIGN_OR_RETURN(const auto* action, actions_.Find(request->plugin()));
    *response->mutable_resourceselector() = ToProto(action->AppliesTo());
    return absl::OkStatus();
  });
}

grpc::Status BackupItemActionAdapter::Execute(grpc::ServerContext* /*context*/,
                                              const v2::ExecuteRequest* request,
                                              v2::ExecuteResponse* response) {
  const CallName call{request->plugin(), "BackupItemActionV2.Execute"};
  return calls_.Run(call, [&](const CallContext& ctx) -> absl::Status {
    ASSIGN_OR_RETURN(auto* action, actions_.Find(request->plugin()));
    ASSIGN_OR_RETURN(const objects::Object item, DecodeItem("item", request->item()));
    ASSIGN_OR_RETURN(const objects::Object backup, DecodeOwner("backup", request->backup()));
    ASSIGN_OR_RETURN(const velero::BackupItemResult result, action->Execute(ctx, item, backup));
    ASSIGN_OR_RETURN(*response->mutable_item(), EncodeItem(result.item, item, request->item()));
    AppendTo(result.additional_items, response->mutable_additionalitems());
    response->set_operationid(ToUtf8(result.operation_id));
    AppendTo(result.post_operation_items, response->mutable_postoperationitems());
    return absl::OkStatus();
  });
}

grpc::Status BackupItemActionAdapter::Progress(grpc::ServerContext* /*context*/,
                                               const v2::BackupItemActionProgressRequest* request,
                                               v2::BackupItemActionProgressResponse* response) {
  response->mutable_progress();  // The host dereferences it without a look.
  const CallName call{request->plugin(), "BackupItemActionV2.Progress"};
  return calls_.Run(call, [&](const CallContext& ctx) -> absl::Status {
    ASSIGN_OR_RETURN(auto* action, actions_.Find(request->plugin()));
    ASSIGN_OR_RETURN(const objects::Object backup, DecodeOwner("backup", request->backup()));
    const auto progress =
        action->Progress(ctx.WithTimeout(velero::kProgressTimeMax), request->operationid(), backup);
    ASSIGN_OR_RETURN(*response->mutable_progress(), EncodeProgress(progress));
    return absl::OkStatus();
  });
}

grpc::Status BackupItemActionAdapter::Cancel(grpc::ServerContext* /*context*/,
                                             const v2::BackupItemActionCancelRequest* request,
                                             google::protobuf::Empty* /*response*/) {
  const CallName call{request->plugin(), "BackupItemActionV2.Cancel"};
  return calls_.Run(call, [&](const CallContext& ctx) -> absl::Status {
    ASSIGN_OR_RETURN(auto* action, actions_.Find(request->plugin()));
    ASSIGN_OR_RETURN(const objects::Object backup, DecodeOwner("backup", request->backup()));
    return action->Cancel(ctx, request->operationid(), backup);
  });
}

}  // namespace csidelta::plugin
