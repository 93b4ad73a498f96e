// What the host sends reaches the action of the name it sends, and the answer goes back whole.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "DeleteItemAction.grpc.pb.h"
#include "PluginLister.grpc.pb.h"
#include "absl/strings/str_cat.h"
#include "backupitemaction/v2/BackupItemAction.grpc.pb.h"
#include "grpc_controller.grpc.pb.h"
#include "itemblockaction/v1/ItemBlockAction.grpc.pb.h"
#include "plugin/server.h"
#include "restoreitemaction/v2/RestoreItemAction.grpc.pb.h"
#include "tests/support/scratch_folder.h"

namespace csidelta::plugin::adapters_test {
namespace {

using testing::ElementsAre;

constexpr char kName[] = "example.io/a";
constexpr char kItem[] = R"({"kind":"Pod","n":1})";
constexpr char kArchived[] = R"({"kind":"Pod","n":2})";
constexpr char kOwner[] = R"({"n":3})";

// What actions were asked, one line a call: the name of the call and the "n" of what came with it.
using Calls = std::vector<std::string>;

std::string Line(const char* call, std::initializer_list<std::string> parts) {
  std::string line = call;
  for (const std::string& part : parts) {
    absl::StrAppend(&line, " ", part);
  }
  return line;
}
std::string N(const objects::Object& object) { return DumpJson(object.json().value("n", Json())); }

velero::ResourceSelector SelectorOf(const std::string& text) {
  return {.included_namespaces = {text + "-in"},
          .excluded_namespaces = {text + "-out"},
          .included_resources = {text},
          .excluded_resources = {text + "-not"},
          .label_selector = "a=b"};
}

velero::OperationProgress Half() {
  velero::OperationProgress progress;
  progress.completed_units = 1;
  progress.total_units = 2;
  return progress;
}

const velero::ResourceIdentifier kVolume = {"", "persistentvolumes", "", "pv1"};
const velero::ResourceIdentifier kUpload = {"velero.io", "datauploads", "velero", "du1"};

class Backup final : public velero::BackupItemAction {
 public:
  explicit Backup(Calls& calls) : calls_(calls) {}
  velero::ResourceSelector AppliesTo() const override { return SelectorOf("backed-up"); }
  absl::StatusOr<velero::BackupItemResult> Execute(const CallContext&, const objects::Object& item,
                                                   const objects::Object& backup) override {
    calls_.push_back(Line("backup", {N(item), N(backup)}));
    velero::BackupItemResult result;
    result.additional_items = {kVolume};
    result.operation_id = "op";
    result.post_operation_items = {kUpload};
    return result;
  }
  absl::StatusOr<velero::OperationProgress> Progress(const CallContext&, absl::string_view id,
                                                     const objects::Object& backup) override {
    calls_.push_back(Line("progress", {std::string(id), N(backup)}));
    return Half();
  }
  absl::Status Cancel(const CallContext&, absl::string_view id,
                      const objects::Object& backup) override {
    calls_.push_back(Line("cancel", {std::string(id), N(backup)}));
    return id == "gone" ? absl::NotFoundError("no such operation") : absl::OkStatus();
  }

 private:
  Calls& calls_;
};

class Restore final : public velero::RestoreItemAction {
 public:
  explicit Restore(Calls& calls) : calls_(calls) {}
  velero::ResourceSelector AppliesTo() const override { return SelectorOf("restored"); }
  absl::StatusOr<velero::RestoreItemResult> Execute(const CallContext&, const objects::Object& item,
                                                    const objects::Object& archived,
                                                    const objects::Object& restore) override {
    calls_.push_back(Line("restore", {N(item), N(archived), N(restore)}));
    return result_;
  }
  absl::StatusOr<velero::OperationProgress> Progress(const CallContext& ctx, absl::string_view id,
                                                     const objects::Object& restore) override {
    calls_.push_back(Line("progress", {std::string(id), N(restore)}));
    EXPECT_LE(ctx.TimeLeft(), velero::kProgressTimeMax);
    return Half();
  }
  absl::Status Cancel(const CallContext&, absl::string_view id,
                      const objects::Object& restore) override {
    calls_.push_back(Line("cancel", {std::string(id), N(restore)}));
    return id == "gone" ? absl::NotFoundError("no such operation") : absl::OkStatus();
  }
  absl::StatusOr<bool> AreAdditionalItemsReady(const CallContext&,
                                               const std::vector<velero::ResourceIdentifier>& items,
                                               const objects::Object& restore) override {
    calls_.push_back(Line("ready", {absl::StrCat(items.size()), N(restore)}));
    return items == std::vector{kVolume, kUpload};
  }

  velero::RestoreItemResult result_;

 private:
  Calls& calls_;
};

class Delete final : public velero::DeleteItemAction {
 public:
  explicit Delete(Calls& calls) : calls_(calls) {}
  velero::ResourceSelector AppliesTo() const override { return SelectorOf("deleted"); }
  absl::Status Execute(const CallContext&, const objects::Object& item,
                       const objects::Object& backup) override {
    calls_.push_back(Line("delete", {N(item), N(backup)}));
    return N(item) == "1" ? absl::OkStatus() : absl::PermissionDeniedError("not that one");
  }

 private:
  Calls& calls_;
};

class Block final : public velero::ItemBlockAction {
 public:
  explicit Block(Calls& calls) : calls_(calls) {}
  velero::ResourceSelector AppliesTo() const override { return SelectorOf("blocked"); }
  absl::StatusOr<std::vector<velero::ResourceIdentifier>> GetRelatedItems(
      const CallContext&, const objects::Object& item, const objects::Object& backup) override {
    calls_.push_back(Line("related", {N(item), N(backup)}));
    return std::vector{kVolume, kUpload};
  }

 private:
  Calls& calls_;
};

std::string Text(const generated::ResourceIdentifier& item) {
  return absl::StrCat(item.group(), "|", item.resource(), "|", item.namespace_(), "|", item.name());
}
template <typename Items>
std::vector<std::string> Texts(const Items& items) {
  std::vector<std::string> texts;
  for (const auto& item : items) {
    texts.push_back(Text(item));
  }
  return texts;
}
constexpr char kVolumeText[] = "|persistentvolumes||pv1";
constexpr char kUploadText[] = "velero.io|datauploads|velero|du1";

class AdaptersTest : public testing::Test {
 protected:
  AdaptersTest() {
    auto restore = std::make_unique<Restore>(calls_);
    restore_ = restore.get();
    registry_.backup.Add(kName, std::make_unique<Backup>(calls_));
    registry_.restore.Add(kName, std::move(restore));
    registry_.deletion.Add(kName, std::make_unique<Delete>(calls_));
    registry_.item_block.Add(kName, std::make_unique<Block>(calls_));
    auto server = PluginServer::Start(
        folder_.path() + "/s", registry_,
        {.command = "/plugins/p", .form = ArgumentForm::kEmpty, .declared_host_version = ""},
        link_);
    EXPECT_TRUE(server.ok());
    server_ = *std::move(server);
  }

  std::shared_ptr<grpc::Channel> Connect(const std::string& user_agent = "") const {
    grpc::ChannelArguments arguments;
    arguments.SetUserAgentPrefix(user_agent);
    return grpc::CreateCustomChannel(absl::StrCat("unix:", folder_.path(), "/s"),
                                     grpc::InsecureChannelCredentials(), arguments);
  }

  Calls calls_;
  const support::ScratchFolder folder_;
  HostLink link_;
  Registry registry_;
  Restore* restore_ = nullptr;
  std::unique_ptr<PluginServer> server_;
};

void ExpectSelector(const generated::ResourceSelector& selector, const std::string& text) {
  EXPECT_THAT(selector.includednamespaces(), ElementsAre(text + "-in"));
  EXPECT_THAT(selector.excludednamespaces(), ElementsAre(text + "-out"));
  EXPECT_THAT(selector.includedresources(), ElementsAre(text));
  EXPECT_THAT(selector.excludedresources(), ElementsAre(text + "-not"));
  EXPECT_EQ(selector.selector(), "a=b");
}

TEST_F(AdaptersTest, EveryKindSaysWhatItAppliesTo) {
  const auto expect = [](const auto& stub, auto request, auto response, const char* text) {
    grpc::ClientContext context;
    request.set_plugin(kName);
    ASSERT_TRUE(stub->AppliesTo(&context, request, &response).ok());
    ExpectSelector(response.resourceselector(), text);
  };
  expect(v2::BackupItemAction::NewStub(Connect()), v2::BackupItemActionAppliesToRequest(),
         v2::BackupItemActionAppliesToResponse(), "backed-up");
  expect(v2::RestoreItemAction::NewStub(Connect()), v2::RestoreItemActionAppliesToRequest(),
         v2::RestoreItemActionAppliesToResponse(), "restored");
  expect(generated::DeleteItemAction::NewStub(Connect()),
         generated::DeleteItemActionAppliesToRequest(),
         generated::DeleteItemActionAppliesToResponse(), "deleted");
  expect(v1::ItemBlockAction::NewStub(Connect()), v1::ItemBlockActionAppliesToRequest(),
         v1::ItemBlockActionAppliesToResponse(), "blocked");
}

TEST_F(AdaptersTest, ABackupIsAskedAndItsAnswerIsWhole) {
  const auto stub = v2::BackupItemAction::NewStub(Connect());
  grpc::ClientContext contexts[4];
  v2::ExecuteRequest request;
  request.set_plugin(kName);
  request.set_item(kItem);
  request.set_backup(kOwner);
  v2::ExecuteResponse response;
  ASSERT_TRUE(stub->Execute(&contexts[0], request, &response).ok());
  EXPECT_EQ(response.item(), kItem);
  EXPECT_THAT(Texts(response.additionalitems()), ElementsAre(kVolumeText));
  EXPECT_THAT(Texts(response.postoperationitems()), ElementsAre(kUploadText));
  EXPECT_EQ(response.operationid(), "op");
  v2::BackupItemActionProgressRequest progress;
  progress.set_plugin(kName);
  progress.set_operationid("op");
  progress.set_backup(kOwner);
  v2::BackupItemActionProgressResponse half;
  ASSERT_TRUE(stub->Progress(&contexts[1], progress, &half).ok());
  EXPECT_EQ(half.progress().ncompleted(), 1);
  v2::BackupItemActionCancelRequest cancel;
  cancel.set_plugin(kName);
  cancel.set_operationid("op");
  cancel.set_backup(kOwner);
  google::protobuf::Empty empty;
  EXPECT_TRUE(stub->Cancel(&contexts[2], cancel, &empty).ok());
  cancel.set_operationid("gone");
  EXPECT_EQ(stub->Cancel(&contexts[3], cancel, &empty).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(calls_, ElementsAre("backup 1 3", "progress op 3", "cancel op 3", "cancel gone 3"));
}

TEST_F(AdaptersTest, ARestoreIsAskedAndItsAnswerIsWhole) {
  const auto stub = v2::RestoreItemAction::NewStub(Connect());
  v2::RestoreItemActionExecuteRequest request;
  request.set_plugin(kName);
  request.set_item(kItem);
  request.set_itemfrombackup(kArchived);
  request.set_restore(kOwner);
  const auto execute = [&] {
    grpc::ClientContext context;
    v2::RestoreItemActionExecuteResponse response;
    EXPECT_TRUE(stub->Execute(&context, request, &response).ok());
    return response;
  };
  const v2::RestoreItemActionExecuteResponse nothing = execute();
  EXPECT_EQ(nothing.item(), kItem);
  EXPECT_FALSE(nothing.skiprestore());
  EXPECT_FALSE(nothing.waitforadditionalitems());
  EXPECT_FALSE(nothing.has_additionalitemsreadytimeout()) << "the server's default";
  restore_->result_ = {.item = objects::Object({{"kind", "Pod"}, {"n", 9}}),
                       .additional_items = {kVolume, kUpload},
                       .skip_restore = true,
                       .operation_id = "op",
                       .wait_for_additional_items = true,
                       .additional_items_ready_timeout = absl::Milliseconds(90'500)};
  const v2::RestoreItemActionExecuteResponse all = execute();
  EXPECT_EQ(all.item(), R"({"kind":"Pod","n":9})");
  EXPECT_THAT(Texts(all.additionalitems()), ElementsAre(kVolumeText, kUploadText));
  EXPECT_TRUE(all.skiprestore());
  EXPECT_EQ(all.operationid(), "op");
  EXPECT_TRUE(all.waitforadditionalitems());
  EXPECT_EQ(all.additionalitemsreadytimeout().seconds(), 90);
  EXPECT_EQ(all.additionalitemsreadytimeout().nanos(), 500'000'000);
  EXPECT_THAT(calls_, ElementsAre("restore 1 2 3", "restore 1 2 3"));
}

TEST_F(AdaptersTest, ARestoresOperationIsFollowedAndEnded) {
  const auto stub = v2::RestoreItemAction::NewStub(Connect());
  grpc::ClientContext contexts[4];
  v2::RestoreItemActionProgressRequest progress;
  progress.set_plugin(kName);
  progress.set_operationid("op");
  progress.set_restore(kOwner);
  v2::RestoreItemActionProgressResponse half;
  ASSERT_TRUE(stub->Progress(&contexts[0], progress, &half).ok());
  EXPECT_EQ(half.progress().ncompleted(), 1);
  EXPECT_EQ(half.progress().ntotal(), 2);
  v2::RestoreItemActionCancelRequest cancel;
  cancel.set_plugin(kName);
  cancel.set_operationid("op");
  cancel.set_restore(kOwner);
  google::protobuf::Empty empty;
  EXPECT_TRUE(stub->Cancel(&contexts[1], cancel, &empty).ok());
  cancel.set_operationid("gone");
  EXPECT_EQ(stub->Cancel(&contexts[2], cancel, &empty).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(calls_, ElementsAre("progress op 3", "cancel op 3", "cancel gone 3"));
}

TEST_F(AdaptersTest, ARestoreHearsWhichItemsItWaitsFor) {
  const auto stub = v2::RestoreItemAction::NewStub(Connect());
  v2::RestoreItemActionItemsReadyRequest request;
  request.set_plugin(kName);
  request.set_restore(kOwner);
  for (const auto& item : {kVolume, kUpload}) {
    generated::ResourceIdentifier& added = *request.add_additionalitems();
    added.set_group(item.group);
    added.set_resource(item.resource);
    added.set_namespace_(item.namespace_name);
    added.set_name(item.name);
  }
  for (const bool all : {true, false}) {
    grpc::ClientContext context;
    v2::RestoreItemActionItemsReadyResponse response;
    ASSERT_TRUE(stub->AreAdditionalItemsReady(&context, request, &response).ok());
    EXPECT_EQ(response.ready(), all);
    request.mutable_additionalitems()->RemoveLast();
  }
  EXPECT_THAT(calls_, ElementsAre("ready 2 3", "ready 1 3"));
}

TEST_F(AdaptersTest, ADeletionIsAskedAndItsErrorIsTheHosts) {
  const auto stub = generated::DeleteItemAction::NewStub(Connect());
  generated::DeleteItemActionExecuteRequest request;
  request.set_plugin(kName);
  request.set_backup(kOwner);
  for (const char* item : {kItem, kArchived}) {
    grpc::ClientContext context;
    request.set_item(item);
    generated::Empty response;
    const grpc::Status status = stub->Execute(&context, request, &response);
    EXPECT_EQ(status.ok(), item == kItem);
    EXPECT_EQ(status.error_message(), item == kItem ? "" : "not that one");
  }
  EXPECT_THAT(calls_, ElementsAre("delete 1 3", "delete 2 3"));
}

TEST_F(AdaptersTest, RelatedItemsAreAllTold) {
  grpc::ClientContext context;
  v1::ItemBlockActionGetRelatedItemsRequest request;
  request.set_plugin(kName);
  request.set_item(kItem);
  request.set_backup(kOwner);
  v1::ItemBlockActionGetRelatedItemsResponse response;
  ASSERT_TRUE(
      v1::ItemBlockAction::NewStub(Connect())->GetRelatedItems(&context, request, &response).ok());
  EXPECT_THAT(Texts(response.relateditems()), ElementsAre(kVolumeText, kUploadText));
  EXPECT_THAT(calls_, ElementsAre("related 1 3"));
}

TEST_F(AdaptersTest, WhatIsListedDependsOnTheHostsOwnName) {
  const auto kinds = [&](const std::string& user_agent) {
    grpc::ClientContext context;
    generated::ListPluginsResponse listing;
    EXPECT_TRUE(generated::PluginLister::NewStub(Connect(user_agent))
                    ->ListPlugins(&context, generated::Empty(), &listing)
                    .ok());
    std::vector<std::string> found;
    for (const auto& plugin : listing.plugins()) {
      EXPECT_EQ(plugin.command(), "/plugins/p");
      EXPECT_EQ(plugin.name(), kName);
      found.push_back(plugin.kind());
    }
    return found;
  };
  EXPECT_THAT(kinds("grpc-go/1.80.0"), ElementsAre("BackupItemActionV2", "RestoreItemActionV2",
                                                   "DeleteItemAction", "ItemBlockAction"));
  EXPECT_THAT(kinds("grpc-go/1.45.0"), ElementsAre("DeleteItemAction"));
  EXPECT_THAT(kinds(""), ElementsAre("DeleteItemAction"));
}

TEST_F(AdaptersTest, TheHostMayAskForTheEnd) {
  grpc::ClientContext context;
  ::plugin::Empty empty;
  EXPECT_TRUE(::plugin::GRPCController::NewStub(Connect())->Shutdown(&context, empty, &empty).ok());
  EXPECT_EQ(link_.WaitForEnd(), HostLink::End::kAsked);
}

}  // namespace
}  // namespace csidelta::plugin::adapters_test
