// The suite of BlockDevice on loop devices with blocks of 512 and 4096 bytes, and what only devices
// do. Needs root.
#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "incremental/mover/file_block_device.h"
#include "tests/contract/block_device_contract.h"
#include "tests/support/loop_block.h"
#include "tests/support/scratch_file.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/status_matchers.h"

namespace {
bool refuse_holes = false;  // As a device without an unmapping zero-out does.
}  // namespace

extern "C" int fallocate(int fd, int mode, off_t offset, off_t length) {
  if (refuse_holes) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fallocate, fd, mode, offset, length));
}

namespace csidelta::contract::block_device_loop_test {
namespace {

using incremental::AlignedBuffer;
using incremental::FileBlockDevice;
using support::IsOk;
using support::LoopBlock;
using support::ScratchFile;
using support::ScratchFolder;
using support::StatusIs;

class LoopSubject : public BlockDeviceSubject {
 public:
  explicit LoopSubject(uint32_t block_bytes) : block_bytes_(block_bytes) {}

  incremental::BlockDevice* Make(int64_t size_bytes) override {
    device_.reset();
    loop_.reset();
    if (size_bytes % block_bytes_ != 0) {
      std::cout << "a device has no " << size_bytes << " bytes\n";
      return nullptr;
    }
    file_.Write(std::string(static_cast<std::size_t>(size_bytes), '\xA5'));
    loop_.emplace(file_.path(), block_bytes_);
    EXPECT_FALSE(loop_->path().empty()) << "no loop device: run as root";
    absl::StatusOr<std::unique_ptr<FileBlockDevice>> device =
        FileBlockDevice::OpenForWrite(loop_->path(), size_bytes);
    EXPECT_THAT(device, IsOk());
    device_ = device.ok() ? *std::move(device) : nullptr;
    EXPECT_TRUE(device_ == nullptr || device_->info().alignment_bytes == block_bytes_);
    return device_.get();
  }

 private:
  const uint32_t block_bytes_;
  ScratchFile file_{"."};
  std::optional<LoopBlock> loop_;
  std::unique_ptr<FileBlockDevice> device_;
};

BlockDeviceCase LoopCase(const char* name, uint32_t block_bytes) {
  return {name, [block_bytes] { return std::make_unique<LoopSubject>(block_bytes); }};
}

INSTANTIATE_TEST_SUITE_P(Loop, BlockDeviceContract,
                         testing::Values(LoopCase("Blocks512", 512), LoopCase("Blocks4096", 4096)),
                         [](const auto& test) { return std::string(test.param.name); });

constexpr int64_t kBytes = 1 << 20;

int64_t AllocatedBytes(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0);
  return info.st_blocks * 512;
}

// Otherwise a restore fills the pool that the volume is only promised from.
TEST(LoopDeviceTest, ZerosTakeNoSpaceOfAThinDevice) {
  constexpr int64_t kThinBytes = int64_t{64} << 20;
  ScratchFile file(".");
  file.Write("x");
  ASSERT_EQ(::truncate(file.path().c_str(), kThinBytes), 0);
  const LoopBlock loop(file.path(), 512);
  ASSERT_FALSE(loop.path().empty());
  const auto device = FileBlockDevice::OpenForWrite(loop.path(), kThinBytes);
  ASSERT_THAT(device, IsOk());
  for (const bool can_give_back : {true, false}) {
    AlignedBuffer memory(kBytes);
    std::memset(memory.data(), 0xA5, kBytes);
    auto queue = (*device)->OpenQueue(1);
    ASSERT_THAT(queue, IsOk());
    ASSERT_THAT(WriteFully({}, **queue, {8 * kBytes, kBytes}, memory.data()), IsOk());
    refuse_holes = !can_give_back;
    EXPECT_THAT((*device)->MakeZero({}, {0, kThinBytes}), IsOk());
    refuse_holes = false;
    EXPECT_THAT((*device)->Flush({}), IsOk());
    EXPECT_LE(AllocatedBytes(file.path()), 2 * kBytes) << can_give_back;
    ASSERT_THAT(ReadFully({}, **queue, {8 * kBytes, kBytes}, memory.data()), IsOk());
    EXPECT_EQ(memory.View(kBytes), std::string(kBytes, '\0'));
  }
}

// No kernel before 6.15 has such loop devices.
TEST(LoopDeviceTest, LargeBlocksAreReadAndWrittenThroughTheCache) {
  ScratchFile file(".");
  file.Write(std::string(kBytes, 'x'));
  const LoopBlock loop(file.path(), 16384);
  if (loop.path().empty()) {
    GTEST_SKIP() << "this kernel has no loop devices with blocks of 16 KiB";
  }
  const auto device = FileBlockDevice::OpenForWrite(loop.path(), kBytes);
  ASSERT_THAT(device, IsOk());
  EXPECT_THAT((*device)->info().engine, testing::HasSubstr("buffered"));
  AlignedBuffer memory(kBytes);
  std::memset(memory.data(), 'y', kBytes);
  auto queue = (*device)->OpenQueue(1);
  ASSERT_THAT(queue, IsOk());
  ASSERT_THAT(WriteFully({}, **queue, {4096, 5000}, memory.data()), IsOk());
  EXPECT_THAT((*device)->MakeZero({}, {65536, 100'000}), IsOk());
  EXPECT_THAT((*device)->Flush({}), IsOk());
  ASSERT_THAT(ReadFully({}, **queue, {0, kBytes}, memory.data()), IsOk());
  std::string want(kBytes, 'x');
  want.replace(4096, 5000, 5000, 'y');
  want.replace(65536, 100'000, 100'000, '\0');
  EXPECT_EQ(memory.View(kBytes), want);
}

TEST(LoopDeviceTest, ADeviceHeldByAnotherIsRefused) {
  ScratchFile file(".");
  file.Write(std::string(kBytes, 'x'));
  const LoopBlock loop(file.path(), 512);
  ASSERT_FALSE(loop.path().empty());
  const auto holder = FileBlockDevice::OpenForWrite(loop.path(), kBytes);
  ASSERT_THAT(holder, IsOk());
  EXPECT_THAT(FileBlockDevice::OpenForWrite(loop.path(), kBytes),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(FileBlockDevice::OpenForRead(loop.path()), IsOk());
}

TEST(LoopDeviceTest, AMountedDeviceIsRefused) {
  ScratchFile file(".");
  file.Write(std::string(std::size_t{8} << 20, '\0'));
  ASSERT_EQ(std::system(("mkfs.ext4 -q -F " + file.path()).c_str()), 0);
  const LoopBlock loop(file.path(), 512);
  ASSERT_FALSE(loop.path().empty());
  const ScratchFolder folder;
  ASSERT_EQ(::mount(loop.path().c_str(), folder.path().c_str(), "ext4", MS_RDONLY, nullptr), 0);
  EXPECT_THAT(FileBlockDevice::OpenForWrite(loop.path(), kBytes),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(::umount(folder.path().c_str()), 0);
}

TEST(LoopDeviceTest, ASmallerDeviceIsOutOfRange) {
  ScratchFile file(".");
  file.Write(std::string(kBytes, 'x'));
  const LoopBlock loop(file.path(), 512);
  ASSERT_FALSE(loop.path().empty());
  EXPECT_THAT(FileBlockDevice::OpenForWrite(loop.path(), kBytes + 1),
              StatusIs(absl::StatusCode::kOutOfRange));
}

}  // namespace
}  // namespace csidelta::contract::block_device_loop_test
