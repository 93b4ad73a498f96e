#include "storage/file_object_store.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/status_matchers.h"

// The system calls that decide what survives a loss of power are watched, and made to fail, by
// taking the C library's place in this program. Only calls on the store under test are noted.
namespace {

struct Watch {
  bool is_on = false;
  std::vector<std::string> calls;
  std::map<std::string, int> failing;  // "pwrite": fails with this errno
  bool only_once = false;
  std::function<void()> on_write = [] {};
};
Watch watch;

// What a descriptor is: "dir", or "tmp" for a file that is still unfinished, else "file".
std::string KindOf(int fd) {
  const std::string link = absl::StrCat("/proc/self/fd/", fd);
  std::error_code error;
  const std::string path = std::filesystem::read_symlink(link, error).string();
  struct stat info {};
  fstat(fd, &info);
  if (S_ISDIR(info.st_mode)) {
    return absl::StrCat("dir ", std::filesystem::path(path).filename().string());
  }
  return path.find("-tmp-") == std::string::npos ? "file" : "tmp";
}

bool Fails(const std::string& call) {
  const auto found = watch.is_on ? watch.failing.find(call) : watch.failing.end();
  if (found == watch.failing.end()) {
    return false;
  }
  errno = found->second;
  if (watch.only_once) {
    watch.failing.erase(found);
  }
  return true;
}

// Also under the name of the call and the first word of the detail: "fsync dir".
bool Note(const std::string& call, const std::string& detail) {
  if (watch.is_on) {
    watch.calls.push_back(absl::StrCat(call, " ", detail));
  }
  return Fails(call) || Fails(absl::StrCat(call, " ", detail.substr(0, detail.find(' '))));
}

template <typename Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {
int fsync(int fd) { return Note("fsync", KindOf(fd)) ? -1 : Real<int(int)>("fsync")(fd); }

ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  using Call = ssize_t(int, const void*, size_t, off_t);
  watch.on_write();
  return Note("pwrite", KindOf(fd)) ? -1 : Real<Call>("pwrite")(fd, bytes, count, offset);
}

int renameat2(int from_fd, const char* from, int to_fd, const char* to, unsigned flags) noexcept {
  using Call = int(int, const char*, int, const char*, unsigned);
  return Note(flags == 0 ? "rename" : "rename-new", to)
             ? -1
             : Real<Call>("renameat2")(from_fd, from, to_fd, to, flags);
}

int linkat(int from_fd, const char* from, int to_fd, const char* to, int flags) noexcept {
  using Call = int(int, const char*, int, const char*, int);
  return Note("link", to) ? -1 : Real<Call>("linkat")(from_fd, from, to_fd, to, flags);
}

int mkdirat(int fd, const char* name, mode_t mode) noexcept {
  using Call = int(int, const char*, mode_t);
  return Note("mkdir", name) ? -1 : Real<Call>("mkdirat")(fd, name, mode);
}

int fstatat(int fd, const char* name, struct stat* info, int flags) noexcept {
  using Call = int(int, const char*, struct stat*, int);
  return Fails("fstatat") ? -1 : Real<Call>("fstatat")(fd, name, info, flags);
}

int openat(int fd, const char* name, int flags, ...) {
  using Call = int(int, const char*, int, ...);
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return Fails((flags & O_DIRECTORY) != 0 ? "openat dir" : "openat file")
             ? -1
             : Real<Call>("openat")(fd, name, flags, mode);
}

dirent* readdir(DIR* folder) {
  return Fails("readdir") ? nullptr : Real<dirent*(DIR*)>("readdir")(folder);
}

int unlinkat(int fd, const char* name, int flags) noexcept {
  using Call = int(int, const char*, int);
  const bool is_unfinished = std::string(name).find("-tmp-") != std::string::npos;
  return Note("unlink", is_unfinished ? "tmp" : name) ? -1
                                                      : Real<Call>("unlinkat")(fd, name, flags);
}
}  // extern "C"

namespace csidelta::storage::file_object_store_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class FileObjectStoreTest : public testing::Test {
 protected:
  FileObjectStoreTest() : store_(root_, Random::Real()) {}
  ~FileObjectStoreTest() override { watch = Watch(); }

  std::vector<std::string> Watched(const std::function<void()>& what) {
    watch.calls.clear();
    watch.is_on = true;
    what();
    watch.is_on = false;
    return watch.calls;
  }

  std::vector<std::string> Listed() {
    std::vector<std::string> keys;
    EXPECT_THAT(store_.List(ctx_, "",
                            [&](const ObjectInfo& object) {
                              keys.push_back(object.key);
                              return absl::OkStatus();
                            }),
                IsOk());
    return keys;
  }

  // Every file and folder below the root, by path.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root_)) {
      names.push_back(std::filesystem::relative(entry.path(), root_).string());
    }
    return names;
  }

  // The same as another user, which owns the store, when this one may do anything.
  template <typename What>
  auto WithoutPrivileges(What what) {
    constexpr uid_t kNoUser = 65534;
    const bool is_root = geteuid() == 0;
    if (is_root) {
      EXPECT_EQ(chown(root_.c_str(), kNoUser, kNoUser), 0);
      for (const std::string& name : Names()) {
        EXPECT_EQ(lchown((root_ + "/" + name).c_str(), kNoUser, kNoUser), 0);
      }
      EXPECT_EQ(seteuid(kNoUser), 0);
    }
    const auto result = what();
    EXPECT_EQ(is_root ? seteuid(0) : 0, 0);
    return result;
  }

  mode_t Mode(const std::string& name) const {
    struct stat info {};
    EXPECT_EQ(stat((root_ + "/" + name).c_str(), &info), 0) << name;
    return info.st_mode & 07777;
  }

  const support::ScratchFolder folder_;
  const std::string& root_ = folder_.path();
  const std::string base_ = std::filesystem::path(root_).filename().string();
  FileObjectStore store_;
  CallContext ctx_;
};

TEST_F(FileObjectStoreTest, AFileIsSafeBeforeItIsSeen) {
  ASSERT_THAT(store_.Put(ctx_, "data/ab/first", "x", {}), IsOk());
  const auto calls =
      Watched([&] { EXPECT_THAT(store_.Put(ctx_, "data/ab/one", "bytes", {}), IsOk()); });
  EXPECT_THAT(calls, ElementsAre("pwrite tmp", "fsync tmp", "rename one", "fsync dir ab"));
}

TEST_F(FileObjectStoreTest, AFileThatMustBeNewIsAsSafe) {
  const auto calls = Watched(
      [&] { EXPECT_THAT(store_.Put(ctx_, "config", "bytes", {.if_absent = true}), IsOk()); });
  EXPECT_THAT(calls,
              ElementsAre("pwrite tmp", "fsync tmp", "rename-new config", "fsync dir " + base_));
}

TEST_F(FileObjectStoreTest, FoldersAreSafeBeforeWhatIsInThem) {
  const auto put = [&] { EXPECT_THAT(store_.Put(ctx_, "data/ab/one", "x", {}), IsOk()); };
  const std::vector<std::string> first = Watched(put);
  EXPECT_THAT(first, ElementsAre("mkdir data", "fsync dir " + base_, "mkdir ab", "fsync dir data",
                                 "pwrite tmp", "fsync tmp", "rename one", "fsync dir ab"));
  // Another process may have made them a moment ago: each store object looks after them once.
  FileObjectStore other(root_, Random::Real());
  const auto again = Watched([&] { EXPECT_THAT(other.Put(ctx_, "data/ab/two", "x", {}), IsOk()); });
  EXPECT_THAT(again, ElementsAre("mkdir data", "fsync dir " + base_, "mkdir ab", "fsync dir data",
                                 "pwrite tmp", "fsync tmp", "rename two", "fsync dir ab"));
}

TEST_F(FileObjectStoreTest, ADeletionIsSafeWhenItIsAnswered) {
  ASSERT_THAT(store_.Put(ctx_, "index/one", "x", {}), IsOk());
  EXPECT_THAT(Watched([&] { EXPECT_THAT(store_.Delete(ctx_, "index/one"), IsOk()); }),
              ElementsAre("unlink one", "fsync dir index"));
}

TEST_F(FileObjectStoreTest, ModesKeepOthersOut) {
  ASSERT_THAT(store_.Put(ctx_, "data/ab/one", "x", {}), IsOk());
  EXPECT_EQ(Mode("data/ab/one"), 0400u);
  EXPECT_EQ(Mode("data/ab"), 0700u);
  EXPECT_EQ(Mode("data"), 0700u);
}

struct FailingCall {
  const char* call;
  int error;
  absl::StatusCode code;
};

// What prune does not see it takes for unused, a lock that it does not see for released.
TEST_F(FileObjectStoreTest, OnlyWhatDoesNotExistIsMissingInAListing) {
  ASSERT_THAT(store_.Put(ctx_, "snapshots/one", "x", {}), IsOk());
  const auto ignore = [](const ObjectInfo&) { return absl::OkStatus(); };
  const FailingCall cases[] = {
      {"fstatat", EIO, absl::StatusCode::kUnavailable},
      {"fstatat", ESTALE, absl::StatusCode::kUnavailable},
      {"fstatat", ETIMEDOUT, absl::StatusCode::kUnavailable},
      {"fstatat", EACCES, absl::StatusCode::kPermissionDenied},
      {"fstatat", EOVERFLOW, absl::StatusCode::kFailedPrecondition},
      {"fstatat", ENOTDIR, absl::StatusCode::kFailedPrecondition},
      {"fstatat", ENOENT, absl::StatusCode::kOk},
      {"openat dir", EIO, absl::StatusCode::kUnavailable},
      {"openat dir", ELOOP, absl::StatusCode::kFailedPrecondition},
      {"openat dir", ENOTDIR, absl::StatusCode::kFailedPrecondition},
      {"openat dir", ENOENT, absl::StatusCode::kUnavailable},  // What is there is not gone.
      {"readdir", EIO, absl::StatusCode::kUnavailable},
  };
  for (const FailingCall& each : cases) {
    watch.failing = {{each.call, each.error}};
    Watched([&] {
      EXPECT_THAT(store_.List(ctx_, "snapshots/", ignore), StatusIs(each.code)) << each.error;
      EXPECT_THAT(store_.ListFolder(ctx_, "snapshots/", ignore), StatusIs(each.code)) << each.error;
    });
  }
}

TEST_F(FileObjectStoreTest, AFolderWhoseFilesCannotBeLookedAtIsNotEmpty) {
  ASSERT_THAT(store_.Put(ctx_, "snapshots/one", "x", {}), IsOk());
  ASSERT_EQ(chmod((root_ + "/snapshots").c_str(), 0644), 0);
  const absl::Status status = WithoutPrivileges([&] {
    return store_.List(ctx_, "snapshots/", [](const ObjectInfo&) { return absl::OkStatus(); });
  });
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("snapshots/one")));
}

TEST_F(FileObjectStoreTest, AFolderBehindALinkIsAnError) {
  ASSERT_THAT(store_.Put(ctx_, "data/ab/one", "x", {}), IsOk());
  const auto listed = [&](const std::string& prefix) {
    return store_.List(ctx_, prefix, [](const ObjectInfo&) { return absl::OkStatus(); });
  };
  std::filesystem::rename(root_ + "/data/ab", root_ + "/elsewhere");
  std::filesystem::create_directory_symlink(root_ + "/elsewhere", root_ + "/data/ab");
  EXPECT_THAT(listed("data/"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("data/ab")));
  std::filesystem::create_directory_symlink(root_ + "/elsewhere", root_ + "/snapshots");
  EXPECT_THAT(listed("snapshots/"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("snapshots")));
}

TEST_F(FileObjectStoreTest, RightsOfTheGroupAreKept) {
  ASSERT_THAT(store_.Put(ctx_, "config", "x", {}), IsOk());
  ASSERT_EQ(chmod(root_.c_str(), 02770), 0);
  ASSERT_EQ(chmod((root_ + "/config").c_str(), 0440), 0);
  FileObjectStore store(root_, Random::Real());
  const mode_t before = umask(077);
  ASSERT_THAT(store.Put(ctx_, "data/ab/one", "x", {}), IsOk());
  umask(before);
  EXPECT_EQ(Mode("data"), 02770u);
  EXPECT_EQ(Mode("data/ab"), 02770u);
  EXPECT_EQ(Mode("data/ab/one"), 0440u);
}

TEST_F(FileObjectStoreTest, AFileSystemThatCannotSyncFoldersWillDo) {
  for (const int error : {EINVAL, EOPNOTSUPP, ENOTTY}) {
    watch.failing = {{"fsync dir", error}};
    Watched([&] {
      EXPECT_THAT(store_.Put(ctx_, absl::StrCat("data/", error), "x", {}), IsOk());
      EXPECT_THAT(store_.Delete(ctx_, absl::StrCat("data/", error)), IsOk());
    });
  }
  watch.failing = {{"fsync dir", EIO}};
  Watched([&] {
    EXPECT_THAT(store_.Put(ctx_, "data/one", "x", {}), StatusIs(absl::StatusCode::kUnavailable));
  });
}

TEST_F(FileObjectStoreTest, AFailedPutLeavesNothingBehind) {
  ASSERT_THAT(store_.Put(ctx_, "first", "x", {}), IsOk());
  const FailingCall cases[] = {
      {"pwrite", ENOSPC, absl::StatusCode::kResourceExhausted},
      {"pwrite", EDQUOT, absl::StatusCode::kResourceExhausted},
      {"pwrite", EIO, absl::StatusCode::kUnavailable},
      {"fsync", EIO, absl::StatusCode::kUnavailable},
      {"fsync", ENOSPC, absl::StatusCode::kResourceExhausted},
      {"rename", EACCES, absl::StatusCode::kPermissionDenied},
      {"rename", EROFS, absl::StatusCode::kPermissionDenied},
      {"rename", ESTALE, absl::StatusCode::kUnavailable},
  };
  for (const FailingCall& each : cases) {
    watch.failing = {{each.call, each.error}};
    Watched([&] {
      EXPECT_THAT(store_.Put(ctx_, "second", std::string(3 << 20, 'x'), {}), StatusIs(each.code))
          << each.call;
    });
    EXPECT_THAT(Names(), ElementsAre("first")) << each.call;
  }
}

TEST_F(FileObjectStoreTest, APutThatIsStoppedInTheMiddleWritesNoMore) {
  std::stop_source stop;
  ctx_.stop = stop.get_token();
  watch.on_write = [&] { stop.request_stop(); };
  const auto calls = Watched([&] {
    EXPECT_THAT(store_.Put(ctx_, "one", std::string(20 << 20, 'x'), {}),
                StatusIs(absl::StatusCode::kCancelled));
  });
  EXPECT_THAT(calls, ElementsAre("pwrite tmp", "unlink tmp"));
  EXPECT_THAT(Names(), IsEmpty());
}

class SameNumber : public Random {
 public:
  uint64_t Below(uint64_t) override { return 0xabc; }
};

// Another process is writing it.
TEST_F(FileObjectStoreTest, AnUnfinishedFileOfAnotherStays) {
  SameNumber random;
  FileObjectStore store(root_, random);
  std::ofstream(root_ + "/one-tmp-abc") << "half";
  EXPECT_FALSE(store.Put(ctx_, "one", "x", {}).ok());
  EXPECT_THAT(Names(), ElementsAre("one-tmp-abc"));
}

TEST_F(FileObjectStoreTest, AFileSystemWithoutDirectWritesWillDo) {
  watch.failing = {{"pwrite", EINVAL}};
  watch.only_once = true;
  const std::string bytes(3 << 20, 'x');
  Watched([&] { EXPECT_THAT(store_.Put(ctx_, "large", bytes, {}), IsOk()); });
  EXPECT_THAT(store_.Get(ctx_, "large", 4 << 20), IsOkAndHolds(bytes));
}

TEST_F(FileObjectStoreTest, NewFilesNeedNoSpecialRename) {
  watch.failing = {{"rename-new", EINVAL}};
  const auto put = [&](const std::string& bytes) {
    absl::Status status;
    Watched([&] { status = store_.Put(ctx_, "config", bytes, {.if_absent = true}); });
    return status;
  };
  EXPECT_THAT(put("first"), IsOk());
  EXPECT_THAT(put("second"), StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_THAT(store_.Get(ctx_, "config", 10), IsOkAndHolds("first"));
  EXPECT_THAT(Names(), ElementsAre("config"));
}

TEST_F(FileObjectStoreTest, SaysWhenNewFilesCannotBeGuaranteed) {
  watch.failing = {{"rename-new", ENOSYS}, {"link", EPERM}};
  Watched([&] {
    EXPECT_THAT(store_.Put(ctx_, "config", "x", {.if_absent = true}),
                StatusIs(absl::StatusCode::kUnimplemented));
  });
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(FileObjectStoreTest, UnfinishedFilesAreNotObjects) {
  ASSERT_THAT(store_.Put(ctx_, "data/one", "x", {}), IsOk());
  std::ofstream(root_ + "/data/two-tmp-0123") << "half";
  std::ofstream(root_ + "/config-tmp-1") << "half";
  EXPECT_THAT(Listed(), ElementsAre("data/one"));
}

TEST_F(FileObjectStoreTest, OldTemporaryFilesAreDeleted) {
  ASSERT_THAT(store_.Put(ctx_, "data/ab/one", "x", {}), IsOk());
  const auto write = [&](const std::string& name, std::chrono::hours age) {
    const std::string path = root_ + "/" + name;
    std::ofstream(path) << "half";
    std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - age);
  };
  write("data/ab/two-tmp-0123", std::chrono::hours(25));
  write("config-tmp-1", std::chrono::hours(25));
  write("data/ab/three-tmp-1", std::chrono::hours(23));
  write("not one-tmp-1", std::chrono::hours(25));
  write("notes", std::chrono::hours(25));
  // Strangers: by place, by name, and by what the repository says.
  std::filesystem::create_directories(root_ + "/mydocs/x");
  write("mydocs/x/report-tmp-2024", std::chrono::hours(72));
  write("data/ab/two-tmp-final.odt", std::chrono::hours(72));
  write("data/ab/holiday-tmp-1", std::chrono::hours(72));
  std::filesystem::create_directories(root_ + "/.Trash-0");
  ASSERT_EQ(chmod((root_ + "/.Trash-0").c_str(), 0), 0);
  const std::vector<std::string> folders = {"", "data/", "absent/"};
  const auto remove = [&] {
    return store_.RemoveLeftovers(
        ctx_, folders, [](absl::string_view key) { return key != "data/ab/holiday"; },
        absl::Hours(24));
  };
  EXPECT_THAT(WithoutPrivileges(remove), IsOkAndHolds(2));
  EXPECT_THAT(Names(), UnorderedElementsAre("data", "data/ab", "data/ab/one", "data/ab/three-tmp-1",
                                            "not one-tmp-1", "notes", "mydocs", "mydocs/x",
                                            "mydocs/x/report-tmp-2024", "data/ab/two-tmp-final.odt",
                                            "data/ab/holiday-tmp-1", ".Trash-0"));
  ASSERT_EQ(chmod((root_ + "/.Trash-0").c_str(), 0700), 0);
  std::filesystem::remove_all(root_);
  EXPECT_THAT(remove(), IsOkAndHolds(0));
}

TEST_F(FileObjectStoreTest, OnlyRegularFilesAreObjects) {
  ASSERT_THAT(store_.Put(ctx_, "data/one", "x", {}), IsOk());
  std::filesystem::create_symlink(root_ + "/data/one", root_ + "/link");
  std::filesystem::create_directory_symlink(root_ + "/data", root_ + "/linked");
  std::filesystem::create_symlink("/nowhere", root_ + "/dangling");
  ASSERT_EQ(mkfifo((root_ + "/pipe").c_str(), 0600), 0);
  ASSERT_EQ(mknod((root_ + "/socket").c_str(), S_IFSOCK | 0600, 0), 0);
  EXPECT_THAT(Listed(), ElementsAre("data/one"));
  for (const std::string key : {"link", "dangling", "pipe", "socket", "data", "absent"}) {
    const auto answer = key == "data" || key == "absent" ? absl::StatusCode::kNotFound
                                                         : absl::StatusCode::kFailedPrecondition;
    EXPECT_THAT(store_.Get(ctx_, key, 10), StatusIs(answer)) << key;
    EXPECT_THAT(store_.Stat(ctx_, key), StatusIs(answer)) << key;
    EXPECT_THAT(store_.Delete(ctx_, key), IsOk()) << key;
  }
  EXPECT_THAT(store_.Stat(ctx_, "linked/one"), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(store_.Delete(ctx_, "linked/one"), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_TRUE(std::filesystem::is_symlink(root_ + "/link"));
  EXPECT_TRUE(std::filesystem::exists(root_ + "/linked/one"));
}

TEST_F(FileObjectStoreTest, NothingIsWrittenThroughALink) {
  const support::ScratchFolder outside;
  std::filesystem::create_directory_symlink(outside.path(), root_ + "/data");
  EXPECT_THAT(store_.Put(ctx_, "data/one", "x", {}),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_TRUE(std::filesystem::is_empty(outside.path()));
}

TEST_F(FileObjectStoreTest, TheRootMayBeALink) {
  const std::string link = root_ + "-link";
  std::filesystem::create_directory_symlink(root_, link);
  FileObjectStore store(link + "/", Random::Real());
  EXPECT_THAT(store.Put(ctx_, "data/one", "x", {}), IsOk());
  EXPECT_THAT(Listed(), ElementsAre("data/one"));
  EXPECT_EQ(store.Describe(), link);
  std::filesystem::remove(link);
}

TEST_F(FileObjectStoreTest, AFolderThatWasRemovedIsMadeAgain) {
  ASSERT_THAT(store_.Put(ctx_, "data/ab/one", "x", {}), IsOk());
  std::filesystem::remove_all(root_);
  EXPECT_THAT(Listed(), IsEmpty());
  EXPECT_THAT(store_.Put(ctx_, "data/ab/two", "x", {}), IsOk());
  EXPECT_THAT(Listed(), ElementsAre("data/ab/two"));
}

TEST_F(FileObjectStoreTest, AnObjectIsNoFolder) {
  ASSERT_THAT(store_.Put(ctx_, "one", "x", {}), IsOk());
  EXPECT_THAT(store_.Put(ctx_, "one/two", "x", {}),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace csidelta::storage::file_object_store_test
