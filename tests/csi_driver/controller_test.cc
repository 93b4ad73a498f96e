// What csi-sanity does not ask of the controller: lies, lost answers, calls that are held.

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "tests/csi_driver/driver_fixture.h"

namespace csidelta::csi_driver::controller_test {
namespace {

namespace pb = ::csi::v1;

constexpr absl::Duration kLong = absl::Seconds(30);

class ControllerTest : public DriverFixture {
 protected:
  void SetUp() override {
    DriverFixture::SetUp();
    VolumeSpec spec;
    spec.name = "v";
    volume_id_ = store_->CreateVolume(spec)->id;
  }

  grpc::Status CreateSnapshot(pb::CreateSnapshotResponse* response) {
    grpc::ClientContext context;
    pb::CreateSnapshotRequest request;
    request.set_name("s");
    request.set_source_volume_id(volume_id_);
    return controller_->CreateSnapshot(&context, request, response);
  }

  grpc::Status ListSnapshots(pb::ListSnapshotsResponse* response) {
    grpc::ClientContext context;
    return controller_->ListSnapshots(&context, {}, response);
  }

  std::string volume_id_;
};

TEST_F(ControllerTest, SnapshotsCanLie) {
  AddRule(R"({"lie":"not_ready"})");
  pb::CreateSnapshotResponse created;
  ASSERT_TRUE(CreateSnapshot(&created).ok());
  pb::ListSnapshotsResponse listed;
  ASSERT_TRUE(ListSnapshots(&listed).ok());
  ASSERT_EQ(listed.entries_size(), 1);
  for (const pb::Snapshot& snapshot : {created.snapshot(), listed.entries(0).snapshot()}) {
    EXPECT_FALSE(snapshot.ready_to_use());
  }
}

TEST_F(ControllerTest, LostAnswerLeavesTheWorkDone) {
  AddRule(R"({"method":"CreateSnapshot","code":"UNAVAILABLE","after":true,"times":1})");
  pb::CreateSnapshotResponse response;
  EXPECT_EQ(CreateSnapshot(&response).error_code(), grpc::StatusCode::UNAVAILABLE);
  const std::string id = store_->ListSnapshots({}, {})->records.at(0).id;
  ASSERT_TRUE(CreateSnapshot(&response).ok());
  EXPECT_EQ(response.snapshot().snapshot_id(), id);
}

TEST_F(ControllerTest, ShutdownEndsHeldCallsWithoutDoingThem) {
  AddRule(R"({"method":"CreateSnapshot","hold":true})");
  grpc::Status status;
  {
    std::jthread caller([&] {
      pb::CreateSnapshotResponse response;
      status = CreateSnapshot(&response);
    });
    ASSERT_TRUE(faults_.WaitFor("CreateSnapshot", {.held = 1}, kLong));
    StopServing();
  }
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(store_->ListSnapshots({}, {})->records.empty());
}

TEST_F(ControllerTest, DriverWithoutListingDoesNotOfferIt) {
  StopServing();
  options_.list_snapshots = false;
  Serve();
  grpc::ClientContext context;
  pb::ControllerGetCapabilitiesResponse capabilities;
  ASSERT_TRUE(controller_->ControllerGetCapabilities(&context, {}, &capabilities).ok());
  EXPECT_GT(capabilities.capabilities_size(), 0);
  for (const pb::ControllerServiceCapability& capability : capabilities.capabilities()) {
    EXPECT_NE(capability.rpc().type(), pb::ControllerServiceCapability::RPC::LIST_SNAPSHOTS);
  }
  pb::ListSnapshotsResponse listed;
  EXPECT_EQ(ListSnapshots(&listed).error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace csidelta::csi_driver::controller_test
