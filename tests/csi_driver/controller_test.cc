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

class HabitsTest : public ControllerTest {
 protected:
  grpc::StatusCode Snapshot(const std::string& name) {
    grpc::ClientContext context;
    pb::CreateSnapshotRequest request;
    request.set_name(name);
    request.set_source_volume_id(volume_id_);
    pb::CreateSnapshotResponse response;
    const grpc::Status status = controller_->CreateSnapshot(&context, request, &response);
    snapshot_id_ = status.ok() ? response.snapshot().snapshot_id() : snapshot_id_;
    return status.error_code();
  }
  void DeleteSnapshot() { ASSERT_TRUE(store_->DeleteSnapshot(snapshot_id_).ok()); }
  grpc::StatusCode Expand() {
    grpc::ClientContext context;
    pb::ControllerExpandVolumeRequest request;
    request.set_volume_id(volume_id_);
    request.mutable_capacity_range()->set_required_bytes(2 * kVolumeBytesDefault);
    pb::ControllerExpandVolumeResponse response;
    return controller_->ControllerExpandVolume(&context, request, &response).error_code();
  }
  grpc::StatusCode Delete(const std::string& id) {
    grpc::ClientContext context;
    pb::DeleteVolumeRequest request;
    request.set_volume_id(id);
    pb::DeleteVolumeResponse response;
    return controller_->DeleteVolume(&context, request, &response).error_code();
  }
  // A block device, of snapshot_id_ if there is one.
  grpc::StatusCode CreateVolume(const std::string& name, int64_t bytes,
                                pb::VolumeCapability::AccessMode::Mode mode) {
    grpc::ClientContext context;
    pb::CreateVolumeRequest request;
    request.set_name(name);
    request.mutable_capacity_range()->set_required_bytes(bytes);
    *request.add_volume_capabilities() = Capability(VolumeMode::kBlock);
    request.mutable_volume_capabilities(0)->mutable_access_mode()->set_mode(mode);
    if (!snapshot_id_.empty()) {
      request.mutable_volume_content_source()->mutable_snapshot()->set_snapshot_id(snapshot_id_);
    }
    pb::CreateVolumeResponse response;
    const grpc::Status status = controller_->CreateVolume(&context, request, &response);
    made_ = response.volume();
    return status.error_code();
  }
  // On this node, as a block device.
  grpc::StatusCode StageMade() {
    grpc::ClientContext context;
    pb::NodeStageVolumeRequest request;
    request.set_volume_id(made_.volume_id());
    request.set_staging_target_path(folder_.path() + "/staging");
    *request.mutable_volume_capability() = Capability(VolumeMode::kBlock);
    *request.mutable_volume_context() = made_.volume_context();
    pb::NodeStageVolumeResponse response;
    return node_->NodeStageVolume(&context, request, &response).error_code();
  }

  using Mode = pb::VolumeCapability::AccessMode;
  std::string snapshot_id_;
  pb::Volume made_;
};

TEST_F(HabitsTest, AVolumeWithASnapshotIsNeitherGrownNorDeleted) {
  options_.habits = {.grows_with_snapshots = false, .deletes_with_snapshots = false};
  ASSERT_EQ(Snapshot("s"), grpc::OK);
  EXPECT_EQ(Expand(), grpc::FAILED_PRECONDITION);
  EXPECT_EQ(Delete(volume_id_), grpc::FAILED_PRECONDITION);
  DeleteSnapshot();
  EXPECT_EQ(Expand(), grpc::OK);
  EXPECT_EQ(Delete(volume_id_), grpc::OK);
}

TEST_F(HabitsTest, AVolumeHasSoManySnapshots) {
  options_.habits.snapshots_max = 3;
  for (const char* name : {"a", "b", "c", "a"}) {
    EXPECT_EQ(Snapshot(name), grpc::OK) << name;
  }
  EXPECT_EQ(Snapshot("d"), grpc::RESOURCE_EXHAUSTED);
  DeleteSnapshot();
  EXPECT_EQ(Snapshot("d"), grpc::OK);
}

TEST_F(HabitsTest, SnapshotsOfAVolumeNeedAPause) {
  options_.habits.snapshot_pause = absl::Minutes(10);
  ASSERT_EQ(Snapshot("a"), grpc::OK);
  DeleteSnapshot();
  clock_.Advance(absl::Minutes(9));
  EXPECT_EQ(Snapshot("b"), grpc::RESOURCE_EXHAUSTED);
  clock_.Advance(absl::Minutes(1));
  EXPECT_EQ(Snapshot("b"), grpc::OK);
}

TEST_F(HabitsTest, ASnapshotTakesSoLong) {
  options_.habits.snapshot_takes = absl::Minutes(8);
  EXPECT_EQ(Snapshot("a"), grpc::ABORTED);
  clock_.Advance(absl::Minutes(8));
  EXPECT_EQ(Snapshot("a"), grpc::OK);
}

TEST_F(HabitsTest, AVolumeOfASnapshotHasItsSize) {
  options_.habits.exact_size_only = true;
  ASSERT_EQ(Snapshot("s"), grpc::OK);
  for (const int64_t bytes : {int64_t{0}, kVolumeBytesDefault / 2, 2 * kVolumeBytesDefault}) {
    EXPECT_EQ(CreateVolume("v1", bytes, Mode::SINGLE_NODE_WRITER), grpc::OUT_OF_RANGE) << bytes;
  }
  EXPECT_EQ(CreateVolume("v1", kVolumeBytesDefault, Mode::SINGLE_NODE_WRITER), grpc::OK);
}

TEST_F(HabitsTest, NoBlockDeviceIsShared) {
  options_.habits.shares_block_mode = false;
  EXPECT_EQ(CreateVolume("v1", 0, Mode::MULTI_NODE_MULTI_WRITER), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(CreateVolume("v1", 0, Mode::SINGLE_NODE_WRITER), grpc::OK);
}

TEST_F(HabitsTest, NoVolumeHasSeveralReaders) {
  options_.habits.shares_reads = false;
  EXPECT_EQ(CreateVolume("v1", 0, Mode::MULTI_NODE_READER_ONLY), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(CreateVolume("v1", 0, Mode::SINGLE_NODE_WRITER), grpc::OK);
}

TEST_F(HabitsTest, TheDeviceOfAShareIsOnTheNodeOfItsManagerAlone) {
  options_.habits.share_manager = "elsewhere";
  ASSERT_EQ(CreateVolume("v1", 0, Mode::MULTI_NODE_MULTI_WRITER), grpc::OK);
  EXPECT_EQ(StageMade(), grpc::FAILED_PRECONDITION);
  ASSERT_EQ(CreateVolume("v2", 0, Mode::SINGLE_NODE_WRITER), grpc::OK);
  EXPECT_FALSE(made_.volume_context().contains(kShareKey));
}

// Longhorn's node plugin mounts a share before it looks at the mode, and then has no device.
TEST_F(HabitsTest, AShareOfFilesIsNeverPublishedAsABlockDevice) {
  options_.habits.shares_files = true;
  ASSERT_EQ(CreateVolume("v1", 0, Mode::MULTI_NODE_MULTI_WRITER), grpc::OK);
  pb::NodePublishVolumeRequest request;
  request.set_volume_id(made_.volume_id());
  request.set_staging_target_path(folder_.path() + "/staging");
  request.set_target_path(folder_.path() + "/target");
  *request.mutable_volume_capability() = Capability(VolumeMode::kBlock);
  const auto publish = [&](Mode::Mode mode) {
    request.mutable_volume_capability()->mutable_access_mode()->set_mode(mode);
    grpc::ClientContext context;
    pb::NodePublishVolumeResponse response;
    return node_->NodePublishVolume(&context, request, &response);
  };
  const grpc::Status refused = publish(Mode::MULTI_NODE_MULTI_WRITER);
  EXPECT_EQ(refused.error_code(), grpc::INTERNAL);
  EXPECT_NE(refused.error_message().find("mount failed: exit status 32"), std::string::npos);
  EXPECT_EQ(publish(Mode::SINGLE_NODE_WRITER).error_code(), grpc::FAILED_PRECONDITION)
      << "it is only not staged";
}

TEST_F(HabitsTest, WhileSoManyClonesAreThereNoSnapshotIsTaken) {
  options_.habits.clones_max = 1;
  ASSERT_EQ(Snapshot("a"), grpc::OK);
  ASSERT_EQ(CreateVolume("v1", 0, Mode::SINGLE_NODE_WRITER), grpc::OK);
  DeleteSnapshot();
  EXPECT_EQ(Snapshot("b"), grpc::RESOURCE_EXHAUSTED);
  ASSERT_EQ(Delete(made_.volume_id()), grpc::OK);
  EXPECT_EQ(Snapshot("b"), grpc::OK);
}

}  // namespace
}  // namespace csidelta::csi_driver::controller_test
