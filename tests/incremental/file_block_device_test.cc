#include "incremental/mover/file_block_device.h"

#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <string>
#include <thread>

#include "tests/support/fake_block_device.h"
#include "tests/support/scratch_file.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/status_matchers.h"

namespace csidelta::incremental::file_block_device_test {
namespace {

using support::FakeBlockDevice;
using support::IsOk;
using support::ScratchFile;
using support::StatusIs;
using testing::HasSubstr;

TEST(FileBlockDeviceTest, ADeviceOfRootsAloneIsRefusedWithBothRemediations) {
  const support::ScratchFolder folder;
  const std::string path = folder.path() + "/device";
  if (::mknod(path.c_str(), S_IFBLK | 0600, makedev(7, 250)) != 0) {
    GTEST_SKIP() << "wants the right to make device nodes";
  }
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  std::thread([&] {
    constexpr uid_t kNoUser = 65534;
    ::setfsuid(kNoUser);  // Of this thread alone; the rights of root over files go with it.
    EXPECT_THAT(FileBlockDevice::OpenForRead(path),
                StatusIs(absl::StatusCode::kPermissionDenied,
                         testing::AllOf(HasSubstr("belongs to user 0"), HasSubstr("mode 0600"),
                                        HasSubstr("supplementalGroups"),
                                        HasSubstr("device_ownership_from_security_context"))));
  }).join();
}

TEST(FileBlockDeviceTest, RefusesWhatIsNotAVolume) {
  EXPECT_THAT(FileBlockDevice::OpenForRead("no-such-file"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(FileBlockDevice::OpenForRead("."), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(FileBlockDevice::OpenForRead("/dev/null"),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(FileBlockDevice::OpenForWrite("/dev/null", 1),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(FileBlockDevice::OpenForWrite(".", 1), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(FileBlockDeviceTest, MakesAMissingOrEmptyTarget) {
  ScratchFile file(".");
  EXPECT_THAT(FileBlockDevice::OpenForWrite(file.path(), 12345), IsOk());
  struct stat info {};
  ASSERT_EQ(::stat(file.path().c_str(), &info), 0);
  EXPECT_EQ(info.st_size, 12345);
  ASSERT_EQ(::unlink(file.path().c_str()), 0);
  const auto made = FileBlockDevice::OpenForWrite(file.path(), 777);
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ((*made)->info().size_bytes, 777);
  EXPECT_THAT((*made)->Flush({}), IsOk());
  EXPECT_THAT(FileBlockDevice::OpenForWrite("no-such-folder/file", 1),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST(FileBlockDeviceTest, AnExistingSmallerTargetIsOutOfRangeAndALargerOneKeepsItsSize) {
  ScratchFile file(".");
  file.Write(std::string(1000, 'x'));
  EXPECT_THAT(FileBlockDevice::OpenForWrite(file.path(), 1001),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("1000")));
  const auto larger = FileBlockDevice::OpenForWrite(file.path(), 10);
  ASSERT_THAT(larger, IsOk());
  EXPECT_EQ((*larger)->info().size_bytes, 1000);
}

TEST(FileBlockDeviceTest, AFileThatShrinksIsDataLossAtItsOffset) {
  ScratchFile file(".");
  file.Write(std::string(65536, 'x'));
  const auto device = FileBlockDevice::OpenForRead(file.path());
  ASSERT_THAT(device, IsOk());
  ASSERT_EQ(::truncate(file.path().c_str(), 8192), 0);
  AlignedBuffer memory(65536);
  auto queue = (*device)->OpenQueue(1);
  ASSERT_THAT(queue, IsOk());
  EXPECT_THAT(ReadFully({}, **queue, {0, 65536}, memory.data()),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("8192")));
}

TEST(FakeBlockDeviceTest, ABadSectorNamesItsOffset) {
  FakeBlockDevice device(1 << 20);
  device.BreakByte(70000);
  AlignedBuffer memory(65536);
  auto queue = device.OpenQueue(1);
  ASSERT_THAT(queue, IsOk());
  EXPECT_THAT(ReadFully({}, **queue, {0, 65536}, memory.data()), IsOk());
  EXPECT_THAT(ReadFully({}, **queue, {65536, 65536}, memory.data()),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("offset 65536")));
}

}  // namespace
}  // namespace csidelta::incremental::file_block_device_test
