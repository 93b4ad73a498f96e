#include "storage/posix_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/aligned_memory.h"
#include "base/status_macros.h"

namespace csidelta::storage {
namespace {

constexpr int64_t kSmallFileBytesMax = int64_t{256} << 10;
constexpr int64_t kTransferBytesMax = int64_t{4} << 20;  // One pread(2) or pwrite(2).
constexpr int64_t kDirectBytesMin = int64_t{1} << 20;    // Below, the page cache is as quick.
constexpr int64_t kAlignedCopyBytes = int64_t{1} << 20;  // Of memory that is not aligned.
static_assert(kTransferBytesMax % kIoAlignmentBytes == 0);
static_assert(kAlignedCopyBytes % kIoAlignmentBytes == 0);

bool IsAligned(const char* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % kIoAlignmentBytes == 0;
}

bool SetDirect(int fd, bool on) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

absl::Status WriteAt(int fd, const char* bytes, int64_t length_bytes, int64_t offset_bytes) {
  while (length_bytes > 0) {
    const ssize_t count = pwrite(fd, bytes, static_cast<std::size_t>(length_bytes), offset_bytes);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return PosixError(count == 0 ? EIO : errno, "write");
    }
    bytes += count;
    offset_bytes += count;
    length_bytes -= count;
  }
  return absl::OkStatus();
}

// Writes the whole aligned blocks of `bytes` past the page cache and returns how many bytes that
// were; less, down to none, where the file system does not take it. Any rest is the caller's, who
// also hears of errors there: a full disk is full for both ways.
int64_t WriteDirect(const CallContext& ctx, int fd, absl::string_view bytes) {
  const int64_t total_bytes = RoundDown(std::ssize(bytes), kIoAlignmentBytes);
  if (std::ssize(bytes) < kDirectBytesMin || !SetDirect(fd, true)) {
    return 0;
  }
  AlignedMemory buffer;
  if (!IsAligned(bytes.data())) {
    buffer = AllocateAligned(kAlignedCopyBytes);
  }
  const int64_t step_bytes_max = buffer == nullptr ? kTransferBytesMax : kAlignedCopyBytes;
  int64_t done_bytes = 0;
  while (done_bytes < total_bytes && ctx.Check().ok()) {
    const int64_t step_bytes = std::min(total_bytes - done_bytes, step_bytes_max);
    const char* from = bytes.data() + done_bytes;
    if (buffer != nullptr) {
      std::memcpy(buffer.get(), from, static_cast<std::size_t>(step_bytes));
      from = reinterpret_cast<const char*>(buffer.get());
    }
    if (!WriteAt(fd, from, step_bytes, done_bytes).ok()) {
      break;
    }
    done_bytes += step_bytes;
  }
  SetDirect(fd, false);
  return done_bytes;
}

// Reads as much as it can of `out`, from `offset_bytes` on, past the page cache, and returns how
// much that was; less, down to none, where the file system does not give it, with an error, and at
// the end of the file. Any rest is the caller's.
int64_t ReadDirect(const CallContext& ctx, int fd, int64_t offset_bytes, absl::Span<char> out) {
  if (std::ssize(out) < kDirectBytesMin || !SetDirect(fd, true)) {
    return 0;
  }
  const AlignedMemory buffer = AllocateAligned(kAlignedCopyBytes);
  const int64_t end_bytes = offset_bytes + std::ssize(out);
  int64_t done_bytes = 0;
  while (done_bytes < std::ssize(out) && ctx.Check().ok()) {
    const int64_t from_bytes = RoundDown(offset_bytes + done_bytes, kIoAlignmentBytes);
    const int64_t wanted_bytes =
        std::min(RoundUp(end_bytes - from_bytes, kIoAlignmentBytes), kAlignedCopyBytes);
    const int64_t skipped_bytes = offset_bytes + done_bytes - from_bytes;
    const ssize_t count =
        pread(fd, buffer.get(), static_cast<std::size_t>(wanted_bytes), from_bytes);
    if (count <= skipped_bytes) {
      break;
    }
    const int64_t step_bytes = std::min(count - skipped_bytes, std::ssize(out) - done_bytes);
    std::memcpy(out.data() + done_bytes, buffer.get() + skipped_bytes,
                static_cast<std::size_t>(step_bytes));
    done_bytes += step_bytes;
  }
  SetDirect(fd, false);
  return done_bytes;
}

// 0, or why not as an errno.
int Sync(int fd) {
  while (fsync(fd) != 0) {
    if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::StatusCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::StatusCode::kResourceExhausted;
    case EBUSY:
    case ETXTBSY:
      return absl::StatusCode::kFailedPrecondition;
    case EIO:
    case ENODATA:  // What the kernel makes of a medium error.
    case EILSEQ:   // And of a checksum that does not fit.
      return absl::StatusCode::kDataLoss;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status PosixError(int error, absl::string_view what) {
  const std::string text = absl::StrCat(what, ": ", std::generic_category().message(error));
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(text);
    case EEXIST:
      return absl::AlreadyExistsError(text);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(text);
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
      return absl::ResourceExhaustedError(text);
    case EIO:
    case ESTALE:
    case ETIMEDOUT:
    case EAGAIN:
    case ENOMEM:
      return absl::UnavailableError(text);
    default:
      return absl::FailedPreconditionError(text);
  }
}

absl::Status ErrnoToStatus(int error, absl::string_view what) {
  return absl::Status(CodeOf(error),
                      absl::StrCat(what, ": ", std::generic_category().message(error)));
}

absl::StatusOr<OpenedFile> OpenRegularFile(int folder_fd, const std::string& name) {
  // O_NONBLOCK: opening a pipe that was put there must not wait for its writer.
  OpenedFile file{.fd = UniqueFd(openat(folder_fd, name.c_str(),
                                        O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)),
                  .size_bytes = 0};
  if (file.fd.get() < 0) {
    // ELOOP: a symbolic link. ENXIO: a socket or device without a driver.
    return errno == ELOOP || errno == ENXIO ? NotFollowed("open") : PosixError(errno, "open");
  }
  struct stat info {};
  if (fstat(file.fd.get(), &info) != 0) {
    return PosixError(errno, "stat");
  }
  if (!S_ISREG(info.st_mode)) {
    return S_ISDIR(info.st_mode) ? PosixError(ENOENT, "open") : NotFollowed("open");
  }
  file.size_bytes = info.st_size;
  return file;
}

absl::Status NotFollowed(absl::string_view path) {
  return absl::FailedPreconditionError(
      absl::StrCat(path,
                   " is a symbolic link or a special file, which is not followed here: what "
                   "is behind it would count as lost; put the folder or file itself there"));
}

absl::StatusOr<UniqueFd> OpenFolder(int folder_fd, const std::string& name,
                                    absl::string_view path) {
  UniqueFd fd(openat(folder_fd, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (fd.get() >= 0) {
    return fd;
  }
  // Of what is there that call may say anything; absence is believed when it is seen.
  const int error = errno;
  struct stat info {};
  if (fstatat(folder_fd, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return PosixError(errno, absl::StrCat("stat ", path));
  }
  if (S_ISREG(info.st_mode)) {
    return PosixError(ENOENT, absl::StrCat("open ", path));
  }
  if (!S_ISDIR(info.st_mode)) {
    return NotFollowed(path);
  }
  return PosixError(error == ENOENT ? ESTALE : error, absl::StrCat("open ", path));
}

absl::StatusOr<std::string> ReadBytes(const CallContext& ctx, int fd, int64_t offset_bytes,
                                      int64_t length_bytes) {
  std::string bytes(static_cast<std::size_t>(length_bytes), '\0');
  int64_t done_bytes = ReadDirect(ctx, fd, offset_bytes, absl::MakeSpan(bytes));
  while (done_bytes < length_bytes) {
    RETURN_IF_ERROR(ctx.Check());
    const int64_t step_bytes = std::min(length_bytes - done_bytes, kTransferBytesMax);
    const ssize_t count = pread(fd, bytes.data() + done_bytes, static_cast<std::size_t>(step_bytes),
                                offset_bytes + done_bytes);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return PosixError(errno, absl::StrCat("read at ", offset_bytes + done_bytes));
    }
    if (count == 0) {
      return absl::DataLossError(absl::StrCat("the file ends at ", offset_bytes + done_bytes));
    }
    done_bytes += count;
  }
  return bytes;
}

absl::StatusOr<std::string> ReadUpTo(const CallContext& ctx, int fd, int64_t size_bytes_max) {
  std::string bytes;
  std::array<char, 16384> piece;
  while (true) {
    RETURN_IF_ERROR(ctx.Check());
    const ssize_t count = read(fd, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return PosixError(errno, "read");
    }
    if (count == 0) {
      return bytes;
    }
    bytes.append(piece.data(), static_cast<std::size_t>(count));
    if (std::ssize(bytes) > size_bytes_max) {
      return absl::InvalidArgumentError(absl::StrCat("larger than ", size_bytes_max, " bytes"));
    }
  }
}

absl::StatusOr<std::optional<std::string>> ReadSmallFile(const CallContext& ctx,
                                                         const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) {
    const absl::Status status = PosixError(errno, absl::StrCat("open ", path));
    if (absl::IsNotFound(status)) {
      return std::nullopt;
    }
    return status;
  }
  ASSIGN_OR_RETURN(std::string text, ReadUpTo(ctx, fd.get(), kSmallFileBytesMax));
  return text;
}

absl::Status WriteBytes(const CallContext& ctx, int fd, absl::string_view bytes) {
  int64_t done_bytes = WriteDirect(ctx, fd, bytes);
  while (done_bytes < std::ssize(bytes)) {
    RETURN_IF_ERROR(ctx.Check());
    const int64_t step_bytes = std::min(std::ssize(bytes) - done_bytes, kTransferBytesMax);
    RETURN_IF_ERROR(WriteAt(fd, bytes.data() + done_bytes, step_bytes, done_bytes));
    done_bytes += step_bytes;
  }
  return absl::OkStatus();
}

absl::Status SyncFile(int fd, absl::string_view what) {
  const int error = Sync(fd);
  return error == 0 ? absl::OkStatus() : PosixError(error, absl::StrCat("sync ", what));
}

absl::Status SyncFolder(int fd, absl::string_view what) {
  const int error = Sync(fd);
  // What vboxsf, 9p and old CIFS answer: they keep directories as they see fit.
  const bool cannot = error == EINVAL || error == EOPNOTSUPP || error == ENOSYS || error == ENOTTY;
  return error == 0 || cannot ? absl::OkStatus() : PosixError(error, absl::StrCat("sync ", what));
}

}  // namespace csidelta::storage
