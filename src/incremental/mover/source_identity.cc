#include "incremental/mover/source_identity.h"

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
#include "storage/posix_file.h"

#ifndef BLKGETDISKSEQ  // Since Linux 5.15.
#define BLKGETDISKSEQ _IOR(0x12, 128, __u64)
#endif

namespace csidelta::incremental {
namespace {

// Names of other kinds are those of what a device is made of, whatever it holds.
constexpr char kLogicalVolume[] = "LVM-";

// "" where none exists.
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

absl::StatusOr<SourceInfo> ReadSourceInfo(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat found {};
  if (!fd.valid() || ::fstat(fd.get(), &found) != 0) {
    return storage::ErrnoToStatus(errno, absl::StrCat("open ", path));
  }
  SourceInfo info;
  info.boot_id = FirstLine("/proc/sys/kernel/random/boot_id");
  info.is_block_device = S_ISBLK(found.st_mode);
  if (!info.is_block_device) {
    info.device = found.st_dev;
    info.inode = found.st_ino;
    info.size_bytes = found.st_size;
    info.modified = absl::StrCat(MomentOf(found.st_mtim), " ", MomentOf(found.st_ctim));
    return info;
  }
  info.device = found.st_rdev;
  uint64_t size_bytes = 0;
  if (::ioctl(fd.get(), BLKGETSIZE64, &size_bytes) != 0) {
    return storage::ErrnoToStatus(errno, absl::StrCat("size of ", path));
  }
  info.size_bytes = static_cast<int64_t>(size_bytes);
  if (::ioctl(fd.get(), BLKGETDISKSEQ, &info.disk_sequence) != 0) {
    info.disk_sequence = 0;
  }
  int read_only = 0;
  info.read_only = ::ioctl(fd.get(), BLKROGET, &read_only) == 0 && read_only != 0;
  info.dm_uuid = FirstLine(
      absl::StrCat("/sys/dev/block/", major(found.st_rdev), ":", minor(found.st_rdev), "/dm/uuid"));
  return info;
}

absl::StatusOr<std::string> ContentIdentity(const std::string& path, const SourceInfo& info) {
  if (!info.is_block_device) {
    return absl::StrCat("file\n", info.device, "\n", info.inode, "\n", info.size_bytes, "\n",
                        info.modified);
  }
  if (info.disk_sequence != 0 && !info.boot_id.empty()) {
    return absl::StrCat("disk\n", info.boot_id, "\n", info.disk_sequence, "\n", info.device, "\n",
                        info.size_bytes);
  }
  if (info.read_only && absl::StartsWith(info.dm_uuid, kLogicalVolume)) {
    return absl::StrCat("dm\n", info.dm_uuid, "\n", info.size_bytes);
  }
  return absl::FailedPreconditionError(absl::StrCat(
      path,
      " may hold other bytes than the device that had this path before, and the kernel does not "
      "say so; name what it holds with --immutable-id, or leave --immutable out"));
}

}  // namespace csidelta::incremental
