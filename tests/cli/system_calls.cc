#include "tests/cli/system_calls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"

// This program's own functions of these names stand before those of the system.
namespace {

using csidelta::cli::SystemCall;
using csidelta::cli::SystemCallWatch;

struct Watch {
  std::mutex mutex;
  std::string root;
  SystemCallWatch::Judge judge;
};
Watch watch;

template <typename Call>
Call* Real(const char* name) {
  return reinterpret_cast<Call*>(dlsym(RTLD_NEXT, name));
}

bool IsBelow(int fd) {
  std::array<char, 512> path{};
  return readlink(absl::StrCat("/proc/self/fd/", fd).c_str(), path.data(), path.size() - 1) > 0 &&
         strncmp(path.data(), watch.root.c_str(), watch.root.size()) == 0;
}

// What to answer instead of the system; an error is in errno already.
std::optional<int64_t> Judge(const SystemCall& call, const char* path = nullptr) {
  static thread_local bool is_judging = false;  // A judge may look into files, too.
  if (is_judging) {
    return std::nullopt;
  }
  const std::scoped_lock lock(watch.mutex);
  if (watch.root.empty() ||
      !(path != nullptr ? strncmp(path, watch.root.c_str(), watch.root.size()) == 0
                        : IsBelow(call.fd))) {
    return std::nullopt;
  }
  is_judging = true;
  const std::optional<int64_t> verdict = watch.judge(call);
  is_judging = false;
  if (verdict.has_value() && *verdict < 0) {
    errno = static_cast<int>(-*verdict);
    return -1;
  }
  return verdict;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  static auto* const real = Real<int(const char*, int, ...)>("open");
  const auto verdict = Judge({.name = "open", .fd = -1}, path);
  return verdict.has_value() ? static_cast<int>(*verdict) : real(path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  static auto* const real = Real<int(int, const char*, int, ...)>("openat");
  const auto verdict = Judge({.name = "openat", .fd = folder});
  return verdict.has_value() ? static_cast<int>(*verdict) : real(folder, path, flags, mode);
}

int fstat(int fd, struct stat* info) {
  static auto* const real = Real<int(int, struct stat*)>("fstat");
  const auto verdict = Judge({.name = "fstat", .fd = fd});
  return verdict.has_value() ? static_cast<int>(*verdict) : real(fd, info);
}

int fstatat(int folder, const char* path, struct stat* info, int flags) {
  static auto* const real = Real<int(int, const char*, struct stat*, int)>("fstatat");
  const auto verdict = Judge({.name = "fstatat", .fd = folder});
  return verdict.has_value() ? static_cast<int>(*verdict) : real(folder, path, info, flags);
}

dirent* readdir(DIR* folder) {
  static auto* const real = Real<dirent*(DIR*)>("readdir");
  return Judge({.name = "readdir", .fd = dirfd(folder)}).has_value() ? nullptr : real(folder);
}

ssize_t pread(int fd, void* bytes, size_t count, off_t offset) {
  static auto* const real = Real<ssize_t(int, void*, size_t, off_t)>("pread");
  const auto verdict = Judge({.name = "pread", .fd = fd, .size_bytes = count});
  // Fewer bytes than were asked for are true ones, too.
  return verdict.value_or(1) <= 0
             ? *verdict
             : real(fd, bytes, static_cast<size_t>(verdict.value_or(count)), offset);
}

ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  static auto* const real = Real<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  const auto verdict = Judge({.name = "pwrite", .fd = fd, .size_bytes = count});
  return verdict.value_or(1) <= 0
             ? *verdict
             : real(fd, bytes, static_cast<size_t>(verdict.value_or(count)), offset);
}

int fsync(int fd) {
  static auto* const real = Real<int(int)>("fsync");
  const auto verdict = Judge({.name = "fsync", .fd = fd});
  return verdict.has_value() ? static_cast<int>(*verdict) : real(fd);
}

int mkdirat(int folder, const char* path, mode_t mode) {
  static auto* const real = Real<int(int, const char*, mode_t)>("mkdirat");
  const auto verdict = Judge({.name = "mkdirat", .fd = folder});
  return verdict.has_value() ? static_cast<int>(*verdict) : real(folder, path, mode);
}

int renameat2(int from, const char* path, int to, const char* to_path, unsigned flags) {
  static auto* const real = Real<int(int, const char*, int, const char*, unsigned)>("renameat2");
  const auto verdict = Judge({.name = "renameat2", .fd = from});
  return verdict.has_value() ? static_cast<int>(*verdict) : real(from, path, to, to_path, flags);
}

int linkat(int from, const char* path, int to, const char* to_path, int flags) {
  static auto* const real = Real<int(int, const char*, int, const char*, int)>("linkat");
  const auto verdict = Judge({.name = "linkat", .fd = from});
  return verdict.has_value() ? static_cast<int>(*verdict) : real(from, path, to, to_path, flags);
}

int unlinkat(int folder, const char* path, int flags) {
  static auto* const real = Real<int(int, const char*, int)>("unlinkat");
  const auto verdict = Judge({.name = "unlinkat", .fd = folder});
  return verdict.has_value() ? static_cast<int>(*verdict) : real(folder, path, flags);
}

}  // extern "C"

namespace csidelta::cli {

SystemCallWatch::SystemCallWatch(std::string root, Judge judge) {
  const std::scoped_lock lock(watch.mutex);
  watch.root = std::move(root);
  watch.judge = std::move(judge);
}

SystemCallWatch::~SystemCallWatch() {
  const std::scoped_lock lock(watch.mutex);
  watch.root.clear();
  watch.judge = nullptr;
}

}  // namespace csidelta::cli
