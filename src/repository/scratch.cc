#include "repository/scratch.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "storage/posix_file.h"

namespace csidelta::repository {
namespace {

// A file that has no name at any time, or where the file system cannot, one that loses it at once.
int OpenNameless(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) {
    return fd;
  }
  std::string path = absl::StrCat(folder, "/csi-delta-XXXXXX");
  const int named = ::mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) {
    ::unlink(path.c_str());
  }
  return named;
}

}  // namespace

void ScratchSpace::Count(int64_t change_bytes) {
  const int64_t now = now_bytes_ += change_bytes;
  int64_t peak = peak_bytes_;
  while (now > peak && !peak_bytes_.compare_exchange_weak(peak, now)) {
  }
}

absl::StatusOr<std::unique_ptr<ScratchFile>> ScratchFile::Make(ScratchSpace& space) {
  UniqueFd fd(OpenNameless(space.options().folder));
  const int error = errno;
  std::unique_ptr<ScratchFile> file(new ScratchFile(space, std::move(fd)));
  if (file->fd_.get() < 0) {
    return file->Explain(storage::PosixError(error, "open"));
  }
  return file;
}

ScratchFile::~ScratchFile() { space_.Count(-held_bytes_); }

absl::Status ScratchFile::Explain(const absl::Status& status) const {
  // Never one that speaks of damage in the repository.
  const absl::StatusCode code = absl::IsResourceExhausted(status)
                                    ? absl::StatusCode::kResourceExhausted
                                    : absl::StatusCode::kInternal;
  return absl::Status(
      code, absl::StrCat("a scratch file in ", space_.options().folder, ": ", status.message(),
                         "; name a folder with room with --scratch-dir or TMPDIR"));
}

absl::StatusOr<int64_t> ScratchFile::Append(absl::string_view bytes) {
  const auto length_bytes = static_cast<int64_t>(bytes.size());
  const int64_t begin_bytes = end_bytes_.fetch_add(length_bytes);
  held_bytes_ += length_bytes;
  space_.Count(length_bytes);
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::pwrite(fd_.get(), bytes.data() + done, bytes.size() - done,
                                   begin_bytes + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      const int error = count == 0 ? ENOSPC : errno == EFBIG ? ENOSPC : errno;
      return Explain(storage::PosixError(error, "write"));
    }
    done += static_cast<std::size_t>(count);
  }
  // So that pages can be given up when memory is short.
  ::sync_file_range(fd_.get(), begin_bytes, length_bytes, SYNC_FILE_RANGE_WRITE);
  return begin_bytes;
}

absl::Status ScratchFile::Read(int64_t offset_bytes, absl::Span<char> out) const {
  // What was appended is read, and nothing else.
  CSIDELTA_CHECK(offset_bytes >= 0 && offset_bytes + std::ssize(out) <= end_bytes_);
  for (std::size_t done = 0; done < out.size();) {
    const ssize_t count = ::pread(fd_.get(), out.data() + done, out.size() - done,
                                  offset_bytes + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return Explain(storage::PosixError(count == 0 ? EIO : errno, "read"));
    }
    done += static_cast<std::size_t>(count);
  }
  return absl::OkStatus();
}

void ScratchFile::Release(int64_t offset_bytes, int64_t length_bytes) {
  CSIDELTA_CHECK(offset_bytes >= 0 && length_bytes >= 0);
  if (::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset_bytes,
                  length_bytes) == 0) {
    held_bytes_ -= length_bytes;
    CSIDELTA_CHECK(held_bytes_ >= 0);  // No byte is given back twice.
    space_.Count(-length_bytes);
  }
}

}  // namespace csidelta::repository
