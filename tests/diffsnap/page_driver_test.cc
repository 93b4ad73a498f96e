// Pages that no honest driver would send: numbers, instants and texts as they come over the wire.

#include "diffsnap/page_driver.h"

#include <gmock/gmock.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>

#include "differential_snapshot.grpc.pb.h"
#include "diffsnap/csi_drivers.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/status_matchers.h"

namespace csidelta::diffsnap::page_driver_test {
namespace {

namespace pb = ::csi::differentialsnapshot::v1;
using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;

constexpr uint64_t kTwoTo63 = uint64_t{1} << 63;

// Serves what the test says, on a socket.
class ScriptedDriver : public pb::DifferentialSnapshot::Service {
 public:
  ScriptedDriver() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address(), grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~ScriptedDriver() override { server_->Shutdown(); }

  std::string address() const { return "unix://" + folder_.path() + "/csi.sock"; }

  grpc::Status GetDifferentialSnapshot(grpc::ServerContext*,
                                       const pb::DifferentialSnapshotRequest* request,
                                       pb::DifferentialSnapshotResponse* response) override {
    asked = *request;
    *response = answer;
    return status;
  }

  pb::DifferentialSnapshotRequest asked;
  pb::DifferentialSnapshotResponse answer;
  grpc::Status status;

 private:
  const support::ScratchFolder folder_;
  std::unique_ptr<grpc::Server> server_;
};

class ScriptedPageTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { grpc_init(); }

  absl::StatusOr<DriverPage> Ask(const DriverRequest& request = {}) {
    return driver_.GetPage({}, request);
  }

  void ExpectViolation(const std::string& words) {
    const absl::StatusOr<DriverPage> page = Ask();
    EXPECT_TRUE(IsContractViolation(page.status())) << page.status();
    EXPECT_THAT(page, StatusIs(absl::StatusCode::kInternal, HasSubstr(words)));
  }

  ScriptedDriver scripted_;
  PageDriver driver_{*OpenCsiChannel(scripted_.address(), int64_t{16} << 20), {}};
};

TEST_F(ScriptedPageTest, AllThatIsAskedIsSaid) {
  ASSERT_THAT(Ask({.base_handle = "base",
                   .target_handle = "target",
                   .volume_handle = "volume",
                   .volume_size_bytes = 0,
                   .parameters = {{"p", "1"}},
                   .secrets = {{"s", Secret("2")}},
                   .from_bytes = 4096,
                   .driver_token = "",
                   .entries_max = 7}),
              IsOk());
  EXPECT_EQ(scripted_.asked.snapshot_base(), "base");
  EXPECT_EQ(scripted_.asked.snapshot_target(), "target");
  EXPECT_EQ(scripted_.asked.mode(), "Block");
  EXPECT_EQ(scripted_.asked.volume_id(), "volume");
  EXPECT_EQ(scripted_.asked.start_offset(), "4096");
  EXPECT_EQ(scripted_.asked.max_entries(), 7U);
  EXPECT_EQ(scripted_.asked.parameters().at("p"), "1");
  EXPECT_EQ(scripted_.asked.secrets().at("s"), "2");
}

TEST_F(ScriptedPageTest, ATokenGoesBackAsItCame) {
  scripted_.answer.set_next_offset("page 2/\xC3\xA9 of 7");
  const absl::StatusOr<DriverPage> page = Ask();
  ASSERT_THAT(page, IsOk());
  EXPECT_TRUE(page->more);
  ASSERT_THAT(Ask({.base_handle = "",
                   .target_handle = "",
                   .volume_handle = "",
                   .parameters = {},
                   .from_bytes = 4096,
                   .driver_token = page->driver_token}),
              IsOk());
  EXPECT_EQ(scripted_.asked.start_offset(), "page 2/\xC3\xA9 of 7");
}

TEST_F(ScriptedPageTest, NumbersBeyondTheSignedOnesAreAViolation) {
  scripted_.answer.set_volume_size(kTwoTo63 - 1);
  ASSERT_THAT(Ask(), IsOk());
  EXPECT_EQ(Ask()->volume_size_bytes, std::numeric_limits<int64_t>::max());
  scripted_.answer.set_volume_size(kTwoTo63);
  ExpectViolation("a volume size of 9223372036854775808, which is beyond 2^63-1");
  scripted_.answer.set_volume_size(4096);
  pb::ChangedBlock* const block = scripted_.answer.add_change_block_list();
  block->set_offset(kTwoTo63);
  ExpectViolation("block's offset");
  block->set_offset(0);
  block->set_size(std::numeric_limits<uint64_t>::max());
  ExpectViolation("block's size");
  scripted_.answer.clear_change_block_list();
  scripted_.answer.set_timeout(std::numeric_limits<uint64_t>::max());
  ExpectViolation("timeout");
}

TEST_F(ScriptedPageTest, ATimeoutIsAnInstantOrNone) {
  EXPECT_EQ(Ask()->expires_at, absl::InfiniteFuture());
  scripted_.answer.set_timeout(3600);  // A length of time by mistake.
  EXPECT_EQ(Ask()->expires_at, absl::InfiniteFuture());
  scripted_.answer.set_timeout(999'999'999);
  EXPECT_EQ(Ask()->expires_at, absl::InfiniteFuture());
  scripted_.answer.set_timeout(1'000'000'000);
  EXPECT_EQ(Ask()->expires_at, absl::FromUnixSeconds(1'000'000'000));
}

TEST_F(ScriptedPageTest, EveryCodeOfADriverIsKept) {
  for (int code = 1; code <= 16; ++code) {
    scripted_.status = {static_cast<grpc::StatusCode>(code), "words\n\x01"};
    EXPECT_THAT(Ask(), StatusIs(static_cast<absl::StatusCode>(code), HasSubstr("words??")));
    EXPECT_FALSE(IsContractViolation(Ask().status()));
  }
}

}  // namespace
}  // namespace csidelta::diffsnap::page_driver_test
