// What csi-sanity does not ask of the node: whether bytes arrive. Needs root and loop devices.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "tests/csi_driver/driver_fixture.h"
#include "tests/support/csi_driver/files.h"
#include "tests/support/csi_driver/loop_device.h"
#include "tests/support/csi_driver/mounts.h"

namespace csidelta::csi_driver::node_test {
namespace {

namespace pb = ::csi::v1;

constexpr int64_t kMiB = int64_t{1} << 20;

class NodeTest : public DriverFixture {
 protected:
  void SetUp() override {
    DriverFixture::SetUp();
    staging_ = folder_.path() + "/staging";
    target_ = folder_.path() + "/target";
  }

  std::string CreateVolume(const std::string& name, VolumeMode mode, int64_t size_bytes,
                           const std::string& snapshot_id = "") {
    VolumeSpec spec;
    spec.name = name;
    spec.mode = mode;
    spec.size.required_bytes = size_bytes;
    spec.source.snapshot_id = snapshot_id;
    return store_->CreateVolume(spec)->id;
  }

  void Publish(const std::string& volume_id, VolumeMode mode, bool read_only = false) {
    pb::NodeStageVolumeRequest stage;
    stage.set_volume_id(volume_id);
    stage.set_staging_target_path(staging_);
    *stage.mutable_volume_capability() = Capability(mode);
    pb::NodePublishVolumeRequest publish;
    publish.set_volume_id(volume_id);
    publish.set_staging_target_path(staging_);
    publish.set_target_path(target_);
    publish.set_readonly(read_only);
    *publish.mutable_volume_capability() = Capability(mode);
    for (int i = 0; i < 2; ++i) {  // Every call may come twice.
      grpc::ClientContext stage_context;
      pb::NodeStageVolumeResponse staged;
      const grpc::Status status = node_->NodeStageVolume(&stage_context, stage, &staged);
      ASSERT_TRUE(status.ok()) << status.error_message();
      grpc::ClientContext publish_context;
      pb::NodePublishVolumeResponse published;
      const grpc::Status second = node_->NodePublishVolume(&publish_context, publish, &published);
      ASSERT_TRUE(second.ok()) << second.error_message();
    }
  }

  void Unpublish(const std::string& volume_id) {
    pb::NodeUnpublishVolumeRequest unpublish;
    unpublish.set_volume_id(volume_id);
    unpublish.set_target_path(target_);
    pb::NodeUnstageVolumeRequest unstage;
    unstage.set_volume_id(volume_id);
    unstage.set_staging_target_path(staging_);
    for (int i = 0; i < 2; ++i) {
      grpc::ClientContext unpublish_context;
      pb::NodeUnpublishVolumeResponse unpublished;
      EXPECT_TRUE(node_->NodeUnpublishVolume(&unpublish_context, unpublish, &unpublished).ok());
      grpc::ClientContext unstage_context;
      pb::NodeUnstageVolumeResponse unstaged;
      EXPECT_TRUE(node_->NodeUnstageVolume(&unstage_context, unstage, &unstaged).ok());
    }
    EXPECT_FALSE(std::filesystem::exists(target_));
    EXPECT_FALSE(*IsMounted(staging_));
    EXPECT_TRUE(LoopDevicesOf(store_->VolumePath(volume_id))->empty());
  }

  std::string staging_;
  std::string target_;
};

TEST_F(NodeTest, FilesComeBackFromASnapshotInALargerVolume) {
  const std::string first = CreateVolume("a", VolumeMode::kFilesystem, 16 * kMiB);
  Publish(first, VolumeMode::kFilesystem);
  std::ofstream(target_ + "/file") << "known bytes";
  // Taken while mounted, with nothing synced by us.
  const std::string snapshot_id = store_->CreateSnapshot("s", first)->id;
  Unpublish(first);

  const std::string second = CreateVolume("b", VolumeMode::kFilesystem, 64 * kMiB, snapshot_id);
  Publish(second, VolumeMode::kFilesystem);
  EXPECT_EQ(ReadFile(target_ + "/file").value_or(""), "known bytes");
  struct statvfs stat_of_target;
  ASSERT_EQ(statvfs(target_.c_str(), &stat_of_target), 0);
  EXPECT_GT(static_cast<int64_t>(stat_of_target.f_blocks * stat_of_target.f_frsize), 32 * kMiB);
  Unpublish(second);
}

TEST_F(NodeTest, ReadOnlyFoldersCannotBeWritten) {
  const std::string id = CreateVolume("a", VolumeMode::kFilesystem, 16 * kMiB);
  Publish(id, VolumeMode::kFilesystem, /*read_only=*/true);
  EXPECT_FALSE(OpenFile(target_ + "/file", O_WRONLY | O_CREAT).ok());
  Unpublish(id);
}

TEST_F(NodeTest, BytesWrittenToADeviceAreInTheSnapshot) {
  const std::string id = CreateVolume("a", VolumeMode::kBlock, 4 * kMiB);
  Publish(id, VolumeMode::kBlock);
  std::fstream device(target_, std::ios::in | std::ios::out | std::ios::binary);
  device.seekp(kMiB);
  device << "known bytes" << std::flush;
  const std::string snapshot = store_->SnapshotPath(store_->CreateSnapshot("s", id)->id);
  EXPECT_EQ(ReadFile(snapshot).value_or("").substr(kMiB, 11), "known bytes");
  device.close();
  Unpublish(id);
}

TEST_F(NodeTest, VolumeInUseIsNotDeleted) {
  const std::string id = CreateVolume("a", VolumeMode::kBlock, 4 * kMiB);
  Publish(id, VolumeMode::kBlock);
  EXPECT_TRUE(absl::IsFailedPrecondition(store_->DeleteVolume(id)));
  Unpublish(id);
  EXPECT_TRUE(store_->DeleteVolume(id).ok());
}

}  // namespace
}  // namespace csidelta::csi_driver::node_test
