#include "incremental/mover/file_block_device.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "incremental/mover/thread_queue.h"

namespace csidelta::incremental {
namespace {

// One call to the kernel, so that a stop is seen between calls.
constexpr int64_t kZeroSliceBytes = int64_t{1} << 30;
constexpr int64_t kZeroWriteBytes = int64_t{1} << 20;
constexpr mode_t kNewFileMode = 0600;

struct Opened {
  UniqueFd file;
  bool direct = false;
  bool created = false;
};

// A device that must not be opened is a matter of its group, or in a Pod of the node's settings.
absl::Status CannotOpen(const std::string& path, int error) {
  absl::Status status = storage::ErrnoToStatus(error, absl::StrCat("open ", path));
  struct stat info {};
  if (error != EACCES || ::stat(path.c_str(), &info) != 0 || !S_ISBLK(info.st_mode)) {
    return status;
  }
  return absl::Status(
      status.code(),
      absl::StrCat(
          status.message(), ": the device belongs to user ", info.st_uid, " and group ",
          info.st_gid, " with mode ", absl::StrFormat("%04o", info.st_mode & 07777),
          "; be in that group, in a Pod by supplementalGroups, or have the container "
          "runtime give devices to the Pod's user: device_ownership_from_security_context"));
}

// Direct where that is possible.
absl::StatusOr<Opened> OpenPath(const std::string& path, int flags) {
  for (const bool direct : {true, false}) {
    const int wanted = flags | O_CLOEXEC | (direct ? O_DIRECT : 0);
    UniqueFd file(::open(path.c_str(), wanted, kNewFileMode));
    if (file.valid()) {
      return Opened{.file = std::move(file), .direct = direct};
    }
    if (errno != EINVAL) {
      return CannotOpen(path, errno);
    }
  }
  return storage::ErrnoToStatus(EINVAL, absl::StrCat("open ", path));
}

absl::Status NeitherDeviceNorFile(const std::string& path) {
  return absl::InvalidArgumentError(absl::StrCat(path, " is neither device nor image file"));
}

// Whether `path` is a device or a file, as st_mode; 0 when there is nothing.
absl::StatusOr<mode_t> ModeOf(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? absl::StatusOr<mode_t>(mode_t{0})
                           : storage::ErrnoToStatus(errno, absl::StrCat("stat ", path));
  }
  return S_ISREG(info.st_mode) || S_ISBLK(info.st_mode) ? absl::StatusOr<mode_t>(info.st_mode)
                                                        : NeitherDeviceNorFile(path);
}

absl::StatusOr<Opened> OpenTarget(const std::string& path) {
  ASSIGN_OR_RETURN(const mode_t mode, ModeOf(path));
  if (mode == 0) {
    ASSIGN_OR_RETURN(Opened made, OpenPath(path, O_RDWR | O_CREAT | O_EXCL));
    made.created = true;
    return made;
  }
  // On a device O_EXCL asks the kernel whether a mount, a mapping or another program holds it.
  absl::StatusOr<Opened> opened = OpenPath(path, O_RDWR | (S_ISBLK(mode) ? O_EXCL : 0));
  if (absl::IsFailedPrecondition(opened.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat(opened.status().message(), "; unmount it, or end the program that holds it"));
  }
  return opened;
}

// What direct I/O on a file must be aligned to, by the kernel's word; nearly all file systems take
// the block size of their device, and every one takes kIoAlignmentBytes.
int64_t FileAlignment(int fd) {
#ifdef STATX_DIOALIGN
  struct statx info {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) == 0 &&
      (info.stx_mask & STATX_DIOALIGN) != 0 && info.stx_dio_offset_align > 0) {
    return info.stx_dio_offset_align;
  }
#else
  static_cast<void>(fd);
#endif
  return kIoAlignmentBytes;
}

// What calls answer that a kernel, a file system or a device does not have.
bool CannotDo(int error) {
  return error == EOPNOTSUPP || error == ENOSYS || error == EINVAL || error == ENOTTY;
}

absl::Status SyncFolderOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const UniqueFd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.valid() && ::fsync(opened.get()) == 0) {
    return absl::OkStatus();
  }
  // Some file systems cannot sync folders; they keep them as they see fit.
  return CannotDo(errno) ? absl::OkStatus()
                         : storage::ErrnoToStatus(errno, absl::StrCat("sync folder ", folder));
}

}  // namespace

absl::Status FileBlockDevice::Examine(bool direct) {
  struct stat info {};
  if (::fstat(file_.get(), &info) != 0) {
    return storage::ErrnoToStatus(errno, absl::StrCat("stat ", path_));
  }
  info_.is_block_device = S_ISBLK(info.st_mode);
  if (info_.is_block_device) {
    uint64_t size_bytes = 0;
    int block_bytes = 0;
    if (::ioctl(file_.get(), BLKGETSIZE64, &size_bytes) != 0 ||
        ::ioctl(file_.get(), BLKSSZGET, &block_bytes) != 0) {
      return storage::ErrnoToStatus(errno, absl::StrCat("ask for the size of ", path_));
    }
    info_.size_bytes = static_cast<int64_t>(size_bytes);
    info_.alignment_bytes = block_bytes;
  } else if (S_ISREG(info.st_mode)) {
    info_.size_bytes = info.st_size;
    info_.alignment_bytes = direct ? FileAlignment(file_.get()) : 1;
  } else {
    return NeitherDeviceNorFile(path_);
  }
  if (info_.alignment_bytes < 1 || kIoAlignmentBytes % info_.alignment_bytes != 0) {
    // Blocks that are larger than what is written at a time: the page cache puts them together.
    const int flags = ::fcntl(file_.get(), F_GETFL);
    if (flags < 0 || ::fcntl(file_.get(), F_SETFL, flags & ~O_DIRECT) != 0) {
      return storage::ErrnoToStatus(errno, absl::StrCat("leave direct transfers of ", path_));
    }
    direct = false;
    info_.alignment_bytes = 1;
  }
  info_.engine = direct ? "threads" : "threads, buffered";
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<FileBlockDevice>> FileBlockDevice::OpenForRead(
    const std::string& path) {
  RETURN_IF_ERROR(ModeOf(path).status());
  ASSIGN_OR_RETURN(Opened opened, OpenPath(path, O_RDONLY));
  // Not make_unique: the constructor is private.
  std::unique_ptr<FileBlockDevice> device(new FileBlockDevice(path, std::move(opened.file)));
  RETURN_IF_ERROR(device->Examine(opened.direct));
  return device;
}

absl::StatusOr<std::unique_ptr<FileBlockDevice>> FileBlockDevice::OpenForWrite(
    const std::string& path, int64_t volume_bytes) {
  CSIDELTA_CHECK(volume_bytes >= 0);
  ASSIGN_OR_RETURN(Opened opened, OpenTarget(path));
  std::unique_ptr<FileBlockDevice> device(new FileBlockDevice(path, std::move(opened.file)));
  device->created_ = opened.created;
  RETURN_IF_ERROR(device->Examine(opened.direct));
  DeviceInfo& info = device->info_;
  if (!info.is_block_device && info.size_bytes == 0 && volume_bytes > 0) {
    if (::ftruncate(device->file_.get(), volume_bytes) != 0) {
      return storage::ErrnoToStatus(errno,
                                    absl::StrCat("make ", path, " of ", volume_bytes, " bytes"));
    }
    info.size_bytes = volume_bytes;
  }
  if (info.size_bytes < volume_bytes) {
    return absl::OutOfRangeError(
        absl::StrCat(path, " has ", info.size_bytes, " bytes, the volume ", volume_bytes));
  }
  return device;
}

absl::StatusOr<std::unique_ptr<IoQueue>> FileBlockDevice::OpenQueue(int depth) {
  return std::make_unique<ThreadQueue>(OpenFile{file_.get(), info_}, depth);
}

// What a kernel call that makes zeros has answered; UNIMPLEMENTED when the kernel cannot.
absl::Status FileBlockDevice::ZeroAnswer(int result, const Extent& extent) {
  if (result == 0) {
    return absl::OkStatus();
  }
  if (CannotDo(errno)) {
    return absl::UnimplementedError("no kernel call makes zeros here");
  }
  return storage::ErrnoToStatus(errno, absl::StrCat("make zeros at offset ", extent.offset_bytes));
}

// Gives the space back: of a file, and of a device where zeros that are not stored are certain.
absl::Status FileBlockDevice::ZeroByHole(const Extent& extent) {
  return ZeroAnswer(::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                extent.offset_bytes, extent.length_bytes),
                    extent);
}

// Makes zeros that take space, so only where something else is: a thin volume stays thin.
absl::Status FileBlockDevice::ZeroWhatIsNot(const CallContext& ctx, const Extent& extent) {
  AlignedBuffer memory(std::min(kZeroWriteBytes, extent.length_bytes));
  for (int64_t at = extent.offset_bytes; at < extent.end_bytes(); at += kZeroWriteBytes) {
    RETURN_IF_ERROR(ctx.Check());
    const Extent piece{at, std::min(kZeroWriteBytes, extent.end_bytes() - at)};
    // What does not read is written: that may heal a bad block.
    const absl::Status read = DoTransfer({file_.get(), info_}, {.kind = IoKind::kRead,
                                                                .offset_bytes = piece.offset_bytes,
                                                                .length_bytes = piece.length_bytes,
                                                                .memory = memory.data()});
    if (read.ok() && IsZero(memory.View(piece.length_bytes))) {
      continue;
    }
    uint64_t range[2] = {static_cast<uint64_t>(piece.offset_bytes),
                         static_cast<uint64_t>(piece.length_bytes)};
    absl::Status status = info_.is_block_device
                              ? ZeroAnswer(::ioctl(file_.get(), BLKZEROOUT, range), piece)
                              : absl::UnimplementedError("a file");
    if (absl::IsUnimplemented(status)) {
      status = ZeroByWriting(ctx, piece);
    }
    RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

absl::Status FileBlockDevice::ZeroByWriting(const CallContext& ctx, const Extent& extent) {
  AlignedBuffer zeros(std::min(kZeroWriteBytes, extent.length_bytes));
  std::memset(zeros.data(), 0, static_cast<std::size_t>(zeros.capacity_bytes()));
  for (int64_t at = extent.offset_bytes; at < extent.end_bytes(); at += kZeroWriteBytes) {
    RETURN_IF_ERROR(ctx.Check());
    RETURN_IF_ERROR(DoTransfer({file_.get(), info_},
                               {.kind = IoKind::kWrite,
                                .offset_bytes = at,
                                .length_bytes = std::min(kZeroWriteBytes, extent.end_bytes() - at),
                                .memory = zeros.data()}));
  }
  return absl::OkStatus();
}

absl::Status FileBlockDevice::MakeZero(const CallContext& ctx, const Extent& extent) {
  CSIDELTA_CHECK(extent.offset_bytes >= 0 && extent.end_bytes() <= info_.size_bytes);
  // The kernel takes whole blocks; a tail that is none can only be written.
  const int64_t tail = extent.end_bytes() == info_.size_bytes && !info_.is_block_device
                           ? 0
                           : extent.length_bytes % info_.alignment_bytes;
  const int64_t end = extent.end_bytes() - tail;
  for (int64_t at = extent.offset_bytes; at < end; at += kZeroSliceBytes) {
    RETURN_IF_ERROR(ctx.Check());
    const Extent slice{at, std::min(kZeroSliceBytes, end - at)};
    absl::Status status = ZeroByHole(slice);
    if (absl::IsUnimplemented(status)) {
      status = ZeroWhatIsNot(ctx, slice);
    }
    RETURN_IF_ERROR(status);
  }
  return tail == 0 ? absl::OkStatus() : ZeroByWriting(ctx, {end, tail});
}

absl::Status FileBlockDevice::Flush(const CallContext& ctx) {
  RETURN_IF_ERROR(ctx.Check());
  if (::fsync(file_.get()) != 0) {
    return storage::ErrnoToStatus(errno, absl::StrCat("sync ", path_));
  }
  return created_ ? SyncFolderOf(path_) : absl::OkStatus();
}

}  // namespace csidelta::incremental
