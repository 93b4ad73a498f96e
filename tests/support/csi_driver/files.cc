#include "tests/support/csi_driver/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace csidelta::csi_driver {
namespace {

constexpr mode_t kFileMode = 0600;
constexpr mode_t kFolderMode = 0750;
constexpr size_t kReadBytesMax = size_t{64} << 10;

absl::Status ErrnoStatus(absl::string_view verb, absl::string_view path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(verb, " ", path));
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

absl::Status Sync(const UniqueFd& fd, const std::string& path) {
  return fsync(fd.get()) == 0 ? absl::OkStatus() : ErrnoStatus("fsync", path);
}

absl::Status SyncFolder(const std::string& path) {
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenFile(path, O_RDONLY | O_DIRECTORY));
  return Sync(fd, path);
}

absl::Status WriteAll(const UniqueFd& fd, absl::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = write(fd.get(), text.data(), text.size());
    if (written < 0) {
      return ErrnoStatus("write", path);
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

// Copies [begin, end) of one file to the same place in another one.
absl::Status CopyRange(const UniqueFd& from, const UniqueFd& to, off_t begin, off_t end,
                       const std::string& path) {
  off_t source_offset = begin;
  off_t target_offset = begin;
  while (source_offset < end) {
    const ssize_t copied = copy_file_range(from.get(), &source_offset, to.get(), &target_offset,
                                           static_cast<size_t>(end - source_offset), 0);
    if (copied < 0) {
      return ErrnoStatus("copy", path);
    }
    if (copied == 0) {
      return absl::DataLossError(absl::StrCat("copy ", path, ": it became shorter"));
    }
  }
  return absl::OkStatus();
}

absl::Status CopyAllocated(const UniqueFd& from, const UniqueFd& to, const std::string& path) {
  off_t hole = 0;
  while (true) {
    const off_t data = lseek(from.get(), hole, SEEK_DATA);
    if (data < 0) {
      return errno == ENXIO ? absl::OkStatus() : ErrnoStatus("seek", path);
    }
    hole = lseek(from.get(), data, SEEK_HOLE);
    if (hole < 0) {
      return ErrnoStatus("seek", path);
    }
    RETURN_IF_ERROR(CopyRange(from, to, data, hole, path));
  }
}

}  // namespace

absl::StatusOr<UniqueFd> OpenFile(const std::string& path, int flags) {
  UniqueFd fd(open(path.c_str(), flags | O_CLOEXEC, kFileMode));
  if (fd.get() < 0) {
    return ErrnoStatus("open", path);
  }
  return fd;
}

absl::Status MakeFolder(const std::string& path) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    if (mkdir(path.substr(0, slash).c_str(), kFolderMode) != 0 && errno != EEXIST) {
      return ErrnoStatus("mkdir", path);
    }
    if (slash == std::string::npos) {
      return absl::OkStatus();
    }
  }
}

absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& path) {
  DIR* const folder = opendir(path.c_str());
  if (folder == nullptr) {
    return ErrnoStatus("list", path);
  }
  const absl::Cleanup close_folder = [folder] { closedir(folder); };
  std::vector<std::string> names;
  while (const dirent* entry = readdir(folder)) {
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") {
      names.emplace_back(name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenFile(path, O_RDONLY));
  std::string text;
  std::array<char, kReadBytesMax> buffer;
  while (true) {
    const ssize_t count = read(fd.get(), buffer.data(), buffer.size());
    if (count < 0) {
      return ErrnoStatus("read", path);
    }
    if (count == 0) {
      return text;
    }
    text.append(buffer.data(), static_cast<size_t>(count));
  }
}

absl::Status WriteFileDurably(const std::string& path, absl::string_view text) {
  const std::string partial = absl::StrCat(path, ".partial");
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenFile(partial, O_WRONLY | O_CREAT | O_TRUNC));
  RETURN_IF_ERROR(WriteAll(fd, text, partial));
  RETURN_IF_ERROR(Sync(fd, partial));
  return RenameDurably(partial, path);
}

absl::Status RenameDurably(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) != 0) {
    return ErrnoStatus("rename", from);
  }
  return SyncFolder(FolderOf(to));
}

absl::Status RemoveFile(const std::string& path) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus("remove", path);
  }
  return absl::OkStatus();
}

absl::Status CreateSparse(const std::string& path, int64_t size_bytes) {
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC));
  if (ftruncate(fd.get(), size_bytes) != 0) {
    return ErrnoStatus("truncate", path);
  }
  return Sync(fd, path);
}

absl::Status ResizeFile(const std::string& path, int64_t size_bytes) {
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenFile(path, O_WRONLY));
  if (ftruncate(fd.get(), size_bytes) != 0) {
    return ErrnoStatus("truncate", path);
  }
  return Sync(fd, path);
}

absl::Status CopySparse(const std::string& from, const std::string& to) {
  ASSIGN_OR_RETURN(const UniqueFd source, OpenFile(from, O_RDONLY));
  ASSIGN_OR_RETURN(const UniqueFd target, OpenFile(to, O_WRONLY | O_CREAT | O_TRUNC));
  if (ioctl(target.get(), FICLONE, source.get()) != 0) {
    struct stat source_stat;
    if (fstat(source.get(), &source_stat) != 0) {
      return ErrnoStatus("stat", from);
    }
    if (ftruncate(target.get(), source_stat.st_size) != 0) {
      return ErrnoStatus("truncate", to);
    }
    RETURN_IF_ERROR(CopyAllocated(source, target, from));
  }
  return Sync(target, to);
}

absl::StatusOr<FileLock> FileLock::Take(const std::string& path) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(path, O_RDWR | O_CREAT));
  while (flock(fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) {
      return ErrnoStatus("lock", path);
    }
  }
  return FileLock(std::move(fd));
}

}  // namespace csidelta::csi_driver
