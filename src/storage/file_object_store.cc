#include "storage/file_object_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "storage/object_rules.h"
#include "storage/posix_file.h"

namespace csidelta::storage {
namespace {

constexpr mode_t kOwnerFolderMode = 0700;
constexpr mode_t kOwnerFileMode = 0400;
constexpr mode_t kUnfinishedMode = 0600;
constexpr mode_t kGroupBits = 0070;
constexpr mode_t kGroupReads = 0040;
constexpr char kConfigName[] = "config";  // What restic, too, takes the modes from.

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
// NOT_FOUND where none exists, or a plain file, below which nothing can be; FAILED_PRECONDITION
// where there may be something that we do not look at.
absl::StatusOr<UniqueFd> OpenBelow(const std::string& root, const std::string& folder) {
  UniqueFd fd(open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) {
    return PosixError(errno, absl::StrCat("open ", root));
  }
  if (folder.empty()) {
    return fd;
  }
  for (const absl::string_view segment : absl::StrSplit(folder, '/')) {
    ASSIGN_OR_RETURN(fd, OpenFolder(fd.get(), std::string(segment), folder));
  }
  return fd;
}

absl::StatusOr<OpenedFile> OpenObject(const CallContext& ctx, const std::string& root,
                                      const std::string& key) {
  RETURN_IF_ERROR(ctx.Check());
  const Place place = Split(key);
  const auto open = [&]() -> absl::StatusOr<OpenedFile> {
    ASSIGN_OR_RETURN(const UniqueFd folder, OpenBelow(root, place.folder));
    return OpenRegularFile(folder.get(), place.name);
  };
  absl::StatusOr<OpenedFile> file = open();
  if (absl::IsNotFound(file.status())) {
    return NoSuchObject(key);
  }
  return Annotate(std::move(file), key);
}

// Makes the store's own directory where it is missing, with those above it.
absl::Status MakeRoot(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) == 0) {
    return absl::OkStatus();
  }
  if (errno != ENOENT) {
    return PosixError(errno, absl::StrCat("stat ", path));
  }
  const Place place = Split(path);
  const bool is_top = place.folder.empty();
  const std::string above = !is_top ? place.folder : path.front() == '/' ? "/" : ".";
  if (!is_top) {
    RETURN_IF_ERROR(MakeRoot(above));
  }
  if (mkdir(path.c_str(), kOwnerFolderMode) != 0 && errno != EEXIST) {
    return PosixError(errno, absl::StrCat("make directory ", path));
  }
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenBelow(above, ""));
  return SyncFolder(fd.get(), above);
}

// Makes a folder, and gives its group what the group may do in the one above, whatever the umask.
absl::Status MakeFolder(const UniqueFd& above, const std::string& name, bool is_shared) {
  if (mkdirat(above.get(), name.c_str(), kOwnerFolderMode) != 0) {
    return errno == EEXIST ? absl::OkStatus() : PosixError(errno, "make directory");
  }
  struct stat info {};
  if (is_shared && fstat(above.get(), &info) == 0) {
    // Some file systems have no modes.
    [[maybe_unused]] const int changed = fchmodat(
        above.get(), name.c_str(), kOwnerFolderMode | (info.st_mode & (kGroupBits | S_ISGID)), 0);
  }
  return absl::OkStatus();
}

// A file with a name of its own until it is published; removed unless it was.
class UnfinishedFile {
 public:
  UnfinishedFile(const UniqueFd& folder, std::string name, bool is_shared)
      : folder_(folder), name_(std::move(name)), is_shared_(is_shared) {}
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
    if (is_shared_) {
      fchmod(fd_.get(),
             kUnfinishedMode | kGroupReads);  // Clients that may list it may read it, too.
    }
    RETURN_IF_ERROR(WriteBytes(ctx, fd_.get(), bytes));
    return SyncFile(fd_.get(), "file");
  }

  absl::Status Publish(const std::string& name, bool if_absent) {
    if (if_absent) {
      RETURN_IF_ERROR(PublishNew(name));
    } else if (const int error = Rename(name, 0); error != 0) {
      return PosixError(error, "rename");
    }
    RETURN_IF_ERROR(SyncFolder(folder_.get(), "directory"));
    // A guard against accidents; some file systems have no modes.
    fchmod(fd_.get(), kOwnerFileMode | (is_shared_ ? kGroupReads : 0));
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
  const bool is_shared_;
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
  struct stat info {};

  bool IsObject() const { return S_ISREG(info.st_mode) && CheckKey(path).ok(); }
  bool IsFolder() const { return S_ISDIR(info.st_mode) && CheckKey(path).ok(); }
};

// Visits all that is directly in one folder. `prefix` is its path with "/" behind, or "".
absl::Status ListOneFolder(const CallContext& ctx, UniqueFd folder, const std::string& prefix,
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
    const absl::string_view name = entry->d_name;
    if (name == "." || name == "..") {
      continue;
    }
    FoundFile file = {.folder_fd = dirfd(dir.get()),
                      .name = entry->d_name,
                      .path = absl::StrCat(prefix, entry->d_name)};
    if (fstatat(file.folder_fd, file.name, &file.info, AT_SYMLINK_NOFOLLOW) == 0) {
      RETURN_IF_ERROR(visit(file));
    } else if (errno != ENOENT) {
      // Only what does not exist was removed by a client that may. A listing that leaves out what
      // cannot be looked at calls its data unused.
      return PosixError(errno, absl::StrCat("stat ", file.path));
    }
  }
}

// Visits every regular file below one folder. A link under the name of an object or a folder, in a
// folder of the store's own, hides what it leads to: that is an error, while in the root strangers
// may put what they like.
absl::Status Walk(const CallContext& ctx, UniqueFd folder, const std::string& prefix,
                  absl::FunctionRef<absl::Status(const FoundFile&)> visit) {
  return ListOneFolder(ctx, std::move(folder), prefix, [&](const FoundFile& file) -> absl::Status {
    if (S_ISREG(file.info.st_mode)) {
      return visit(file);
    }
    if (!file.IsFolder()) {
      const bool hides = S_ISLNK(file.info.st_mode) && !prefix.empty() && CheckKey(file.path).ok();
      return hides ? NotFollowed(file.path) : absl::OkStatus();
    }
    absl::StatusOr<UniqueFd> inner = OpenFolder(file.folder_fd, file.name, file.path);
    if (absl::IsNotFound(inner.status())) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(inner.status());
    return Walk(ctx, *std::move(inner), absl::StrCat(file.path, "/"), visit);
  });
}

absl::Time ModifiedAt(const struct stat& info) { return absl::TimeFromTimespec(info.st_mtim); }

// What time the file system has, which may be another machine's.
absl::StatusOr<absl::Time> TimeOfPlace(const UniqueFd& folder, const std::string& unused_name) {
  const UniqueFd fd(openat(folder.get(), unused_name.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kUnfinishedMode));
  struct stat info {};
  const bool known = fd.valid() && fstat(fd.get(), &info) == 0;
  const int error = errno;
  if (fd.valid()) {
    unlinkat(folder.get(), unused_name.c_str(), 0);
  }
  return known ? absl::StatusOr<absl::Time>(ModifiedAt(info)) : PosixError(error, "create");
}

// The key of the object that an unfinished file, of csi-delta or restic, was to become; "" when the
// path is no name of one.
absl::string_view KeyOfUnfinished(absl::string_view path) {
  const auto mark = path.rfind(kUnfinishedMark);
  if (mark == absl::string_view::npos) {
    return "";
  }
  const absl::string_view random = path.substr(mark + std::strlen(kUnfinishedMark));
  const bool is_random =
      !random.empty() && std::all_of(random.begin(), random.end(), absl::ascii_isalnum);
  return is_random && CheckKey(path.substr(0, mark)).ok() ? path.substr(0, mark) : "";
}

}  // namespace

FileObjectStore::FileObjectStore(std::string root, Random& random)
    : root_(WithoutSlashes(std::move(root))), random_(random) {}

// Whether the group of the repository may read what is stored. What is not there yet, or cannot be
// asked, keeps others out.
bool FileObjectStore::IsShared() {
  const MutexLock lock(mutex_);
  struct stat info {};
  if (!is_shared_.has_value() && stat(absl::StrCat(root_, "/", kConfigName).c_str(), &info) == 0) {
    is_shared_ = (info.st_mode & kGroupReads) != 0;
  }
  return is_shared_.value_or(false);
}

// Makes the folder, and those above it, and their entries safe from a loss of power. A folder that
// is there already counts only when this object has synced it: its maker may not have done so yet.
absl::Status FileObjectStore::EnsureFolder(const std::string& folder) {
  if (const MutexLock lock(mutex_); durable_.contains(folder)) {
    return absl::OkStatus();
  }
  if (folder.empty()) {
    RETURN_IF_ERROR(MakeRoot(root_));
  } else {
    const Place place = Split(folder);
    RETURN_IF_ERROR(EnsureFolder(place.folder));
    ASSIGN_OR_RETURN(const UniqueFd above, OpenBelow(root_, place.folder));
    RETURN_IF_ERROR(MakeFolder(above, place.name, IsShared()));
    RETURN_IF_ERROR(SyncFolder(above.get(), "directory"));
  }
  const MutexLock lock(mutex_);
  durable_.insert(folder);
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
    {
      const MutexLock lock(mutex_);
      durable_.clear();
    }
    folder = open_folder();
  }
  if (absl::IsNotFound(folder.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat("put ", key, ": a part of its path is no directory"));
  }
  RETURN_IF_ERROR(Annotate(folder.status(), absl::StrCat("put ", key)));
  UnfinishedFile file(*folder, UnfinishedName(place.name), IsShared());
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
  ASSIGN_OR_RETURN(const OpenedFile file, OpenObject(ctx, root_, key));
  if (file.size_bytes > size_bytes_max) {
    return ObjectTooLarge(key, size_bytes_max);
  }
  return Annotate(ReadBytes(ctx, file.fd.get(), 0, file.size_bytes), absl::StrCat("get ", key));
}

absl::StatusOr<std::string> FileObjectStore::GetRange(const CallContext& ctx,
                                                      const std::string& key, ByteRange range) {
  RETURN_IF_ERROR(CheckGetRange(key, range));
  ASSIGN_OR_RETURN(const OpenedFile file, OpenObject(ctx, root_, key));
  if (range.offset_bytes + range.length_bytes > file.size_bytes) {
    return ObjectEndsBefore(key, range, file.size_bytes);
  }
  return Annotate(ReadBytes(ctx, file.fd.get(), range.offset_bytes, range.length_bytes),
                  absl::StrCat("get ", key));
}

absl::StatusOr<ObjectInfo> FileObjectStore::Stat(const CallContext& ctx, const std::string& key) {
  RETURN_IF_ERROR(CheckKey(key));
  ASSIGN_OR_RETURN(const OpenedFile file, OpenObject(ctx, root_, key));
  return ObjectInfo{.key = key, .size_bytes = file.size_bytes};
}

// Hands the folder that `prefix` names to `look`; where none exists, there is nothing to see.
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
                                   ObjectSink sink) {
  return InFolder(ctx, prefix, [&](UniqueFd folder) {
    return Walk(ctx, std::move(folder), prefix, [&](const FoundFile& file) {
      return file.IsObject() ? sink({.key = file.path,
                                     .size_bytes = file.info.st_size,
                                     .modified_at = ModifiedAt(file.info)})
                             : absl::OkStatus();
    });
  });
}

absl::Status FileObjectStore::ListFolder(const CallContext& ctx, const std::string& prefix,
                                         ObjectSink sink) {
  return InFolder(ctx, prefix, [&](UniqueFd folder) {
    return ListOneFolder(ctx, std::move(folder), prefix, [&](const FoundFile& file) {
      if (file.IsFolder()) {
        return sink({.key = absl::StrCat(file.path, "/"), .size_bytes = 0});
      }
      return file.IsObject() ? sink({.key = file.path, .size_bytes = file.info.st_size})
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
  struct stat info {};
  const int found = fstatat(folder->get(), place.name.c_str(), &info, AT_SYMLINK_NOFOLLOW);
  if (found == 0 && !S_ISREG(info.st_mode)) {
    return absl::OkStatus();
  }
  if (found != 0 || unlinkat(folder->get(), place.name.c_str(), 0) != 0) {
    const absl::Status status = PosixError(errno, absl::StrCat("delete ", key));
    return absl::IsNotFound(status) ? absl::OkStatus() : status;
  }
  return Annotate(SyncFolder(folder->get(), "directory"), absl::StrCat("delete ", key));
}

absl::StatusOr<int64_t> FileObjectStore::RemoveLeftovers(const CallContext& ctx,
                                                         absl::Span<const std::string> folders,
                                                         KeyPredicate is_managed,
                                                         absl::Duration age_min) {
  RETURN_IF_ERROR(ctx.Check());
  absl::StatusOr<UniqueFd> root = OpenBelow(root_, "");
  if (absl::IsNotFound(root.status())) {
    return 0;
  }
  RETURN_IF_ERROR(root.status());
  ASSIGN_OR_RETURN(const absl::Time now, TimeOfPlace(*root, UnfinishedName(kConfigName)));
  int64_t removed = 0;
  const auto look = [&](const FoundFile& file) {
    const absl::string_view key = KeyOfUnfinished(file.path);
    if (S_ISREG(file.info.st_mode) && !key.empty() && is_managed(key) &&
        now - ModifiedAt(file.info) >= age_min && unlinkat(file.folder_fd, file.name, 0) == 0) {
      ++removed;
    }
    return absl::OkStatus();
  };
  for (const std::string& prefix : folders) {
    RETURN_IF_ERROR(InFolder(ctx, prefix, [&](UniqueFd folder) {
      return prefix.empty() ? ListOneFolder(ctx, std::move(folder), prefix, look)
                            : Walk(ctx, std::move(folder), prefix, look);
    }));
  }
  return removed;
}

}  // namespace csidelta::storage
