#include "tests/support/csi_driver/mounts.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "tests/support/csi_driver/files.h"
#include "tests/support/csi_driver/filesystem.h"

namespace csidelta::csi_driver {
namespace {

constexpr size_t kRootField = 3;
constexpr size_t kTargetField = 4;

// The kernel writes the characters that separate fields as octal numbers.
std::string Unescape(absl::string_view text) {
  return absl::StrReplaceAll(text,
                             {{"\\040", " "}, {"\\011", "\t"}, {"\\012", "\n"}, {"\\134", "\\"}});
}

}  // namespace

absl::StatusOr<std::vector<Mount>> ListMounts() {
  ASSIGN_OR_RETURN(const std::string text, ReadFile("/proc/self/mountinfo"));
  std::vector<Mount> mounts;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    // Optional fields end at " - "; type and source follow.
    const std::pair<absl::string_view, absl::string_view> halves =
        absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    const std::vector<absl::string_view> left = absl::StrSplit(halves.first, ' ');
    const std::vector<absl::string_view> right = absl::StrSplit(halves.second, ' ');
    if (left.size() > kTargetField && right.size() > 1) {
      mounts.push_back(
          {Unescape(left[kRootField]), Unescape(left[kTargetField]), Unescape(right[1])});
    }
  }
  return mounts;
}

absl::StatusOr<bool> IsMounted(const std::string& target) {
  ASSIGN_OR_RETURN(const std::vector<Mount> mounts, ListMounts());
  for (const Mount& mount : mounts) {
    if (mount.target == target) {
      return true;
    }
  }
  return false;
}

absl::Status MountFilesystem(const std::string& device, const std::string& target) {
  if (mount(device.c_str(), target.c_str(), kFilesystemType, 0, nullptr) != 0) {
    return ErrnoStatus("mount", target);
  }
  return absl::OkStatus();
}

absl::Status BindMount(const std::string& source, const std::string& target, bool read_only) {
  if (mount(source.c_str(), target.c_str(), nullptr, MS_BIND, nullptr) != 0) {
    return ErrnoStatus("bind", target);
  }
  if (read_only &&
      mount(nullptr, target.c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) != 0) {
    return ErrnoStatus("remount read-only", target);
  }
  return absl::OkStatus();
}

absl::Status Unmount(const std::string& target) {
  while (true) {
    ASSIGN_OR_RETURN(const bool mounted, IsMounted(target));
    if (!mounted) {
      return absl::OkStatus();
    }
    if (umount2(target.c_str(), UMOUNT_NOFOLLOW) != 0) {
      return ErrnoStatus("unmount", target);
    }
  }
}

absl::Status SyncMount(const std::string& target) {
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenFile(target, O_RDONLY));
  return syncfs(fd.get()) == 0 ? absl::OkStatus() : ErrnoStatus("sync", target);
}

}  // namespace csidelta::csi_driver
