#include "storage/file_object_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "storage/object_rules.h"
#include "storage/posix_file.h"

namespace csidelta::storage {
namespace {

constexpr mode_t kFolderMode = 0700;
constexpr mode_t kUnfinishedMode = 0600;
constexpr mode_t kFileMode = 0400;

// A key cut at its last "/".
struct Place {
  std::string folder;  // "" for the root
  std::string name;
};

Place Split(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) {
    return {.folder = "", .name = path};
  }
  return {.folder = path.substr(0, slash), .name = path.substr(slash + 1)};
}

std::string WithoutSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') {
    path.pop_back();
  }
  return path;
}

// Opens `folder` below `root`, one segment after the other, so that no symbolic link leads out.
absl::StatusOr<Fd> OpenBelow(const std::string& root, const std::string& folder) {
  Fd fd(open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.number() < 0) {
    return PosixError(errno, absl::StrCat("open ", root));
  }
  if (folder.empty()) {
    return fd;
  }
  for (const absl::string_view segment : absl::StrSplit(folder, '/')) {
    ASSIGN_OR_RETURN(fd, OpenFolder(fd.number(), std::string(segment)));
  }
  return fd;
}

absl::StatusOr<OpenedFile> OpenObject(const std::string& root, const std::string& key) {
  const Place place = Split(key);
  const auto open = [&]() -> absl::StatusOr<OpenedFile> {
    ASSIGN_OR_RETURN(const Fd folder, OpenBelow(root, place.folder));
    return OpenRegularFile(folder.number(), place.name);
  };
  absl::StatusOr<OpenedFile> file = open();
  if (absl::IsNotFound(file.status())) {
    return NoSuchObject(key);
  }
  return file.ok() ? std::move(file) : Annotate(file.status(), key);
}

// Makes the store's own directory where it is missing, with those above it.
absl::Status MakeRoot(const std::string& path) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) == 0) {
    return absl::OkStatus();
  }
  const Place place = Split(path);
  const bool is_top = place.folder.empty();
  const std::string above = !is_top ? place.folder : path.front() == '/' ? "/" : ".";
  if (!is_top) {
    RETURN_IF_ERROR(MakeRoot(above));
  }
  if (mkdir(path.c_str(), kFolderMode) != 0 && errno != EEXIST) {
    return PosixError(errno, absl::StrCat("make directory ", path));
  }
  ASSIGN_OR_RETURN(const Fd fd, OpenBelow(above, ""));
  return SyncFile(fd.number(), above);
}

// A file with a name of its own until it is published; removed unless it was.
class UnfinishedFile {
 public:
  UnfinishedFile(const Fd& folder, std::string name) : folder_(folder), name_(std::move(name)) {}
  ~UnfinishedFile() {
    if (exists_) {
      unlinkat(folder_.number(), name_.c_str(), 0);
    }
  }
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

  absl::Status Write(const CallContext& ctx, absl::string_view bytes) {
    fd_ = Fd(openat(folder_.number(), name_.c_str(),
                    O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kUnfinishedMode));
    if (fd_.number() < 0) {
      return PosixError(errno, "create");
    }
    exists_ = true;
    RETURN_IF_ERROR(WriteBytes(ctx, fd_.number(), bytes));
    return SyncFile(fd_.number(), "file");
  }

  absl::Status Publish(const std::string& name, bool if_absent) {
    if (if_absent) {
      RETURN_IF_ERROR(PublishNew(name));
    } else if (const int error = Rename(name, 0); error != 0) {
      return PosixError(error, "rename");
    }
    RETURN_IF_ERROR(SyncFile(folder_.number(), "directory"));
    fchmod(fd_.number(), kFileMode);  // A guard against accidents; some file systems have no modes.
    return absl::OkStatus();
  }

 private:
  // 0, or why not as an errno.
  int Rename(const std::string& name, unsigned flags) {
    if (renameat2(folder_.number(), name_.c_str(), folder_.number(), name.c_str(), flags) != 0) {
      return errno;
    }
    exists_ = false;
    return 0;
  }

  absl::Status PublishNew(const std::string& name) {
    const int error = Rename(name, RENAME_NOREPLACE);
    if (error == 0) {
      return absl::OkStatus();
    }
    if (error != EINVAL && error != ENOSYS) {
      return PosixError(error, "rename");
    }
    // Network file systems cannot rename so, but link(2) replaces nothing anywhere.
    if (linkat(folder_.number(), name_.c_str(), folder_.number(), name.c_str(), 0) == 0) {
      return absl::OkStatus();
    }
    if (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS) {
      return absl::UnimplementedError("the file system cannot create a file only if it is absent");
    }
    return PosixError(errno, "link");
  }

  const Fd& folder_;
  const std::string name_;
  Fd fd_;
  bool exists_ = false;
};

struct DirCloser {
  void operator()(DIR* dir) const { closedir(dir); }
};

using Sink = absl::FunctionRef<absl::Status(const ObjectInfo&)>;

// Lists what is below one folder. `prefix` is its path with "/" behind, or "".
absl::Status ListFolder(const CallContext& ctx, Fd folder, const std::string& prefix, Sink sink) {
  const std::unique_ptr<DIR, DirCloser> dir(fdopendir(folder.number()));
  if (dir == nullptr) {
    return PosixError(errno, absl::StrCat("list ", prefix));
  }
  folder.Release();
  while (true) {
    RETURN_IF_ERROR(ctx.Check());
    errno = 0;
    const dirent* entry = readdir(dir.get());
    if (entry == nullptr) {
      return errno == 0 ? absl::OkStatus() : PosixError(errno, absl::StrCat("list ", prefix));
    }
    ObjectInfo object{.key = absl::StrCat(prefix, entry->d_name), .size_bytes = 0};
    struct stat facts {};
    // What is gone meanwhile was removed by somebody who may.
    if (!CheckKey(object.key).ok() ||
        fstatat(dirfd(dir.get()), entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0) {
      continue;
    }
    if (S_ISREG(facts.st_mode)) {
      object.size_bytes = facts.st_size;
      RETURN_IF_ERROR(sink(object));
    } else if (S_ISDIR(facts.st_mode)) {
      absl::StatusOr<Fd> inner = OpenFolder(dirfd(dir.get()), entry->d_name);
      if (absl::IsNotFound(inner.status())) {
        continue;
      }
      RETURN_IF_ERROR(inner.status());
      RETURN_IF_ERROR(ListFolder(ctx, *std::move(inner), absl::StrCat(object.key, "/"), sink));
    }
  }
}

}  // namespace

FileObjectStore::FileObjectStore(std::string root, Random& random)
    : root_(WithoutSlashes(std::move(root))), random_(random) {}

bool FileObjectStore::IsDurable(const std::string& folder) const {
  std::scoped_lock lock(mutex_);
  return durable_.contains(folder);
}

void FileObjectStore::SetDurable(const std::string& folder, bool is_durable) {
  std::scoped_lock lock(mutex_);
  if (is_durable) {
    durable_.insert(folder);
  } else {
    durable_.erase(folder);
  }
}

// Makes the folder, and those above it, and their entries safe from a loss of power. A folder that
// is there already counts only when this object has synced it: its maker may not have done so yet.
absl::Status FileObjectStore::EnsureFolder(const std::string& folder) {
  if (IsDurable(folder)) {
    return absl::OkStatus();
  }
  if (folder.empty()) {
    RETURN_IF_ERROR(MakeRoot(root_));
  } else {
    const Place place = Split(folder);
    RETURN_IF_ERROR(EnsureFolder(place.folder));
    ASSIGN_OR_RETURN(const Fd above, OpenBelow(root_, place.folder));
    if (mkdirat(above.number(), place.name.c_str(), kFolderMode) != 0 && errno != EEXIST) {
      return PosixError(errno, "make directory");
    }
    RETURN_IF_ERROR(SyncFile(above.number(), "directory"));
  }
  SetDurable(folder, true);
  return absl::OkStatus();
}

absl::Status FileObjectStore::Put(const CallContext& ctx, const std::string& key,
                                  absl::string_view bytes, const PutOptions& options) {
  RETURN_IF_ERROR(CheckPut(key, options));
  RETURN_IF_ERROR(ctx.Check());
  const Place place = Split(key);
  const auto open_folder = [&]() -> absl::StatusOr<Fd> {
    RETURN_IF_ERROR(EnsureFolder(place.folder));
    return OpenBelow(root_, place.folder);
  };
  absl::StatusOr<Fd> folder = open_folder();
  if (absl::IsNotFound(folder.status())) {
    // Removed since we made it: once more, from the top.
    for (std::string gone = place.folder; !gone.empty(); gone = Split(gone).folder) {
      SetDurable(gone, false);
    }
    SetDurable("", false);
    folder = open_folder();
  }
  if (absl::IsNotFound(folder.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat("put ", key, ": a part of its path is no directory"));
  }
  RETURN_IF_ERROR(Annotate(folder.status(), absl::StrCat("put ", key)));
  const uint64_t number = random_.Below(std::numeric_limits<uint64_t>::max());
  UnfinishedFile file(*folder, absl::StrCat(place.name, kUnfinishedMark, absl::Hex(number)));
  absl::Status status = file.Write(ctx, bytes);
  if (status.ok()) {
    status = file.Publish(place.name, options.if_absent);
  }
  return absl::IsAlreadyExists(status) ? ObjectExists(key)
                                       : Annotate(status, absl::StrCat("put ", key));
}

absl::StatusOr<std::string> FileObjectStore::Get(const CallContext& ctx, const std::string& key,
                                                 int64_t size_bytes_max) {
  RETURN_IF_ERROR(CheckKey(key));
  RETURN_IF_ERROR(ctx.Check());
  ASSIGN_OR_RETURN(const OpenedFile file, OpenObject(root_, key));
  if (file.size_bytes > size_bytes_max) {
    return ObjectTooLarge(key, size_bytes_max);
  }
  absl::StatusOr<std::string> bytes = ReadBytes(ctx, file.fd.number(), 0, file.size_bytes);
  return bytes.ok() ? std::move(bytes) : Annotate(bytes.status(), absl::StrCat("get ", key));
}

absl::StatusOr<std::string> FileObjectStore::GetRange(const CallContext& ctx,
                                                      const std::string& key, ByteRange range) {
  RETURN_IF_ERROR(CheckGetRange(key, range));
  RETURN_IF_ERROR(ctx.Check());
  ASSIGN_OR_RETURN(const OpenedFile file, OpenObject(root_, key));
  if (range.offset_bytes + range.length_bytes > file.size_bytes) {
    return ObjectEndsBefore(key, range, file.size_bytes);
  }
  absl::StatusOr<std::string> bytes =
      ReadBytes(ctx, file.fd.number(), range.offset_bytes, range.length_bytes);
  return bytes.ok() ? std::move(bytes) : Annotate(bytes.status(), absl::StrCat("get ", key));
}

absl::StatusOr<ObjectInfo> FileObjectStore::Stat(const CallContext& ctx, const std::string& key) {
  RETURN_IF_ERROR(CheckKey(key));
  RETURN_IF_ERROR(ctx.Check());
  ASSIGN_OR_RETURN(const OpenedFile file, OpenObject(root_, key));
  return ObjectInfo{.key = key, .size_bytes = file.size_bytes};
}

absl::Status FileObjectStore::List(const CallContext& ctx, const std::string& prefix,
                                   absl::FunctionRef<absl::Status(const ObjectInfo&)> sink) {
  RETURN_IF_ERROR(CheckPrefix(prefix));
  RETURN_IF_ERROR(ctx.Check());
  absl::StatusOr<Fd> folder =
      OpenBelow(root_, prefix.empty() ? "" : prefix.substr(0, prefix.size() - 1));
  if (absl::IsNotFound(folder.status())) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(Annotate(folder.status(), absl::StrCat("list ", prefix)));
  return ListFolder(ctx, *std::move(folder), prefix, sink);
}

absl::Status FileObjectStore::Delete(const CallContext& ctx, const std::string& key) {
  RETURN_IF_ERROR(CheckKey(key));
  RETURN_IF_ERROR(ctx.Check());
  const Place place = Split(key);
  absl::StatusOr<Fd> folder = OpenBelow(root_, place.folder);
  if (absl::IsNotFound(folder.status())) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(Annotate(folder.status(), absl::StrCat("delete ", key)));
  struct stat facts {};
  const int found = fstatat(folder->number(), place.name.c_str(), &facts, AT_SYMLINK_NOFOLLOW);
  if (found == 0 && !S_ISREG(facts.st_mode)) {
    return absl::OkStatus();
  }
  if (found != 0 || unlinkat(folder->number(), place.name.c_str(), 0) != 0) {
    const absl::Status status = PosixError(errno, absl::StrCat("delete ", key));
    return absl::IsNotFound(status) ? absl::OkStatus() : status;
  }
  return Annotate(SyncFile(folder->number(), "directory"), absl::StrCat("delete ", key));
}

}  // namespace csidelta::storage
