// What reflinked copies share is not read to know that it is the same. Needs root and loop devices.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/support/csi_driver/files.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/status_matchers.h"

namespace csidelta::csi_driver::shared_blocks_test {
namespace {

using support::IsOk;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kFileSystemBytes = 320 * kMiB;  // The least that mkfs.xfs takes, and some.
constexpr int64_t kFileBytes = 8 * kMiB;
constexpr int64_t kWrittenAt = 5 * kMiB;
constexpr int64_t kBlockBytes = 4096;

class SharedBlocksTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string image = folder_.path() + "/image";
    ASSERT_THAT(MakeFolder(mount_), IsOk());
    ASSERT_THAT(CreateSparse(image, kFileSystemBytes), IsOk());
    ASSERT_EQ(std::system(("mkfs.xfs -q " + image).c_str()), 0);
    ASSERT_EQ(std::system(("mount -o loop " + image + " " + mount_).c_str()), 0);
  }
  void TearDown() override { umount2(mount_.c_str(), MNT_DETACH); }

  void Write(const std::string& path, int64_t offset_bytes, const std::string& bytes) {
    const auto fd = OpenFile(path, O_WRONLY | O_CREAT);
    ASSERT_THAT(fd, IsOk());
    ASSERT_EQ(pwrite(fd->get(), bytes.data(), bytes.size(), offset_bytes),
              static_cast<ssize_t>(bytes.size()));
  }

  static int64_t Skip(const std::string& a, const std::string& b, int64_t offset_bytes) {
    return SkipShared(*OpenFile(a, O_RDONLY), *OpenFile(b, O_RDONLY), offset_bytes, kFileBytes);
  }

  const support::ScratchFolder folder_;
  const std::string mount_ = folder_.path() + "/mnt";
};

TEST_F(SharedBlocksTest, OnlyBlocksWrittenSinceAreFound) {
  const std::string before = mount_ + "/before";
  const std::string after = mount_ + "/after";
  ASSERT_THAT(CreateSparse(before, kFileBytes), IsOk());
  Write(before, 0, std::string(2 * kMiB, 'a'));  // Then a hole.
  Write(before, 4 * kMiB, std::string(2 * kMiB, 'b'));
  ASSERT_THAT(CopySparse(before, after), IsOk());
  EXPECT_EQ(Skip(before, after, 0), kFileBytes);
  Write(after, kWrittenAt, std::string(kBlockBytes, 'c'));
  EXPECT_EQ(Skip(before, after, 0), kWrittenAt);
  EXPECT_EQ(Skip(before, after, kWrittenAt + 1), kWrittenAt + 1);
  EXPECT_EQ(Skip(before, after, kWrittenAt + kBlockBytes), kFileBytes);
  Write(after, 3 * kMiB, "in the hole");
  EXPECT_EQ(Skip(before, after, 0), 3 * kMiB);
}

TEST_F(SharedBlocksTest, EqualBytesInAnotherPlaceAreNotTakenForTheSame) {
  const std::string one = mount_ + "/one";
  const std::string other = mount_ + "/other";
  for (const std::string& path : {one, other}) {
    ASSERT_THAT(CreateSparse(path, kFileBytes), IsOk());
    Write(path, 0, std::string(kMiB, 'a'));
  }
  EXPECT_EQ(Skip(one, other, 0), 0);
  EXPECT_EQ(Skip(one, other, 2 * kMiB), kFileBytes);  // Holes on both sides.
}

}  // namespace
}  // namespace csidelta::csi_driver::shared_blocks_test
