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
absl::StatusOr<UniqueFd> OpenBelow(const std::string& root, const std::string& folder) {
  UniqueFd fd(open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) {
    return PosixError(errno, absl::StrCat("open ", root));
  }
  if (folder.empty()) {
    return fd;
  }
  for (const absl::string_view segment : absl::StrSplit(folder, '/')) {
    ASSIGN_OR_RETURN(fd, OpenFolder(fd.get(), std::string(segment)));
  }
  return fd;
}

absl::StatusOr<OpenedFile> OpenObject(const std::string& root, const std::string& key) {
  const Place place = Split(key);
  const auto open = [&]() -> absl::StatusOr<OpenedFile> {
    ASSIGN_OR_RETURN(const UniqueFd folder, OpenBelow(root, place.folder));
    return OpenRegularFile(folder.get(), place.name);
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
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenBelow(above, ""));
  return SyncFile(fd.get(), above);
}

// A file with a name of its own until it is published; removed unless it was.
class UnfinishedFile {
 public:
  UnfinishedFile(const UniqueFd& folder, std::string name)
      : folder_(folder), name_(std::move(name)) {}
  ~UnfinishedFile() {
    if (exists_) {
      unlinkat(folder_.get(), name_.c_str(), 0);
    }
  }
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

  absl::Status Write(const CallContext& ctx, absl::string_view bytes) {
    fd_ = UniqueFd(openat(folder_.get(), name_.c_str(),
                          O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kUnfinishedMode));
    if (fd_.get() < 0) {
      return PosixError(errno, "create");
    }
    exists_ = true;
    RETURN_IF_ERROR(WriteBytes(ctx, fd_.get(), bytes));
    return SyncFile(fd_.get(), "file");
  }

  absl::Status Publish(const std::string& name, bool if_absent) {
    if (if_absent) {
      RETURN_IF_ERROR(PublishNew(name));
    } else if (const int error = Rename(name, 0); error != 0) {
      return PosixError(error, "rename");
    }
    RETURN_IF_ERROR(SyncFile(folder_.get(), "directory"));
    fchmod(fd_.get(), kFileMode);  // A guard against accidents; some file systems have no modes.
    return absl::OkStatus();
  }

 private:
  // 0, or why not as an errno.
  int Rename(const std::string& name, unsigned flags) {
    if (renameat2(folder_.get(), name_.c_str(), folder_.get(), name.c_str(), flags) != 0) {
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
    if (linkat(folder_.get(), name_.c_str(), folder_.get(), name.c_str(), 0) == 0) {
      return absl::OkStatus();
    }
    if (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS) {
      return absl::UnimplementedError("the file system cannot create a file only if it is absent");
    }
    return PosixError(errno, "link");
  }

  const UniqueFd& folder_;
  const std::string name_;
  UniqueFd fd_;
  bool exists_ = false;
};

struct DirCloser {
  void operator()(DIR* dir) const { closedir(dir); }
};

// What was found in a folder.
struct FoundFile {
  int folder_fd = -1;
  const char* name = nullptr;
  std::string path;  // as keys are written
  struct stat facts {};

  bool IsObject() const { return S_ISREG(facts.st_mode) && CheckKey(path).ok(); }
  bool IsFolder() const { return S_ISDIR(facts.st_mode) && CheckKey(path).ok(); }
};

// Visits all that is directly in one folder. `prefix` is its path with "/" behind, or "".
absl::Status LookInto(const CallContext& ctx, UniqueFd folder, const std::string& prefix,
                      absl::FunctionRef<absl::Status(const FoundFile&)> visit) {
  const std::unique_ptr<DIR, DirCloser> dir(fdopendir(folder.get()));
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
    FoundFile file = {.folder_fd = dirfd(dir.get()),
                      .name = entry->d_name,
                      .path = absl::StrCat(prefix, entry->d_name)};
    // What is gone meanwhile was removed by somebody who may.
    if (fstatat(file.folder_fd, file.name, &file.facts, AT_SYMLINK_NOFOLLOW) == 0) {
      RETURN_IF_ERROR(visit(file));
    }
  }
}

// Visits every regular file below one folder.
absl::Status Walk(const CallContext& ctx, UniqueFd folder, const std::string& prefix,
                  absl::FunctionRef<absl::Status(const FoundFile&)> visit) {
  return LookInto(ctx, std::move(folder), prefix, [&](const FoundFile& file) -> absl::Status {
    if (S_ISREG(file.facts.st_mode)) {
      return visit(file);
    }
    if (!file.IsFolder()) {
      return absl::OkStatus();
    }
    absl::StatusOr<UniqueFd> inner = OpenFolder(file.folder_fd, file.name);
    if (absl::IsNotFound(inner.status())) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(inner.status());
    return Walk(ctx, *std::move(inner), absl::StrCat(file.path, "/"), visit);
  });
}

absl::Time ModifiedAt(const struct stat& facts) { return absl::TimeFromTimespec(facts.st_mtim); }

// What time the file system has, which may be another machine's.
absl::StatusOr<absl::Time> TimeOfPlace(const UniqueFd& folder, const std::string& unused_name) {
  const UniqueFd fd(openat(folder.get(), unused_name.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kUnfinishedMode));
  struct stat facts {};
  const bool known = fd.valid() && fstat(fd.get(), &facts) == 0;
  const int error = errno;
  if (fd.valid()) {
    unlinkat(folder.get(), unused_name.c_str(), 0);
  }
  return known ? absl::StatusOr<absl::Time>(ModifiedAt(facts)) : PosixError(error, "create");
}

// Whether `path` is the name of an unfinished object, of ours or restic's.
bool IsUnfinished(absl::string_view path) {
  const auto mark = path.rfind(kUnfinishedMark);
  return mark != absl::string_view::npos && CheckKey(path.substr(0, mark)).ok();
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
    ASSIGN_OR_RETURN(const UniqueFd above, OpenBelow(root_, place.folder));
    if (mkdirat(above.get(), place.name.c_str(), kFolderMode) != 0 && errno != EEXIST) {
      return PosixError(errno, "make directory");
    }
    RETURN_IF_ERROR(SyncFile(above.get(), "directory"));
  }
  SetDurable(folder, true);
  return absl::OkStatus();
}

std::string FileObjectStore::UnfinishedName(const std::string& name) {
  const uint64_t number = random_.Below(std::numeric_limits<uint64_t>::max());
  return absl::StrCat(name, kUnfinishedMark, absl::Hex(number));
}

absl::Status FileObjectStore::Put(const CallContext& ctx, const std::string& key,
                                  absl::string_view bytes, const PutOptions& options) {
  RETURN_IF_ERROR(CheckPut(key, options));
  RETURN_IF_ERROR(ctx.Check());
  const Place place = Split(key);
  const auto open_folder = [&]() -> absl::StatusOr<UniqueFd> {
    RETURN_IF_ERROR(EnsureFolder(place.folder));
    return OpenBelow(root_, place.folder);
  };
  absl::StatusOr<UniqueFd> folder = open_folder();
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
  UnfinishedFile file(*folder, UnfinishedName(place.name));
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
  absl::StatusOr<std::string> bytes = ReadBytes(ctx, file.fd.get(), 0, file.size_bytes);
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
      ReadBytes(ctx, file.fd.get(), range.offset_bytes, range.length_bytes);
  return bytes.ok() ? std::move(bytes) : Annotate(bytes.status(), absl::StrCat("get ", key));
}

absl::StatusOr<ObjectInfo> FileObjectStore::Stat(const CallContext& ctx, const std::string& key) {
  RETURN_IF_ERROR(CheckKey(key));
  RETURN_IF_ERROR(ctx.Check());
  ASSIGN_OR_RETURN(const OpenedFile file, OpenObject(root_, key));
  return ObjectInfo{.key = key, .size_bytes = file.size_bytes};
}

// Hands the folder that `prefix` names to `look`; where there is none, there is nothing to see.
absl::Status FileObjectStore::InFolder(const CallContext& ctx, const std::string& prefix,
                                       absl::FunctionRef<absl::Status(UniqueFd)> look) const {
  RETURN_IF_ERROR(CheckPrefix(prefix));
  RETURN_IF_ERROR(ctx.Check());
  absl::StatusOr<UniqueFd> folder =
      OpenBelow(root_, prefix.empty() ? "" : prefix.substr(0, prefix.size() - 1));
  if (absl::IsNotFound(folder.status())) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(Annotate(folder.status(), absl::StrCat("list ", prefix)));
  return look(*std::move(folder));
}

absl::Status FileObjectStore::List(const CallContext& ctx, const std::string& prefix,
                                   absl::FunctionRef<absl::Status(const ObjectInfo&)> sink) {
  return InFolder(ctx, prefix, [&](UniqueFd folder) {
    return Walk(ctx, std::move(folder), prefix, [&](const FoundFile& file) {
      return file.IsObject() ? sink({.key = file.path, .size_bytes = file.facts.st_size})
                             : absl::OkStatus();
    });
  });
}

absl::Status FileObjectStore::ListFolder(const CallContext& ctx, const std::string& prefix,
                                         absl::FunctionRef<absl::Status(const ObjectInfo&)> sink) {
  return InFolder(ctx, prefix, [&](UniqueFd folder) {
    return LookInto(ctx, std::move(folder), prefix, [&](const FoundFile& file) {
      if (file.IsFolder()) {
        return sink({.key = absl::StrCat(file.path, "/"), .size_bytes = 0});
      }
      return file.IsObject() ? sink({.key = file.path, .size_bytes = file.facts.st_size})
                             : absl::OkStatus();
    });
  });
}

absl::Status FileObjectStore::Delete(const CallContext& ctx, const std::string& key) {
  RETURN_IF_ERROR(CheckKey(key));
  RETURN_IF_ERROR(ctx.Check());
  const Place place = Split(key);
  absl::StatusOr<UniqueFd> folder = OpenBelow(root_, place.folder);
  if (absl::IsNotFound(folder.status())) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(Annotate(folder.status(), absl::StrCat("delete ", key)));
  struct stat facts {};
  const int found = fstatat(folder->get(), place.name.c_str(), &facts, AT_SYMLINK_NOFOLLOW);
  if (found == 0 && !S_ISREG(facts.st_mode)) {
    return absl::OkStatus();
  }
  if (found != 0 || unlinkat(folder->get(), place.name.c_str(), 0) != 0) {
    const absl::Status status = PosixError(errno, absl::StrCat("delete ", key));
    return absl::IsNotFound(status) ? absl::OkStatus() : status;
  }
  return Annotate(SyncFile(folder->get(), "directory"), absl::StrCat("delete ", key));
}

absl::StatusOr<int64_t> FileObjectStore::RemoveLeftovers(const CallContext& ctx,
                                                         absl::Duration age_min) {
  RETURN_IF_ERROR(ctx.Check());
  absl::StatusOr<UniqueFd> root = OpenBelow(root_, "");
  if (absl::IsNotFound(root.status())) {
    return 0;
  }
  RETURN_IF_ERROR(root.status());
  ASSIGN_OR_RETURN(const absl::Time now, TimeOfPlace(*root, UnfinishedName("time")));
  int64_t removed = 0;
  RETURN_IF_ERROR(Walk(ctx, *std::move(root), "", [&](const FoundFile& file) {
    const bool old_enough = now - ModifiedAt(file.facts) >= age_min;
    if (IsUnfinished(file.path) && old_enough && unlinkat(file.folder_fd, file.name, 0) == 0) {
      ++removed;
    }
    return absl::OkStatus();
  }));
  return removed;
}

}  // namespace csidelta::storage
