#include <memory>
#include <string>
#include <utility>

#include "incremental/mover/file_block_device.h"
#include "tests/contract/block_device_contract.h"
#include "tests/support/fake_block_device.h"
#include "tests/support/scratch_file.h"
#include "tests/support/status_matchers.h"

namespace csidelta::contract::block_device_contract_test {
namespace {

using incremental::FileBlockDevice;
using support::FakeBlockDevice;
using support::IsOk;
using support::ScratchFile;

class FakeSubject : public BlockDeviceSubject {
 public:
  explicit FakeSubject(int64_t alignment_bytes) : alignment_bytes_(alignment_bytes) {}

  incremental::BlockDevice* Make(int64_t size_bytes) override {
    device_ = std::make_unique<FakeBlockDevice>(size_bytes, alignment_bytes_, 0xA5);
    return device_.get();
  }

 private:
  const int64_t alignment_bytes_;
  std::unique_ptr<FakeBlockDevice> device_;
};

class FileSubject : public BlockDeviceSubject {
 public:
  explicit FileSubject(const std::string& folder) : file_(folder) {}

  incremental::BlockDevice* Make(int64_t size_bytes) override {
    device_.reset();
    file_.Write(std::string(static_cast<std::size_t>(size_bytes), '\xA5'));
    absl::StatusOr<std::unique_ptr<FileBlockDevice>> device =
        FileBlockDevice::OpenForWrite(file_.path(), size_bytes);
    EXPECT_THAT(device, IsOk());
    device_ = device.ok() ? *std::move(device) : nullptr;
    return device_.get();
  }

 private:
  ScratchFile file_;
  std::unique_ptr<FileBlockDevice> device_;
};

template <typename Subject, auto... kArguments>
std::unique_ptr<BlockDeviceSubject> MakeFake() {
  return std::make_unique<Subject>(kArguments...);
}

BlockDeviceCase FileCase(const char* name, const std::string& folder) {
  return {name, [folder] { return std::make_unique<FileSubject>(folder); }};
}

INSTANTIATE_TEST_SUITE_P(
    Fake, BlockDeviceContract,
    testing::Values(BlockDeviceCase{"Blocks512", MakeFake<FakeSubject, int64_t{512}>},
                    BlockDeviceCase{"Blocks4096", MakeFake<FakeSubject, int64_t{4096}>}),
    [](const auto& test) { return std::string(test.param.name); });

// The working folder is on a disk's file system, where direct I/O is possible; shared memory is
// not.
INSTANTIATE_TEST_SUITE_P(File, BlockDeviceContract,
                         testing::Values(FileCase("Disk", "."), FileCase("Memory", "/dev/shm")),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace csidelta::contract::block_device_contract_test
