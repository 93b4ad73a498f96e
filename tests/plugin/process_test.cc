// What the host sees of the process: start, streams, messages, end. Each test is a point of the
// protocol that a host relies on.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "DeleteItemAction.grpc.pb.h"
#include "PluginLister.grpc.pb.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "backupitemaction/v2/BackupItemAction.grpc.pb.h"
#include "base/json.h"
#include "grpc_broker.grpc.pb.h"
#include "grpc_controller.grpc.pb.h"
#include "grpc_stdio.grpc.pb.h"
#include "itemblockaction/v1/ItemBlockAction.grpc.pb.h"
#include "restoreitemaction/v2/RestoreItemAction.grpc.pb.h"
#include "tests/plugin/plugin_process.h"
#include "tests/support/await.h"
#include "tests/support/paths.h"

namespace csidelta::plugin::process_test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;

constexpr absl::Duration kGracePeriod = absl::Seconds(60);
constexpr absl::Duration kAtOnce = absl::Seconds(1);
constexpr absl::Duration kHostGracePeriod = absl::Seconds(2);  // Then it kills.
// While other tests run on the machine, less is no promise.
constexpr absl::Duration kBusyGracePeriod = absl::Seconds(30);
constexpr char kName[] = "example.io/scripted";
constexpr int kParallelCalls = 16;

std::string ScriptedPlugin() { return support::BuiltProgram("plugin_under_test"); }

PluginProcess::Options Scripted(std::vector<std::string> arguments = {}) {
  return {.executable = ScriptedPlugin(), .arguments = std::move(arguments)};
}

PluginProcess::Options WithoutCookie(std::vector<std::string> arguments = {}) {
  PluginProcess::Options options = Scripted(std::move(arguments));
  options.environment.clear();
  return options;
}

std::string Item(const std::string& wish) {
  return absl::StrCat(R"({"kind":"Pod","metadata":{"annotations":{"do":")", wish, R"("}}})");
}

v2::ExecuteRequest ExecuteRequest(const std::string& item) {
  v2::ExecuteRequest request;
  request.set_plugin(kName);
  request.set_item(item);
  request.set_backup("{}");
  return request;
}

grpc::Status Execute(const std::shared_ptr<grpc::Channel>& channel,
                     const v2::ExecuteRequest& request, v2::ExecuteResponse* response) {
  grpc::ClientContext context;
  return v2::BackupItemAction::NewStub(channel)->Execute(&context, request, response);
}

grpc::Status Execute(const std::shared_ptr<grpc::Channel>& channel, const std::string& item) {
  v2::ExecuteResponse response;
  return Execute(channel, ExecuteRequest(item), &response);
}

grpc::Status AskForShutdown(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoSeconds(kGracePeriod));
  ::plugin::Empty request;
  ::plugin::Empty response;
  return ::plugin::GRPCController::NewStub(channel)->Shutdown(&context, request, &response);
}

bool ExitedWith(int status, int code) { return WIFEXITED(status) && WEXITSTATUS(status) == code; }

TEST(ProcessTest, StartedByHandItExplainsItselfAndFails) {
  PluginProcess process(WithoutCookie());
  EXPECT_TRUE(ExitedWith(process.WaitForExit(kGracePeriod), 1));
  EXPECT_EQ(process.RestOfStdout(), "");
  EXPECT_THAT(process.Stderr(), HasSubstr("is a plugin of Velero"));
}

TEST(ProcessTest, VersionNeedsNoHost) {
  PluginProcess process(WithoutCookie({"version"}));
  EXPECT_TRUE(ExitedWith(process.WaitForExit(kGracePeriod), 0));
  EXPECT_THAT(process.RestOfStdout(), MatchesRegex("velero-plugin-for-csi-delta [0-9.]+\n"));
}

TEST(ProcessTest, InstallCopiesTheExecutable) {
  PluginProcess process(Scripted());  // Lends its folder.
  PluginProcess installer(WithoutCookie({"install", process.folder()}));
  EXPECT_TRUE(ExitedWith(installer.WaitForExit(kGracePeriod), 0)) << installer.Stderr();
  const std::string copy = process.folder() + "/velero-plugin-for-csi-delta";
  EXPECT_EQ(fs::file_size(copy), fs::file_size(ScriptedPlugin()));

  PluginProcess failing(WithoutCookie({"install", "/no/such/folder"}));
  EXPECT_TRUE(ExitedWith(failing.WaitForExit(kGracePeriod), 1));
  EXPECT_THAT(failing.Stderr(), HasSubstr("/no/such/folder"));
}

TEST(ProcessTest, HandshakeIsOneLineAndThenSilence) {
  PluginProcess process(Scripted({"--log-level", "debug"}));
  EXPECT_THAT(process.ReadHandshake(), MatchesRegex("1\\|2\\|unix\\|/[^|]+\\|grpc\\|\n"));
  const auto channel = process.Connect();
  EXPECT_TRUE(Execute(channel, Item("log")).ok());
  EXPECT_TRUE(AskForShutdown(channel).ok());
  EXPECT_TRUE(ExitedWith(process.WaitForExit(kGracePeriod), 0));
  EXPECT_EQ(process.RestOfStdout(), "");
}

TEST(ProcessTest, AnyArgumentIsAccepted) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--no-such-flag", "--features"},
        std::vector<std::string>{"server", "--log-level=nonsense"}, std::vector<std::string>{"-"},
        std::vector<std::string>{"--log-level", "warning"}}) {
    PluginProcess process(Scripted(words));
    EXPECT_THAT(process.ReadHandshake(), MatchesRegex("1\\|2\\|.*\n"));
  }
}

TEST(ProcessTest, ForeignProtocolIsRefused) {
  PluginProcess::Options options = Scripted();
  options.environment["PLUGIN_PROTOCOL_VERSIONS"] = "3";
  PluginProcess process(options);
  EXPECT_TRUE(ExitedWith(process.WaitForExit(kGracePeriod), 1));
  EXPECT_EQ(process.RestOfStdout(), "");
  EXPECT_THAT(process.Stderr(), HasSubstr("offers plugin protocol 3"));
}

TEST(ProcessTest, StreamsStaySilentAndOpenAndASecondConnectionIsServed) {
  PluginProcess process(Scripted());
  const auto channel = process.Connect();
  grpc::ClientContext broker_context;
  const auto broker = ::plugin::GRPCBroker::NewStub(channel)->StartStream(&broker_context);
  grpc::ClientContext stdio_context;
  google::protobuf::Empty empty;
  const auto stdio = ::plugin::GRPCStdio::NewStub(channel)->StreamStdio(&stdio_context, empty);
  EXPECT_TRUE(broker->Write(::plugin::ConnInfo()));
  EXPECT_TRUE(Execute(channel, Item("")).ok());
  const auto second = process.Connect();
  EXPECT_TRUE(Execute(second, Item("")).ok());

  stdio_context.TryCancel();
  ::plugin::StdioData data;
  EXPECT_FALSE(stdio->Read(&data));
  EXPECT_EQ(stdio->Finish().error_code(), grpc::StatusCode::CANCELLED);
  broker->WritesDone();
  ::plugin::ConnInfo info;
  EXPECT_FALSE(broker->Read(&info));
  EXPECT_TRUE(broker->Finish().ok());
  EXPECT_TRUE(Execute(channel, Item("")).ok());
}

std::vector<std::string> KindsOf(PluginProcess& process) {
  grpc::ClientContext context;
  generated::ListPluginsResponse listing;
  EXPECT_TRUE(generated::PluginLister::NewStub(process.Connect())
                  ->ListPlugins(&context, generated::Empty(), &listing)
                  .ok());
  std::vector<std::string> found;
  for (const auto& plugin : listing.plugins()) {
    EXPECT_EQ(plugin.command(), ScriptedPlugin());
    EXPECT_EQ(plugin.name(), kName);
    found.push_back(plugin.kind());
  }
  return found;
}

TEST(ProcessTest, ListsItselfUnderItsOwnCommand) {
  const auto kinds = [](const std::vector<std::string>& words) {
    PluginProcess process(Scripted(words));
    return KindsOf(process);
  };
  EXPECT_THAT(kinds({"--features=EnableCSI"}),
              ElementsAre("BackupItemActionV2", "RestoreItemActionV2", "DeleteItemAction",
                          "ItemBlockAction"));
  EXPECT_THAT(kinds({}), ElementsAre("DeleteItemAction")) << "a host that passes nothing";
}

TEST(ProcessTest, InDoubtListsOnlyWhatEveryHostKnows) {
  PluginProcess process(Scripted({"--log-level", "info"}));
  EXPECT_THAT(KindsOf(process), ElementsAre("DeleteItemAction"));
  AskForShutdown(process.Connect());
  process.WaitForExit(kGracePeriod);
  EXPECT_THAT(process.Stderr(), HasSubstr("CSI_DELTA_VELERO_VERSION"));
}

// Calls Execute with `wish` in the background and waits until it has begun.
class HangingCall {
 public:
  HangingCall(PluginProcess& process, const std::string& wish)
      : call_(std::async(std::launch::async, [channel = process.Connect(), wish] {
          return Execute(channel, Item(wish));
        })) {
    process.AwaitStderr(absl::StrCat("hanging in ", wish, "\""));
  }
  grpc::Status Result() { return call_.get(); }

 private:
  std::future<grpc::Status> call_;
};

class ShutdownTest : public testing::TestWithParam<std::string> {};

TEST_P(ShutdownTest, RepliesAtOnceExitsInTimeAndLeavesNoSocket) {
  PluginProcess process(Scripted());
  const auto channel = process.Connect();
  grpc::ClientContext broker_context;
  const auto broker = ::plugin::GRPCBroker::NewStub(channel)->StartStream(&broker_context);
  grpc::ClientContext stdio_context;
  google::protobuf::Empty empty;
  const auto stdio = ::plugin::GRPCStdio::NewStub(channel)->StreamStdio(&stdio_context, empty);
  EXPECT_TRUE(Execute(channel, Item("")).ok());
  std::unique_ptr<HangingCall> call;
  if (!GetParam().empty()) {
    call = std::make_unique<HangingCall>(process, GetParam());
  }
  const absl::Time asked = absl::Now();
  // The call that hangs does so until the process ends, and so do the streams: what is answered and
  // ends has waited for none of them.
  EXPECT_TRUE(AskForShutdown(channel).ok());
  const absl::Duration answered_after = absl::Now() - asked;
  EXPECT_TRUE(ExitedWith(process.WaitForExit(kGracePeriod), 0));
  const absl::Duration ended_after = absl::Now() - asked;
  EXPECT_LT(ended_after, kBusyGracePeriod);
  if (support::AssertsSeconds("a plugin that is asked to end does so at once")) {
    EXPECT_LT(answered_after, kAtOnce);
    EXPECT_LT(ended_after, kHostGracePeriod);
  }
  EXPECT_FALSE(fs::exists(process.SocketPath()));
  if (call != nullptr) {
    EXPECT_FALSE(call->Result().ok());
  }
}

INSTANTIATE_TEST_SUITE_P(Calls, ShutdownTest, testing::Values("", "hang", "hang-deaf"),
                         [](const auto& test) {
                           return test.param.empty()     ? "Idle"
                                  : test.param == "hang" ? "Hanging"
                                                         : "HangingDeaf";
                         });

TEST(ProcessTest, InterruptAndBrokenPipeAreIgnored) {
  PluginProcess process(Scripted());
  const auto channel = process.Connect();
  EXPECT_TRUE(Execute(channel, Item("")).ok());
  process.Signal(SIGINT);
  process.Signal(SIGPIPE);
  EXPECT_TRUE(Execute(channel, Item("")).ok());
  process.Signal(SIGTERM);
  const int status = process.WaitForExit(kGracePeriod);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

TEST(ProcessTest, ParallelCallsOfAllKindsInOneProcess) {
  PluginProcess process(Scripted());
  const auto channel = process.Connect();
  HangingCall hanging(process, "hang");
  std::vector<std::future<bool>> calls;
  for (int i = 0; i < kParallelCalls; ++i) {
    calls.push_back(std::async(std::launch::async, [&] {
      grpc::ClientContext context;
      v1::ItemBlockActionGetRelatedItemsRequest request;
      request.set_plugin(kName);
      request.set_item(Item(""));
      request.set_backup("{}");
      v1::ItemBlockActionGetRelatedItemsResponse response;
      return Execute(channel, Item("operation")).ok() &&
             v1::ItemBlockAction::NewStub(channel)
                 ->GetRelatedItems(&context, request, &response)
                 .ok() &&
             response.relateditems_size() == 2;
    }));
  }
  for (auto& call : calls) {
    EXPECT_TRUE(call.get());
  }
  EXPECT_TRUE(AskForShutdown(channel).ok());
  EXPECT_FALSE(hanging.Result().ok());
}

TEST(ProcessTest, TwoProcessesSideBySide) {
  PluginProcess first(Scripted());
  PluginProcess second(Scripted());
  EXPECT_NE(first.SocketPath(), second.SocketPath());
  EXPECT_TRUE(Execute(first.Connect(), Item("")).ok());
  first.Signal(SIGKILL);
  first.WaitForExit(kGracePeriod);
  EXPECT_TRUE(Execute(second.Connect(), Item("")).ok());
}

TEST(ProcessTest, MessagesOf32MiBPassBothWays) {
  constexpr std::size_t kBytes = std::size_t{32} << 20;
  PluginProcess process(Scripted());
  const std::string item =
      absl::StrCat(R"({"kind":"Secret","data":")", std::string(kBytes, 'd'), R"("})");
  v2::ExecuteResponse response;
  ASSERT_TRUE(Execute(process.Connect(), ExecuteRequest(item), &response).ok());
  EXPECT_TRUE(response.item() == item);
}

TEST(ProcessTest, CrashIsReportedAsOneErrorLine) {
  PluginProcess process(Scripted());
  EXPECT_FALSE(Execute(process.Connect(), Item("crash")).ok());
  const int status = process.WaitForExit(kGracePeriod);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  const std::string text = process.Stderr();
  const absl::StatusOr<Json> line = ParseJsonObject(text.substr(0, text.find('\n')));
  ASSERT_TRUE(line.ok()) << text;
  EXPECT_EQ(GetString(*line, {"@level"}), "error");
  EXPECT_EQ(GetString(*line, {"error"}), "asked to crash");
}

TEST(ProcessTest, EveryLogLineIsSafeForTheHost) {
  PluginProcess process(Scripted({"--log-level=trace"}));
  EXPECT_TRUE(Execute(process.Connect(), Item("log")).ok());
  EXPECT_FALSE(Execute(process.Connect(), Item("fail-badly")).ok());
  EXPECT_TRUE(AskForShutdown(process.Connect()).ok());
  process.WaitForExit(kGracePeriod);
  for (absl::string_view text : absl::StrSplit(process.Stderr(), '\n', absl::SkipEmpty())) {
    EXPECT_LT(text.size(), 64 << 10);
    const absl::StatusOr<Json> line = ParseJsonObject(text);
    ASSERT_TRUE(line.ok()) << text;
    EXPECT_FALSE(line->contains("@timestamp"));
    for (const char* key : {"@level", "@message", "namespace", "name", "resource"}) {
      EXPECT_TRUE(!line->contains(key) || (*line)[key].is_string()) << text;
    }
    EXPECT_FALSE(GetString(*line, {"@message"}).empty());
  }
}

}  // namespace
}  // namespace csidelta::plugin::process_test
