#include "incremental/source_identity.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"
#include "incremental/posix_file.h"

#ifndef BLKGETDISKSEQ  // Since Linux 5.15.
#define BLKGETDISKSEQ _IOR(0x12, 128, __u64)
#endif

namespace csidelta::incremental {
namespace {

// Names of other kinds are those of what a device is made of, whatever it holds.
constexpr char kLogicalVolume[] = "LVM-";

// "" where there is none.
std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string MomentOf(const timespec& moment) {
  return absl::StrCat(moment.tv_sec, ".", moment.tv_nsec);
}

}  // namespace

absl::StatusOr<SourceFacts> ReadSourceFacts(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat found {};
  if (!fd.valid() || ::fstat(fd.get(), &found) != 0) {
    return ErrnoToStatus(errno, absl::StrCat("open ", path));
  }
  SourceFacts facts;
  facts.boot_id = FirstLine("/proc/sys/kernel/random/boot_id");
  facts.is_block_device = S_ISBLK(found.st_mode);
  if (!facts.is_block_device) {
    facts.device = found.st_dev;
    facts.inode = found.st_ino;
    facts.size_bytes = found.st_size;
    facts.modified = absl::StrCat(MomentOf(found.st_mtim), " ", MomentOf(found.st_ctim));
    return facts;
  }
  facts.device = found.st_rdev;
  uint64_t size_bytes = 0;
  if (::ioctl(fd.get(), BLKGETSIZE64, &size_bytes) != 0) {
    return ErrnoToStatus(errno, absl::StrCat("size of ", path));
  }
  facts.size_bytes = static_cast<int64_t>(size_bytes);
  if (::ioctl(fd.get(), BLKGETDISKSEQ, &facts.disk_sequence) != 0) {
    facts.disk_sequence = 0;
  }
  int read_only = 0;
  facts.read_only = ::ioctl(fd.get(), BLKROGET, &read_only) == 0 && read_only != 0;
  facts.dm_uuid = FirstLine(
      absl::StrCat("/sys/dev/block/", major(found.st_rdev), ":", minor(found.st_rdev), "/dm/uuid"));
  return facts;
}

absl::StatusOr<std::string> ContentIdentity(const std::string& path, const SourceFacts& facts) {
  if (!facts.is_block_device) {
    return absl::StrCat("file\n", facts.device, "\n", facts.inode, "\n", facts.size_bytes, "\n",
                        facts.modified);
  }
  if (facts.disk_sequence != 0 && !facts.boot_id.empty()) {
    return absl::StrCat("disk\n", facts.boot_id, "\n", facts.disk_sequence, "\n", facts.device,
                        "\n", facts.size_bytes);
  }
  if (facts.read_only && absl::StartsWith(facts.dm_uuid, kLogicalVolume)) {
    return absl::StrCat("dm\n", facts.dm_uuid, "\n", facts.size_bytes);
  }
  return absl::FailedPreconditionError(absl::StrCat(
      path,
      " may hold other bytes than the device that had this path before, and the kernel does not "
      "say so; name what it holds with --immutable-id, or leave --immutable out"));
}

}  // namespace csidelta::incremental
