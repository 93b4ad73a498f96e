#include "tests/support/csi_driver/control_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include "tests/support/fake_clock.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/status_matchers.h"

namespace csidelta::csi_driver::control_server_test {
namespace {

using support::IsOk;
using testing::HasSubstr;

class ControlServerTest : public testing::Test {
 protected:
  void SetUp() override {
    store_ = *Store::Open(folder_.path() + "/state", clock_, Random::Real());
  }

  Json Ask(const std::string& request) {
    return HandleControl(*ParseJson(request), faults_, *store_);
  }

  const support::ScratchFolder folder_;
  support::FakeClock clock_;
  Faults faults_;
  std::unique_ptr<Store> store_;
};

TEST_F(ControlServerTest, AddsAllRulesOrNone) {
  EXPECT_TRUE(GetBool(Ask(R"({"op":"add","rules":[{"code":"INTERNAL"}]})"), {"ok"}));
  faults_.Clear();
  const Json answer = Ask(R"({"op":"add","rules":[{"code":"INTERNAL"},{"cod":"INTERNAL"}]})");
  EXPECT_FALSE(GetBool(answer, {"ok"}, true));
  EXPECT_THAT(GetString(answer, {"error"}), HasSubstr("cod"));
  EXPECT_THAT(faults_.Enter({"Probe", "", {}}, [] { return false; }).before, IsOk());
}

TEST_F(ControlServerTest, DeletesAGroupWithItsMembersAndNoOther) {
  const std::string volume =
      store_->CreateVolume({.name = "a", .size = {}, .mode = {}, .source = {}})->id;
  const SnapshotRecord alone = *store_->CreateSnapshot("s", volume);
  const std::string group = store_->CreateGroup("g", {volume})->record.id;
  const std::string request = R"({"op":"delete_group","id":")" + group + "\"}";
  EXPECT_TRUE(GetBool(Ask(request), {"ok"}));
  EXPECT_EQ(Ask(R"({"op":"groups"})")["groups"].size(), 0u);
  const Json left = Ask(R"({"op":"snapshots"})")["snapshots"];
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(GetString(left[0], {"id"}), alone.id);
  EXPECT_THAT(GetString(Ask(request), {"error"}), HasSubstr(group));
}

TEST_F(ControlServerTest, RefusesWhatItDoesNotKnow) {
  for (const char* request :
       {R"({"op":"no such"})", R"({})", R"({"op":"add"})", R"({"op":"add","rules":{}})"}) {
    const Json answer = Ask(request);
    EXPECT_FALSE(GetBool(answer, {"ok"}, true)) << request;
    EXPECT_NE(GetString(answer, {"error"}), "") << request;
  }
}

TEST_F(ControlServerTest, SpeaksLinesOverItsSocket) {
  const std::string path = folder_.path() + "/control.sock";
  absl::StatusOr<std::unique_ptr<ControlServer>> server =
      ControlServer::Start(path, faults_, *store_);
  ASSERT_THAT(server, IsOk());
  const UniqueFd client(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof address.sun_path);
  std::memcpy(address.sun_path, path.data(), path.size());
  ASSERT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);

  const std::string requests = "{\"op\":\"volumes\"}\nnot JSON\n{\"op\":\"count\"}\n";
  ASSERT_EQ(send(client.get(), requests.data(), requests.size(), 0),
            static_cast<ssize_t>(requests.size()));
  std::string answers;
  std::array<char, 4096> buffer;
  while (std::count(answers.begin(), answers.end(), '\n') < 3) {
    const ssize_t count = read(client.get(), buffer.data(), buffer.size());
    ASSERT_GT(count, 0);
    answers.append(buffer.data(), static_cast<size_t>(count));
  }
  EXPECT_THAT(answers,
              testing::MatchesRegex(".*\"ok\":true.*\n.*\"ok\":false.*\n.*\"ok\":true.*\n"));
  // An idle connection does not keep the server from stopping.
  server->reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace csidelta::csi_driver::control_server_test
