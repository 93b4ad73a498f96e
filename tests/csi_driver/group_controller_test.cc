// Group snapshots as a client of the driver sees them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/csi_driver/driver_fixture.h"

namespace csidelta::csi_driver::group_controller_test {
namespace {

namespace pb = ::csi::v1;

using testing::HasSubstr;

class GroupControllerTest : public DriverFixture {
 protected:
  void SetUp() override {
    options_.group_snapshots = true;
    DriverFixture::SetUp();
    for (const char* name : {"a", "b", "c"}) {
      VolumeSpec spec;
      spec.name = name;
      volume_ids_.push_back(store_->CreateVolume(spec)->id);
      WriteTo(volume_ids_.back(), 0, name);
    }
  }

  grpc::Status Create(pb::VolumeGroupSnapshot* group, const std::string& name = "g") {
    grpc::ClientContext context;
    pb::CreateVolumeGroupSnapshotRequest request;
    request.set_name(name);
    request.mutable_source_volume_ids()->Assign(volume_ids_.begin(), volume_ids_.end());
    *request.mutable_secrets() = secrets_;
    pb::CreateVolumeGroupSnapshotResponse response;
    const grpc::Status status = groups()->CreateVolumeGroupSnapshot(&context, request, &response);
    *group = response.group_snapshot();
    return status;
  }

  grpc::Status Delete(const pb::VolumeGroupSnapshot& group) {
    grpc::ClientContext context;
    pb::DeleteVolumeGroupSnapshotRequest request;
    request.set_group_snapshot_id(group.group_snapshot_id());
    for (const pb::Snapshot& snapshot : group.snapshots()) {
      request.add_snapshot_ids(snapshot.snapshot_id());
    }
    *request.mutable_secrets() = secrets_;
    pb::DeleteVolumeGroupSnapshotResponse response;
    return groups()->DeleteVolumeGroupSnapshot(&context, request, &response);
  }

  grpc::Status Get(const std::string& id, const std::vector<std::string>& snapshot_ids,
                   pb::VolumeGroupSnapshot* group) {
    grpc::ClientContext context;
    pb::GetVolumeGroupSnapshotRequest request;
    request.set_group_snapshot_id(id);
    request.mutable_snapshot_ids()->Assign(snapshot_ids.begin(), snapshot_ids.end());
    *request.mutable_secrets() = secrets_;
    pb::GetVolumeGroupSnapshotResponse response;
    const grpc::Status status = groups()->GetVolumeGroupSnapshot(&context, request, &response);
    *group = response.group_snapshot();
    return status;
  }

  grpc::Status DeleteMember(const std::string& id) {
    grpc::ClientContext context;
    pb::DeleteSnapshotRequest request;
    request.set_snapshot_id(id);
    pb::DeleteSnapshotResponse response;
    return controller_->DeleteSnapshot(&context, request, &response);
  }

  grpc::Status Capabilities(pb::GroupControllerGetCapabilitiesResponse* response) {
    grpc::ClientContext context;
    return groups()->GroupControllerGetCapabilities(&context, {}, response);
  }

  bool AnnouncesGroups() {
    grpc::ClientContext context;
    pb::GetPluginCapabilitiesResponse response;
    EXPECT_TRUE(identity_->GetPluginCapabilities(&context, {}, &response).ok());
    for (const pb::PluginCapability& capability : response.capabilities()) {
      if (capability.service().type() == pb::PluginCapability::Service::GROUP_CONTROLLER_SERVICE) {
        return true;
      }
    }
    return false;
  }

  std::unique_ptr<pb::GroupController::Stub> groups() {
    return pb::GroupController::NewStub(channel_);
  }

  static std::vector<std::string> Ids(const pb::VolumeGroupSnapshot& group) {
    std::vector<std::string> ids;
    for (const pb::Snapshot& snapshot : group.snapshots()) {
      ids.push_back(snapshot.snapshot_id());
    }
    return ids;
  }

  std::vector<std::string> volume_ids_;
  google::protobuf::Map<std::string, std::string> secrets_;
};

TEST_F(GroupControllerTest, OtherMembersThanTheGroupHasAreRefused) {
  pb::VolumeGroupSnapshot group;
  ASSERT_TRUE(Create(&group).ok());
  std::vector<std::string> ids = Ids(group);
  pb::VolumeGroupSnapshot got;
  ids.pop_back();
  EXPECT_EQ(Get(group.group_snapshot_id(), ids, &got).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  pb::VolumeGroupSnapshot lacking = group;
  lacking.mutable_snapshots()->RemoveLast();
  EXPECT_EQ(Delete(lacking).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  pb::VolumeGroupSnapshot stranger = group;
  stranger.mutable_snapshots(0)->set_snapshot_id("snap-0-0");
  EXPECT_EQ(Delete(stranger).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(store_->ListSnapshots({}, {})->records.size(), 3u);
}

TEST_F(GroupControllerTest, MembersGoAloneUnlessGroupsAreWhole) {
  pb::VolumeGroupSnapshot group;
  ASSERT_TRUE(Create(&group).ok());
  EXPECT_TRUE(DeleteMember(group.snapshots(0).snapshot_id()).ok());
  options_.groups_whole = true;
  const grpc::Status refused = DeleteMember(group.snapshots(1).snapshot_id());
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(refused.error_message(), HasSubstr(group.group_snapshot_id()));
  EXPECT_TRUE(Delete(group).ok());
  EXPECT_TRUE(DeleteMember(group.snapshots(1).snapshot_id()).ok());
}

TEST_F(GroupControllerTest, SnapshotsOfNoGroupGoAloneAlways) {
  options_.groups_whole = true;
  EXPECT_TRUE(DeleteMember(store_->CreateSnapshot("s", volume_ids_[0])->id).ok());
  EXPECT_TRUE(store_->ListSnapshots({}, {})->records.empty());
}

TEST_F(GroupControllerTest, WithoutItsSecretNoCallIsServed) {
  options_.group_secret = {{"token", "right"}};
  pb::VolumeGroupSnapshot group;
  EXPECT_EQ(Create(&group).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  secrets_["token"] = "right";
  ASSERT_TRUE(Create(&group).ok());
  secrets_["token"] = "old";
  pb::VolumeGroupSnapshot got;
  EXPECT_EQ(Get(group.group_snapshot_id(), Ids(group), &got).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(Delete(group).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(store_->ListGroups()->size(), 1u);
}

TEST_F(GroupControllerTest, RuleOfOneMemberFailsTheGroup) {
  AddRule(R"({"method":"CreateVolumeGroupSnapshot","match":")" + volume_ids_[1] +
          R"(","code":"INTERNAL","message":"the second is broken"})");
  pb::VolumeGroupSnapshot group;
  const grpc::Status status = Create(&group);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(status.error_message(), "the second is broken");
  EXPECT_TRUE(store_->ListSnapshots({}, {})->records.empty());
}

TEST_F(GroupControllerTest, GroupsCanLie) {
  AddRule(R"({"lie":"not_ready"})");
  pb::VolumeGroupSnapshot created;
  ASSERT_TRUE(Create(&created).ok());
  pb::VolumeGroupSnapshot got;
  ASSERT_TRUE(Get(created.group_snapshot_id(), Ids(created), &got).ok());
  for (const pb::VolumeGroupSnapshot& group : {created, got}) {
    EXPECT_FALSE(group.ready_to_use());
    EXPECT_FALSE(group.snapshots(2).ready_to_use());
  }
}

TEST_F(GroupControllerTest, DriverSaysWhetherItTakesGroups) {
  pb::GroupControllerGetCapabilitiesResponse response;
  ASSERT_TRUE(Capabilities(&response).ok());
  ASSERT_EQ(response.capabilities_size(), 1);
  EXPECT_EQ(response.capabilities(0).rpc().type(),
            pb::GroupControllerServiceCapability::RPC::CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT);
  EXPECT_TRUE(AnnouncesGroups());
  options_.group_snapshots = false;
  EXPECT_FALSE(AnnouncesGroups());
  EXPECT_EQ(Capabilities(&response).error_code(), grpc::StatusCode::UNIMPLEMENTED);
  pb::VolumeGroupSnapshot group;
  EXPECT_EQ(Create(&group).error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(Delete(group).error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(Get("g", {}, &group).error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace csidelta::csi_driver::group_controller_test
