#include "plugin/item_action_adapters.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "plugin/convert.h"

namespace csidelta::plugin {
namespace {

// What the adapters of all kinds do alike.
template <typename Action, typename Service>
class Adapter : public Service {
 public:
  Adapter(const ActionTable<Action>& actions, CallTracker& calls)
      : actions_(actions), calls_(calls) {}

 protected:
  // Runs `body` with the action that the request names.
  template <typename Request>
  grpc::Status RunAction(const char* method, const Request& request,
                         absl::FunctionRef<absl::Status(const CallContext&, Action&)> body) const {
    return calls_.Run({request.plugin(), method}, [&](const CallContext& ctx) -> absl::Status {
      ASSIGN_OR_RETURN(Action * action, actions_.Find(request.plugin()));
      return body(ctx, *action);
    });
  }

  template <typename Request, typename Response>
  grpc::Status AnswerSelector(const char* method, const Request& request,
                              Response* response) const {
    return RunAction(method, request, [&](const CallContext&, Action& action) {
      *response->mutable_resourceselector() = ToProto(action.AppliesTo());
      return absl::OkStatus();
    });
  }

  // Of the kinds whose actions begin operations. `owner_bytes` are the request's field `owner`.
  template <typename Request, typename Response>
  grpc::Status AnswerProgress(const char* method, const Request& request, absl::string_view owner,
                              const std::string& owner_bytes, Response* response) const {
    response->mutable_progress();  // The host dereferences it without a look.
    return RunAction(method, request, [&](const CallContext& ctx, Action& action) -> absl::Status {
      ASSIGN_OR_RETURN(const objects::Object decoded, DecodeOwner(owner, owner_bytes));
      const auto progress = action.Progress(ctx.WithTimeout(velero::kProgressTimeMax),
                                            request.operationid(), decoded);
      ASSIGN_OR_RETURN(*response->mutable_progress(), EncodeProgress(progress));
      return absl::OkStatus();
    });
  }

 private:
  const ActionTable<Action>& actions_;
  CallTracker& calls_;
};

class BackupAdapter final
    : public Adapter<velero::BackupItemAction, v2::BackupItemAction::Service> {
 public:
  using Adapter::Adapter;

  grpc::Status AppliesTo(grpc::ServerContext* /*context*/,
                         const v2::BackupItemActionAppliesToRequest* request,
                         v2::BackupItemActionAppliesToResponse* response) override {
    return AnswerSelector("BackupItemActionV2.AppliesTo", *request, response);
  }

  grpc::Status Execute(grpc::ServerContext* /*context*/, const v2::ExecuteRequest* request,
                       v2::ExecuteResponse* response) override {
    const auto execute = [&](const CallContext& ctx, auto& action) -> absl::Status {
      ASSIGN_OR_RETURN(const objects::Object item, DecodeItem("item", request->item()));
      ASSIGN_OR_RETURN(const objects::Object backup, DecodeOwner("backup", request->backup()));
      ASSIGN_OR_RETURN(const velero::BackupItemResult result, action.Execute(ctx, item, backup));
      // The host updates items in the archive at the end of an operation, and without one never.
      CSIDELTA_CHECK(result.post_operation_items.empty() || !result.operation_id.empty());
      ASSIGN_OR_RETURN(*response->mutable_item(), EncodeItem(result.item, item, request->item()));
      AppendTo(result.additional_items, response->mutable_additionalitems());
      response->set_operationid(ToUtf8(result.operation_id));
      AppendTo(result.post_operation_items, response->mutable_postoperationitems());
      return absl::OkStatus();
    };
    return RunAction("BackupItemActionV2.Execute", *request, execute);
  }

  grpc::Status Progress(grpc::ServerContext* /*context*/,
                        const v2::BackupItemActionProgressRequest* request,
                        v2::BackupItemActionProgressResponse* response) override {
    return AnswerProgress("BackupItemActionV2.Progress", *request, "backup", request->backup(),
                          response);
  }

  grpc::Status Cancel(grpc::ServerContext* /*context*/,
                      const v2::BackupItemActionCancelRequest* request,
                      google::protobuf::Empty* /*response*/) override {
    const auto cancel = [&](const CallContext& ctx, auto& action) -> absl::Status {
      ASSIGN_OR_RETURN(const objects::Object backup, DecodeOwner("backup", request->backup()));
      return action.Cancel(ctx, request->operationid(), backup);
    };
    return RunAction("BackupItemActionV2.Cancel", *request, cancel);
  }
};

void SetTimeout(absl::Duration timeout, google::protobuf::Duration& to) {
  CSIDELTA_CHECK(timeout > absl::ZeroDuration() && timeout < absl::InfiniteDuration());
  const int64_t seconds = absl::IDivDuration(timeout, absl::Seconds(1), &timeout);
  to.set_seconds(seconds);
  to.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(timeout)));
}

class RestoreAdapter final
    : public Adapter<velero::RestoreItemAction, v2::RestoreItemAction::Service> {
 public:
  using Adapter::Adapter;

  grpc::Status AppliesTo(grpc::ServerContext* /*context*/,
                         const v2::RestoreItemActionAppliesToRequest* request,
                         v2::RestoreItemActionAppliesToResponse* response) override {
    return AnswerSelector("RestoreItemActionV2.AppliesTo", *request, response);
  }

  grpc::Status Execute(grpc::ServerContext* /*context*/,
                       const v2::RestoreItemActionExecuteRequest* request,
                       v2::RestoreItemActionExecuteResponse* response) override {
    const auto execute = [&](const CallContext& ctx, auto& action) -> absl::Status {
      ASSIGN_OR_RETURN(const objects::Object item, DecodeItem("item", request->item()));
      ASSIGN_OR_RETURN(const objects::Object original,
                       DecodeItem("itemFromBackup", request->itemfrombackup()));
      ASSIGN_OR_RETURN(const objects::Object restore, DecodeOwner("restore", request->restore()));
      ASSIGN_OR_RETURN(const velero::RestoreItemResult result,
                       action.Execute(ctx, item, original, restore));
      CSIDELTA_CHECK(!result.wait_for_additional_items || !result.additional_items.empty());
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
    };
    return RunAction("RestoreItemActionV2.Execute", *request, execute);
  }

  grpc::Status Progress(grpc::ServerContext* /*context*/,
                        const v2::RestoreItemActionProgressRequest* request,
                        v2::RestoreItemActionProgressResponse* response) override {
    return AnswerProgress("RestoreItemActionV2.Progress", *request, "restore", request->restore(),
                          response);
  }

  grpc::Status Cancel(grpc::ServerContext* /*context*/,
                      const v2::RestoreItemActionCancelRequest* request,
                      google::protobuf::Empty* /*response*/) override {
    const auto cancel = [&](const CallContext& ctx, auto& action) -> absl::Status {
      ASSIGN_OR_RETURN(const objects::Object restore, DecodeOwner("restore", request->restore()));
      return action.Cancel(ctx, request->operationid(), restore);
    };
    return RunAction("RestoreItemActionV2.Cancel", *request, cancel);
  }

  grpc::Status AreAdditionalItemsReady(grpc::ServerContext* /*context*/,
                                       const v2::RestoreItemActionItemsReadyRequest* request,
                                       v2::RestoreItemActionItemsReadyResponse* response) override {
    const auto ask = [&](const CallContext& ctx, auto& action) -> absl::Status {
      ASSIGN_OR_RETURN(const objects::Object restore, DecodeOwner("restore", request->restore()));
      std::vector<velero::ResourceIdentifier> items;
      for (const generated::ResourceIdentifier& item : request->additionalitems()) {
        items.push_back(FromProto(item));
      }
      ASSIGN_OR_RETURN(const bool ready, action.AreAdditionalItemsReady(ctx, items, restore));
      response->set_ready(ready);
      return absl::OkStatus();
    };
    return RunAction("RestoreItemActionV2.AreAdditionalItemsReady", *request, ask);
  }
};

class DeleteAdapter final
    : public Adapter<velero::DeleteItemAction, generated::DeleteItemAction::Service> {
 public:
  using Adapter::Adapter;

  grpc::Status AppliesTo(grpc::ServerContext* /*context*/,
                         const generated::DeleteItemActionAppliesToRequest* request,
                         generated::DeleteItemActionAppliesToResponse* response) override {
    return AnswerSelector("DeleteItemAction.AppliesTo", *request, response);
  }

  grpc::Status Execute(grpc::ServerContext* /*context*/,
                       const generated::DeleteItemActionExecuteRequest* request,
                       generated::Empty* /*response*/) override {
    const auto execute = [&](const CallContext& ctx, auto& action) -> absl::Status {
      ASSIGN_OR_RETURN(const objects::Object item, DecodeItem("item", request->item()));
      ASSIGN_OR_RETURN(const objects::Object backup, DecodeOwner("backup", request->backup()));
      return action.Execute(ctx, item, backup);
    };
    return RunAction("DeleteItemAction.Execute", *request, execute);
  }
};

class ItemBlockAdapter final
    : public Adapter<velero::ItemBlockAction, v1::ItemBlockAction::Service> {
 public:
  using Adapter::Adapter;

  grpc::Status AppliesTo(grpc::ServerContext* /*context*/,
                         const v1::ItemBlockActionAppliesToRequest* request,
                         v1::ItemBlockActionAppliesToResponse* response) override {
    return AnswerSelector("ItemBlockAction.AppliesTo", *request, response);
  }

  grpc::Status GetRelatedItems(grpc::ServerContext* /*context*/,
                               const v1::ItemBlockActionGetRelatedItemsRequest* request,
                               v1::ItemBlockActionGetRelatedItemsResponse* response) override {
    const auto ask = [&](const CallContext& ctx, auto& action) -> absl::Status {
      ASSIGN_OR_RETURN(const objects::Object item, DecodeItem("item", request->item()));
      ASSIGN_OR_RETURN(const objects::Object backup, DecodeOwner("backup", request->backup()));
      ASSIGN_OR_RETURN(const std::vector<velero::ResourceIdentifier> related,
                       action.GetRelatedItems(ctx, item, backup));
      AppendTo(related, response->mutable_relateditems());
      return absl::OkStatus();
    };
    return RunAction("ItemBlockAction.GetRelatedItems", *request, ask);
  }
};

}  // namespace

std::unique_ptr<v2::BackupItemAction::Service> MakeAdapter(
    const ActionTable<velero::BackupItemAction>& actions, CallTracker& calls) {
  return std::make_unique<BackupAdapter>(actions, calls);
}

std::unique_ptr<v2::RestoreItemAction::Service> MakeAdapter(
    const ActionTable<velero::RestoreItemAction>& actions, CallTracker& calls) {
  return std::make_unique<RestoreAdapter>(actions, calls);
}

std::unique_ptr<generated::DeleteItemAction::Service> MakeAdapter(
    const ActionTable<velero::DeleteItemAction>& actions, CallTracker& calls) {
  return std::make_unique<DeleteAdapter>(actions, calls);
}

std::unique_ptr<v1::ItemBlockAction::Service> MakeAdapter(
    const ActionTable<velero::ItemBlockAction>& actions, CallTracker& calls) {
  return std::make_unique<ItemBlockAdapter>(actions, calls);
}

}  // namespace csidelta::plugin
