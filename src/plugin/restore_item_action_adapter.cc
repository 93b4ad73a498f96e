#include "plugin/restore_item_action_adapter.h"

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "base/status_macros.h"
#include "plugin/convert.h"
#include "plugin/text.h"

namespace csidelta::plugin {
namespace {

void SetTimeout(absl::Duration timeout, google::protobuf::Duration& to) {
  const int64_t seconds = absl::IDivDuration(timeout, absl::Seconds(1), &timeout);
  to.set_seconds(seconds);
  to.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(timeout)));
}

}  // namespace

RestoreItemActionAdapter::RestoreItemActionAdapter(
    const ActionTable<velero::RestoreItemAction>& actions, CallTracker& calls)
    : actions_(actions), calls_(calls) {}

grpc::Status RestoreItemActionAdapter::AppliesTo(
    grpc::ServerContext* /*context*/, const v2::RestoreItemActionAppliesToRequest* request,
    v2::RestoreItemActionAppliesToResponse* response) {
  const CallName call{request->plugin(), "RestoreItemActionV2.AppliesTo"};
  return calls_.Run(call, [&](const CallContext&) -> absl::Status {
    ASSIGN_OR_RETURN(const auto* action, actions_.Find(request->plugin()));
    *response->mutable_resourceselector() = ToProto(action->AppliesTo());
    return absl::OkStatus();
  });
}

grpc::Status RestoreItemActionAdapter::Execute(grpc::ServerContext* /*context*/,
                                               const v2::RestoreItemActionExecuteRequest* request,
                                               v2::RestoreItemActionExecuteResponse* response) {
  const CallName call{request->plugin(), "RestoreItemActionV2.Execute"};
  return calls_.Run(call, [&](const CallContext& ctx) -> absl::Status {
    ASSIGN_OR_RETURN(auto* action, actions_.Find(request->plugin()));
    ASSIGN_OR_RETURN(const objects::Object item, DecodeItem("item", request->item()));
    ASSIGN_OR_RETURN(const objects::Object original,
                     DecodeItem("itemFromBackup", request->itemfrombackup()));
    ASSIGN_OR_RETURN(const objects::Object restore, DecodeOwner("restore", request->restore()));
    ASSIGN_OR_RETURN(const velero::RestoreItemResult result,
                     action->Execute(ctx, item, original, restore));
    ASSIGN_OR_RETURN(*response->mutable_item(), EncodeItem(result.item, item, request->item()));
    AppendTo(result.additional_items, response->mutable_additionalitems());
    response->set_skiprestore(result.skip_restore);
    response->set_operationid(ToUtf8(result.operation_id));
    response->set_waitforadditionalitems(result.wait_for_additional_items);
    if (result.additional_items_ready_timeout > absl::ZeroDuration()) {
      SetTimeout(result.additional_items_ready_timeout,
                 *response->mutable_additionalitemsreadytimeout());
    }
    return absl::OkStatus();
  });
}

grpc::Status RestoreItemActionAdapter::Progress(grpc::ServerContext* /*context*/,
                                                const v2::RestoreItemActionProgressRequest* request,
                                                v2::RestoreItemActionProgressResponse* response) {
  response->mutable_progress();  // The host dereferences it without a look.
  const CallName call{request->plugin(), "RestoreItemActionV2.Progress"};
  return calls_.Run(call, [&](const CallContext& ctx) -> absl::Status {
    ASSIGN_OR_RETURN(auto* action, actions_.Find(request->plugin()));
    ASSIGN_OR_RETURN(const objects::Object restore, DecodeOwner("restore", request->restore()));
    const auto progress = action->Progress(ctx.WithTimeout(velero::kProgressTimeMax),
                                           request->operationid(), restore);
    ASSIGN_OR_RETURN(*response->mutable_progress(), EncodeProgress(progress));
    return absl::OkStatus();
  });
}

grpc::Status RestoreItemActionAdapter::Cancel(grpc::ServerContext* /*context*/,
                                              const v2::RestoreItemActionCancelRequest* request,
                                              google::protobuf::Empty* /*response*/) {
  const CallName call{request->plugin(), "RestoreItemActionV2.Cancel"};
  return calls_.Run(call, [&](const CallContext& ctx) -> absl::Status {
    ASSIGN_OR_RETURN(auto* action, actions_.Find(request->plugin()));
    ASSIGN_OR_RETURN(const objects::Object restore, DecodeOwner("restore", request->restore()));
    return action->Cancel(ctx, request->operationid(), restore);
  });
}

grpc::Status RestoreItemActionAdapter::AreAdditionalItemsReady(
    grpc::ServerContext* /*context*/, const v2::RestoreItemActionItemsReadyRequest* request,
    v2::RestoreItemActionItemsReadyResponse* response) {
  const CallName call{request->plugin(), "RestoreItemActionV2.AreAdditionalItemsReady"};
  return calls_.Run(call, [&](const CallContext& ctx) -> absl::Status {
    ASSIGN_OR_RETURN(auto* action, actions_.Find(request->plugin()));
    ASSIGN_OR_RETURN(const objects::Object restore, DecodeOwner("restore", request->restore()));
    std::vector<velero::ResourceIdentifier> items;
    for (const generated::ResourceIdentifier& item : request->additionalitems()) {
      items.push_back(FromProto(item));
    }
    ASSIGN_OR_RETURN(const bool ready, action->AreAdditionalItemsReady(ctx, items, restore));
    response->set_ready(ready);
    return absl::OkStatus();
  });
}

}  // namespace csidelta::plugin
