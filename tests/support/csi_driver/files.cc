#include "tests/support/csi_driver/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <optional>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace csidelta::csi_driver {
namespace {

constexpr mode_t kFileMode = 0600;
constexpr mode_t kFolderMode = 0750;
constexpr size_t kReadBytesMax = size_t{64} << 10;

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

// As CopyRange(), by way of this process.
absl::Status CopyBytes(const UniqueFd& from, const UniqueFd& to, off_t begin, off_t end,
                       const std::string& path) {
  std::vector<char> buffer(kReadBytesMax);
  for (off_t offset = begin; offset < end;) {
    const auto wanted = std::min(buffer.size(), static_cast<size_t>(end - offset));
    const ssize_t count = pread(from.get(), buffer.data(), wanted, offset);
    if (count < 0) {
      return ErrnoStatus("read", path);
    }
    if (count == 0) {
      return absl::DataLossError(absl::StrCat("copy ", path, ": it became shorter"));
    }
    const ssize_t written = pwrite(to.get(), buffer.data(), static_cast<size_t>(count), offset);
    if (written < 0) {
      return ErrnoStatus("write a copy of", path);
    }
    offset += written;
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
      return errno == EXDEV ? CopyBytes(from, to, source_offset, end, path)
                            : ErrnoStatus("copy", path);
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

// Where the bytes of a file lie, from some offset up to `end_bytes`.
struct Place {
  int64_t end_bytes = 0;
  std::optional<uint64_t> block;  // Of the first byte, on the device; none in a hole.
};

// None: the file system does not tell, or the bytes are not in a place of their own.
std::optional<Place> PlaceAt(const UniqueFd& fd, int64_t offset_bytes, int64_t end_bytes) {
  constexpr uint32_t kNoPlace = FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC |
                                FIEMAP_EXTENT_ENCODED | FIEMAP_EXTENT_NOT_ALIGNED |
                                FIEMAP_EXTENT_UNWRITTEN;
  alignas(fiemap) std::array<char, sizeof(fiemap) + sizeof(fiemap_extent)> buffer{};
  auto* const map = reinterpret_cast<fiemap*>(buffer.data());
  map->fm_start = static_cast<uint64_t>(offset_bytes);
  map->fm_length = static_cast<uint64_t>(end_bytes - offset_bytes);
  map->fm_flags = FIEMAP_FLAG_SYNC;
  map->fm_extent_count = 1;
  if (ioctl(fd.get(), FS_IOC_FIEMAP, map) != 0) {
    return std::nullopt;
  }
  if (map->fm_mapped_extents == 0) {
    return Place{.end_bytes = end_bytes, .block = std::nullopt};
  }
  const fiemap_extent& extent = map->fm_extents[0];
  const auto begin_bytes = static_cast<int64_t>(extent.fe_logical);
  if (begin_bytes > offset_bytes) {
    return Place{.end_bytes = std::min(begin_bytes, end_bytes), .block = std::nullopt};
  }
  if ((extent.fe_flags & kNoPlace) != 0) {
    return std::nullopt;
  }
  const auto into = static_cast<uint64_t>(offset_bytes - begin_bytes);
  return Place{
      .end_bytes = std::min(begin_bytes + static_cast<int64_t>(extent.fe_length), end_bytes),
      .block = extent.fe_physical + into};
}

bool OnOneDevice(const UniqueFd& a, const UniqueFd& b) {
  struct stat stat_a;
  struct stat stat_b;
  return fstat(a.get(), &stat_a) == 0 && fstat(b.get(), &stat_b) == 0 &&
         stat_a.st_dev == stat_b.st_dev;
}

}  // namespace

absl::Status ErrnoStatus(absl::string_view verb, absl::string_view path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(verb, " ", path));
}

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

int64_t SkipShared(const UniqueFd& a, const UniqueFd& b, int64_t offset_bytes, int64_t end_bytes) {
  if (!OnOneDevice(a, b)) {
    return offset_bytes;
  }
  while (offset_bytes < end_bytes) {
    const std::optional<Place> place_a = PlaceAt(a, offset_bytes, end_bytes);
    const std::optional<Place> place_b = PlaceAt(b, offset_bytes, end_bytes);
    if (!place_a.has_value() || !place_b.has_value() || place_a->block != place_b->block) {
      break;
    }
    offset_bytes = std::min(place_a->end_bytes, place_b->end_bytes);
  }
  return offset_bytes;
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
