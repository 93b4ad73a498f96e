// Groups of volumes in a file system of their own: one instant. Needs root: it mounts.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/await.h"
#include "tests/support/csi_driver/files.h"
#include "tests/support/csi_driver/filesystem.h"
#include "tests/support/csi_driver/freeze.h"
#include "tests/support/csi_driver/loop_device.h"
#include "tests/support/csi_driver/mounts.h"
#include "tests/support/csi_driver/store.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/status_matchers.h"

namespace csidelta::csi_driver::freeze_test {
namespace {

using support::IsOk;
using support::StatusIs;

constexpr int64_t kImageBytes = int64_t{256} << 20;
constexpr int64_t kVolumeBytes = int64_t{16} << 20;

class FreezeTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_THAT(CreateSparse(image(), kImageBytes), IsOk());
    ASSERT_THAT(MakeFilesystem(image()), IsOk());
    ASSERT_THAT(MakeFolder(volumes_folder_), IsOk());
    const absl::StatusOr<std::string> device = AttachLoop(image());
    ASSERT_THAT(device, IsOk());
    ASSERT_THAT(MountFilesystem(*device, volumes_folder_), IsOk());
    Reopen();
    for (const char* name : {"a", "b", "c"}) {
      VolumeSpec spec;
      spec.name = name;
      spec.size.required_bytes = kVolumeBytes;
      volume_ids_.push_back(store_->CreateVolume(spec)->id);
    }
  }
  void TearDown() override {
    EXPECT_THAT(ThawLeftover(volumes_folder_), IsOk());
    EXPECT_THAT(Unmount(volumes_folder_), IsOk());
    EXPECT_THAT(DetachLoops(image()), IsOk());
  }

  std::string image() const { return folder_.path() + "/image"; }

  void Reopen() {
    absl::StatusOr<std::unique_ptr<Store>> store =
        Store::Open(folder_.path() + "/state", Clock::Real(), Random::Real(), volumes_folder_);
    ASSERT_THAT(store, IsOk());
    store_ = *std::move(store);
  }
  bool IsFrozen() const {
    absl::StatusOr<Freeze> freeze = Freeze::Take(volumes_folder_);
    return !freeze.ok();
  }

  const support::ScratchFolder folder_;
  const std::string volumes_folder_ = folder_.path() + "/mounted";
  std::unique_ptr<Store> store_;
  std::vector<std::string> volume_ids_;
};

// Writes one number after the other into all files in turn until it is told to end.
class Stamps {
 public:
  explicit Stamps(const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
      fds_.push_back(*OpenFile(path, O_WRONLY));
    }
    thread_ = std::jthread([this](const std::stop_token& stop) {
      for (int64_t number = 1; !stop.stop_requested(); ++number) {
        for (const UniqueFd& fd : fds_) {
          EXPECT_EQ(pwrite(fd.get(), &number, sizeof number, 0), ssize_t{sizeof number});
        }
        last_ = number;
      }
    });
  }
  void AwaitFirst() const {
    support::Await("the first stamps", [this] { return last_ > 0; });
  }

 private:
  std::vector<UniqueFd> fds_;
  std::atomic<int64_t> last_ = 0;
  std::jthread thread_;
};

int64_t StampIn(const std::string& path) {
  int64_t number = 0;
  const absl::StatusOr<UniqueFd> fd = OpenFile(path, O_RDONLY);
  EXPECT_TRUE(fd.ok() && pread(fd->get(), &number, sizeof number, 0) == ssize_t{sizeof number});
  return number;
}

TEST_F(FreezeTest, VolumesLieInTheirOwnFileSystemAndSnapshotsDoNot) {
  EXPECT_TRUE(std::filesystem::exists(volumes_folder_ + "/volumes/" + volume_ids_[0]));
  const absl::StatusOr<SnapshotRecord> snapshot = store_->CreateSnapshot("s", volume_ids_[0]);
  ASSERT_THAT(snapshot, IsOk());
  EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/state/snapshots/" + snapshot->id));
  VolumeSpec spec;
  spec.name = "copy";
  spec.source.snapshot_id = snapshot->id;
  EXPECT_THAT(store_->CreateVolume(spec), IsOk());
}

TEST_F(FreezeTest, GroupIsOneInstant) {
  std::vector<std::string> paths;
  for (const std::string& id : volume_ids_) {
    paths.push_back(store_->VolumePath(id));
  }
  const Stamps stamps(paths);
  stamps.AwaitFirst();
  for (int round = 0; round < 10; ++round) {
    const absl::StatusOr<Group> group =
        store_->CreateGroup("g" + std::to_string(round), volume_ids_);
    ASSERT_THAT(group, IsOk());
    ASSERT_TRUE(group->record.frozen.has_value());
    EXPECT_GT(*group->record.frozen, absl::ZeroDuration());
    const int64_t first = StampIn(store_->SnapshotPath(group->snapshots[0].id));
    const int64_t second = StampIn(store_->SnapshotPath(group->snapshots[1].id));
    const int64_t third = StampIn(store_->SnapshotPath(group->snapshots[2].id));
    EXPECT_GE(first, second);
    EXPECT_GE(second, third);
    EXPECT_LE(first - third, 1);
    EXPECT_EQ(group->snapshots[0].created_at, group->snapshots[2].created_at);
  }
}

TEST_F(FreezeTest, FailedCopyThaws) {
  ASSERT_THAT(RemoveFile(store_->VolumePath(volume_ids_[2])), IsOk());
  EXPECT_FALSE(store_->CreateGroup("g", volume_ids_).ok());
  EXPECT_FALSE(IsFrozen());
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path() + "/state/partial"));
}

TEST_F(FreezeTest, StartThawsWhatAKilledProcessLeft) {
  ASSERT_EQ(ioctl(OpenFile(volumes_folder_, O_RDONLY)->get(), FIFREEZE, 0), 0);
  EXPECT_TRUE(IsFrozen());
  Reopen();
  EXPECT_FALSE(IsFrozen());
}

TEST_F(FreezeTest, GroupDoesNotWaitForAForeignFreeze) {
  const absl::StatusOr<Freeze> freeze = Freeze::Take(volumes_folder_);
  ASSERT_THAT(freeze, IsOk());
  EXPECT_THAT(store_->CreateGroup("g", volume_ids_),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(FreezeTest, MountOfTheVolumesIsAFileSystemOfItsOwn) {
  EXPECT_THAT(CheckOwnFilesystem(volumes_folder_, folder_.path()), IsOk());
  EXPECT_THAT(CheckOwnFilesystem(volumes_folder_ + "/volumes", folder_.path()),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(CheckOwnFilesystem(volumes_folder_, volumes_folder_ + "/volumes"),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace csidelta::csi_driver::freeze_test
