#include "plugin/installer.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"

namespace csidelta::plugin {
namespace {

constexpr std::size_t kCopyBytes = std::size_t{1} << 16;
constexpr mode_t kHiddenMode = 0600;
constexpr mode_t kInstalledMode = 0755;

absl::Status Failed(absl::string_view step, absl::string_view path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(step, " ", path));
}

absl::Status CopyBytes(int from, int to, const std::string& path) {
  std::array<char, kCopyBytes> buffer;
  for (;;) {
    const ssize_t read_bytes = read(from, buffer.data(), buffer.size());
    if (read_bytes == 0) {
      return absl::OkStatus();
    }
    if (read_bytes < 0) {
      return Failed("read", "own executable");
    }
    for (ssize_t done_bytes = 0; done_bytes < read_bytes;) {
      const ssize_t written =
          write(to, buffer.data() + done_bytes, static_cast<std::size_t>(read_bytes - done_bytes));
      if (written < 0) {
        return Failed("write", path);
      }
      done_bytes += written;
    }
  }
}

absl::Status WriteCopy(int from, const std::string& path) {
  unlink(path.c_str());  // What an interrupted run left may have any mode.
  const UniqueFd to(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kHiddenMode));
  if (!to.valid()) {
    return Failed("create", path);
  }
  RETURN_IF_ERROR(CopyBytes(from, to.get(), path));
  if (fsync(to.get()) != 0) {
    return Failed("fsync", path);
  }
  // The last step before the rename: nothing that is not whole ever has an execute bit.
  if (fchmod(to.get(), kInstalledMode) != 0) {
    return Failed("chmod", path);
  }
  return absl::OkStatus();
}

// The running executable. An empty root has no /proc: there the kernel's word for the path that was
// executed must do.
int OpenSelf() {
  const int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  if (self >= 0 || errno != ENOENT) {
    return self;
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel passes the pointer as a number.
  const char* path = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  return path == nullptr ? self : open(path, O_RDONLY | O_CLOEXEC);
}

}  // namespace

absl::Status InstallSelf(const std::string& folder, absl::string_view name) {
  const UniqueFd from(OpenSelf());
  if (!from.valid()) {
    return Failed("open", "own executable");
  }
  const std::string target = absl::StrCat(folder, "/", name);
  const std::string scratch = absl::StrCat(folder, "/.", name, ".partial");
  absl::Status copied = WriteCopy(from.get(), scratch);
  if (copied.ok() && rename(scratch.c_str(), target.c_str()) != 0) {
    copied = Failed("rename to", target);
  }
  if (!copied.ok()) {
    unlink(scratch.c_str());
    return copied;
  }
  if (const UniqueFd directory(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      directory.valid()) {
    fsync(directory.get());  // Best effort: some file systems refuse it for folders.
  }
  return absl::OkStatus();
}

}  // namespace csidelta::plugin
