#include "incremental/mover/source_identity.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <fstream>
#include <set>
#include <string>

#include "tests/support/scratch_file.h"
#include "tests/support/status_matchers.h"

namespace csidelta::incremental::source_identity_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;

SourceInfo Disk() {
  return {.is_block_device = true,
          .device = makedev(7, 0),
          .size_bytes = 1 << 30,
          .modified = "",
          .boot_id = "boot",
          .disk_sequence = 41,
          .dm_uuid = ""};
}

std::string IdentityOf(const SourceInfo& info) {
  const absl::StatusOr<std::string> identity = ContentIdentity("/dev/loop0", info);
  EXPECT_THAT(identity, IsOk());
  return identity.ok() ? *identity : "";
}

// Path and number stay when another volume snapshot takes the place of the last.
TEST(SourceIdentityTest, ADeviceThatWasAttachedAgainIsAnother) {
  const SourceInfo disk = Disk();
  SourceInfo next = disk;
  next.disk_sequence = 42;
  SourceInfo rebooted = disk;
  rebooted.boot_id = "next boot";
  SourceInfo larger = disk;
  larger.size_bytes *= 2;
  SourceInfo partition = disk;
  partition.device = makedev(259, 1);
  EXPECT_EQ(IdentityOf(disk), IdentityOf(Disk()));
  EXPECT_EQ(std::set<std::string>({IdentityOf(disk), IdentityOf(next), IdentityOf(rebooted),
                                   IdentityOf(larger), IdentityOf(partition)})
                .size(),
            5u);
}

TEST(SourceIdentityTest, WithoutADiskSequenceOnlyAReadOnlyLogicalVolumeIsKnown) {
  SourceInfo old_kernel = Disk();
  old_kernel.disk_sequence = 0;
  const auto refused = StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--immutable-id"));
  EXPECT_THAT(ContentIdentity("/dev/loop0", old_kernel), refused);
  old_kernel.dm_uuid = "LVM-one";
  EXPECT_THAT(ContentIdentity("/dev/loop0", old_kernel), refused) << "it can be written to";
  old_kernel.read_only = true;
  const std::string one = IdentityOf(old_kernel);
  old_kernel.dm_uuid = "LVM-two";
  EXPECT_NE(IdentityOf(old_kernel), one);
  old_kernel.dm_uuid = "CRYPT-LUKS2-one";
  EXPECT_THAT(ContentIdentity("/dev/loop0", old_kernel), refused)
      << "each volume snapshot of an encrypted volume has this one";
}

// `touch -r`, or rsync --times --inplace.
TEST(SourceIdentityTest, AFileThatWasWrittenToIsAnotherThoughItsTimeWasSetBack) {
  support::ScratchFile file;
  file.Write("before");
  struct stat before {};
  ASSERT_EQ(::stat(file.path().c_str(), &before), 0);
  const auto identity = [&] {
    const absl::StatusOr<SourceInfo> info = ReadSourceInfo(file.path());
    EXPECT_THAT(info, IsOk());
    return IdentityOf(*info);
  };
  const std::string was = identity();
  EXPECT_EQ(identity(), was);
  struct stat now = before;
  while (now.st_ctim.tv_sec == before.st_ctim.tv_sec &&
         now.st_ctim.tv_nsec == before.st_ctim.tv_nsec) {  // Until the kernel's clock ticks.
    std::ofstream(file.path()) << "behind";
    const timespec times[2] = {before.st_atim, before.st_mtim};
    ASSERT_EQ(::utimensat(AT_FDCWD, file.path().c_str(), times, 0), 0);
    ASSERT_EQ(::stat(file.path().c_str(), &now), 0);
  }
  EXPECT_EQ(now.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
  EXPECT_NE(identity(), was);
  EXPECT_THAT(ReadSourceInfo("/no/such/file"), StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace csidelta::incremental::source_identity_test
