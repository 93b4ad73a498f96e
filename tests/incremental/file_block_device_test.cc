#include "incremental/file_block_device.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>
#include <string>

#include "incremental/uring_queue.h"
#include "tests/support/fake_block_device.h"
#include "tests/support/scratch_file.h"
#include "tests/support/status_matchers.h"

namespace csidelta::incremental {
namespace {

using support::FakeBlockDevice;
using support::IsOk;
using support::ScratchFile;
using support::StatusIs;
using testing::HasSubstr;

TEST(FileBlockDeviceTest, NamesTheEngineItUses) {
  ScratchFile file(".");
  file.Write("x");
  const auto best = FileBlockDevice::OpenForRead(file.path());
  ASSERT_THAT(best, IsOk());
  EXPECT_THAT((*best)->facts().engine, HasSubstr(UringWorks() ? "io_uring" : "threads"));
  const auto threads = FileBlockDevice::OpenForRead(file.path(), IoEngine::kThreads);
  ASSERT_THAT(threads, IsOk());
  EXPECT_THAT((*threads)->facts().engine, HasSubstr("threads"));
  EXPECT_EQ((*threads)->facts().size_bytes, 1);
}

TEST(FileBlockDeviceTest, RefusesWhatIsNoVolume) {
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
  struct stat facts {};
  ASSERT_EQ(::stat(file.path().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_size, 12345);
  ASSERT_EQ(::unlink(file.path().c_str()), 0);
  const auto made = FileBlockDevice::OpenForWrite(file.path(), 777);
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ((*made)->facts().size_bytes, 777);
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
  EXPECT_EQ((*larger)->facts().size_bytes, 1000);
}

TEST(FileBlockDeviceTest, AFileThatShrinksIsDataLossAtItsOffset) {
  for (const IoEngine engine : {IoEngine::kBest, IoEngine::kThreads}) {
    ScratchFile file(".");
    file.Write(std::string(65536, 'x'));
    const auto device = FileBlockDevice::OpenForRead(file.path(), engine);
    ASSERT_THAT(device, IsOk());
    ASSERT_EQ(::truncate(file.path().c_str(), 8192), 0);
    AlignedBuffer memory(65536);
    auto queue = (*device)->OpenQueue(1);
    ASSERT_THAT(queue, IsOk());
    EXPECT_THAT(ReadFully({}, **queue, {0, 65536}, memory.data()),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("8192")));
  }
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
}  // namespace csidelta::incremental
