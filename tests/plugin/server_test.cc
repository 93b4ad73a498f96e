// The services over a real socket, inside the test's own process: bad input above all.
#include "plugin/server.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backupitemaction/v2/BackupItemAction.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "tests/support/scratch_folder.h"

namespace csidelta::plugin::server_test {
namespace {

using testing::HasSubstr;

constexpr char kName[] = "example.io/function";

// Does what the test says.
class FunctionBackup final : public velero::BackupItemAction {
 public:
  using Body = std::function<absl::StatusOr<velero::BackupItemResult>(const objects::Object& item)>;
  explicit FunctionBackup(Body body) : body_(std::move(body)) {}

  velero::ResourceSelector AppliesTo() const override { return {}; }
  absl::StatusOr<velero::BackupItemResult> Execute(const CallContext& /*ctx*/,
                                                   const objects::Object& item,
                                                   const objects::Object& /*backup*/) override {
    return body_(item);
  }
  // Says how long it may take.
  absl::StatusOr<velero::OperationProgress> Progress(const CallContext& ctx,
                                                     absl::string_view /*operation_id*/,
                                                     const objects::Object& /*backup*/) override {
    velero::OperationProgress progress;
    progress.total_units = absl::ToInt64Seconds(absl::Ceil(ctx.TimeLeft(), absl::Seconds(1)));
    return progress;
  }
  absl::Status Cancel(const CallContext& /*ctx*/, absl::string_view /*operation_id*/,
                      const objects::Object& /*backup*/) override {
    return absl::OkStatus();
  }

 private:
  const Body body_;
};

class ServerTest : public testing::Test {
 protected:
  ServerTest() {
    registry_.backup.Add(kName, std::make_unique<FunctionBackup>(
                                    [this](const objects::Object& item) { return body_(item); }));
    auto server = PluginServer::Start(folder_.path() + "/s", registry_, ListerSettings(), link_);
    EXPECT_TRUE(server.ok());
    server_ = *std::move(server);
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    channel_ = grpc::CreateCustomChannel(absl::StrCat("unix:", folder_.path(), "/s"),
                                         grpc::InsecureChannelCredentials(), arguments);
  }

  grpc::Status Execute(const std::string& plugin, const std::string& item,
                       const std::string& backup) {
    grpc::ClientContext context;
    v2::ExecuteRequest request;
    request.set_plugin(plugin);
    request.set_item(item);
    request.set_backup(backup);
    return v2::BackupItemAction::NewStub(channel_)->Execute(&context, request, &response_);
  }

  // How the server ends a call of any name with any bytes.
  grpc::Status CallRaw(const std::string& method, const grpc::ByteBuffer& request) {
    grpc::GenericStub generic(channel_);
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    const auto call = generic.PrepareUnaryCall(&context, method, request, &queue);
    call->StartCall();
    grpc::ByteBuffer reply;
    grpc::Status status;
    call->Finish(&reply, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    return status;
  }

  // The same server still does its work.
  void ExpectAlive() {
    EXPECT_TRUE(Execute(kName, R"({"kind":"Pod"})", "{}").ok());
    EXPECT_EQ(response_.item(), R"({"kind":"Pod"})");
  }

  FunctionBackup::Body body_ = [](const objects::Object&) { return velero::BackupItemResult(); };
  const support::ScratchFolder folder_;
  HostLink link_;
  Registry registry_;
  std::unique_ptr<PluginServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  v2::ExecuteResponse response_;
};

struct BadRequest {
  const char* name;
  std::string plugin, item, backup;
  grpc::StatusCode code;
  const char* message;
};

class BadRequestTest : public ServerTest, public testing::WithParamInterface<BadRequest> {};

TEST_P(BadRequestTest, IsAClearErrorAndTheServerLivesOn) {
  const grpc::Status status = Execute(GetParam().plugin, GetParam().item, GetParam().backup);
  EXPECT_EQ(status.error_code(), GetParam().code);
  EXPECT_THAT(status.error_message(), HasSubstr(GetParam().message));
  ExpectAlive();
}

constexpr char kPod[] = R"({"kind":"Pod"})";

const BadRequest kBadRequests[] = {
    {"NoName", "", kPod, "{}", grpc::StatusCode::NOT_FOUND, "plugin  not found"},
    {"UnknownName", "a.b/c", kPod, "{}", grpc::StatusCode::NOT_FOUND, "a.b/c not found"},
    {"HugeName", std::string(1 << 20, 'n'), kPod, "{}", grpc::StatusCode::NOT_FOUND, "nnn"},
    {"HostileName", "a/\n\"%s\x01", kPod, "{}", grpc::StatusCode::NOT_FOUND, "not found"},
    {"NoItem", kName, "", "{}", grpc::StatusCode::INVALID_ARGUMENT, "item: malformed JSON"},
    {"NoBackup", kName, kPod, "", grpc::StatusCode::INVALID_ARGUMENT, "backup: malformed JSON"},
    {"BackupIsNull", kName, kPod, "null", grpc::StatusCode::INVALID_ARGUMENT, "backup: "},
    {"ItemIsArray", kName, "[]", "{}", grpc::StatusCode::INVALID_ARGUMENT, "not object"},
    {"ItemWithoutKind", kName, "{}", "{}", grpc::StatusCode::INVALID_ARGUMENT, "without a kind"},
    {"ItemNotUtf8", kName, "{\"kind\":\"\xc3\x28\"}", "{}", grpc::StatusCode::INVALID_ARGUMENT,
     "item: malformed JSON"},
    {"ItemTooDeep", kName, std::string(1 << 20, '['), "{}", grpc::StatusCode::INVALID_ARGUMENT,
     "nested deeper"},
    {"BackupTooDeep", kName, kPod, absl::StrCat("{\"a\":", std::string(1 << 20, '[')),
     grpc::StatusCode::INVALID_ARGUMENT, "backup: "},
    {"CutItem", kName, std::string(kPod, 5), "{}", grpc::StatusCode::INVALID_ARGUMENT, "item: "},
};
INSTANTIATE_TEST_SUITE_P(Table, BadRequestTest, testing::ValuesIn(kBadRequests),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_F(ServerTest, HealthIsThatOfThePluginAndOfNothingElse) {
  const auto stub = grpc::health::v1::Health::NewStub(channel_);
  const auto check = [&](const std::string& service) {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    grpc::health::v1::HealthCheckResponse response;
    const grpc::StatusCode code = stub->Check(&context, request, &response).error_code();
    EXPECT_EQ(response.status() == grpc::health::v1::HealthCheckResponse::SERVING,
              code == grpc::StatusCode::OK);
    return code;
  };
  EXPECT_EQ(check("plugin"), grpc::StatusCode::OK);
  EXPECT_EQ(check(""), grpc::StatusCode::OK);
  EXPECT_EQ(check("other"), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ServerTest, HugeAndOddItemsComeBackByteForByte) {
  std::string annotations;
  for (int i = 0; i < 5000; ++i) {
    absl::StrAppend(&annotations, i == 0 ? "" : ",", "\"example.io/a", i, "\":\"", i, "\"");
  }
  const std::string hostile = R"("\u0000\n\"../../etc/passwd; rm -rf $HOME \u202E")";
  for (const std::string& item : {
           absl::StrCat(R"({"kind":"Pod","metadata":{"annotations":{)", annotations, "}}}"),
           absl::StrCat(R"({"kind":"Secret","data":")", std::string(16 << 20, 'A'), R"("})"),
           absl::StrCat(R"({"kind":)", hostile, R"(,"metadata":{"name":)", hostile, "}}"),
           std::string(R"( {"kind":"Pod","kind":"Pod","a":1e400,"b":-0.0} )"),
           std::string(R"({"apiVersion":"no.such/v99","kind":"X","metadata":null,"spec":7})"),
       }) {
    const grpc::Status status = Execute(kName, item, "{}");
    if (status.ok()) {
      EXPECT_TRUE(response_.item() == item) << item.substr(0, 80);
    } else {
      EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << item.substr(0, 80);
    }
  }
  ExpectAlive();
}

TEST_F(ServerTest, AnswersOfActionsAreMadeFitForTheHost) {
  body_ = [](const objects::Object& item) {
    velero::BackupItemResult result;
    Json changed = item.json();
    changed["text"] = "\xff";
    result.item = objects::Object(std::move(changed));
    result.operation_id = "\xfe";
    result.additional_items = {{"\xff", "", "", ""}};
    return result;
  };
  ASSERT_TRUE(Execute(kName, kPod, "{}").ok());
  EXPECT_EQ(response_.item(), "{\"kind\":\"Pod\",\"text\":\"�\"}");
  EXPECT_EQ(response_.operationid(), "�");
  EXPECT_EQ(response_.additionalitems(0).group(), "�");
}

// The host sets no deadline and asks about one operation after the other.
TEST_F(ServerTest, ProgressHasSoLongAndNoLonger) {
  grpc::ClientContext context;
  v2::BackupItemActionProgressRequest request;
  request.set_plugin(kName);
  request.set_backup("{}");
  v2::BackupItemActionProgressResponse response;
  ASSERT_TRUE(v2::BackupItemAction::NewStub(channel_)->Progress(&context, request, &response).ok());
  EXPECT_EQ(response.progress().ntotal(), absl::ToInt64Seconds(velero::kProgressTimeMax));
}

TEST_F(ServerTest, RequestThatIsNoMessageIsAnErrorOfTheCall) {
  const grpc::Slice junk(std::string("\x0a\xff\xff\xff\xff\x0f junk"));
  EXPECT_FALSE(CallRaw("/v2.BackupItemAction/Execute", grpc::ByteBuffer(&junk, 1)).ok());
  ExpectAlive();
}

TEST_F(ServerTest, UnknownMethodIsUnimplemented) {
  EXPECT_EQ(CallRaw("/generated.ObjectStore/Init", grpc::ByteBuffer()).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

TEST(PluginServerTest, SocketThatCannotBeBoundIsUnavailable) {
  HostLink link;
  const Registry registry;
  EXPECT_EQ(PluginServer::Start("/no/such/folder/s", registry, {}, link).status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace csidelta::plugin::server_test
