#include "tests/support/csi_driver/loop_device.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tests/support/csi_driver/files.h"
#include "tests/support/csi_driver/mounts.h"

namespace csidelta::csi_driver {
namespace {

constexpr unsigned kLoopMajor = 7;
constexpr int kAttachAttemptsMax = 64;  // Other processes take free devices between our two calls.

absl::StatusOr<std::string> FreeLoopDevice() {
  ASSIGN_OR_RETURN(const UniqueFd control, OpenFile("/dev/loop-control", O_RDWR));
  const int number = ioctl(control.get(), LOOP_CTL_GET_FREE);
  if (number < 0) {
    return ErrnoStatus("get a free device from", "/dev/loop-control");
  }
  const std::string device = absl::StrCat("/dev/loop", number);
  if (mknod(device.c_str(), S_IFBLK | 0660, makedev(kLoopMajor, static_cast<unsigned>(number))) !=
          0 &&
      errno != EEXIST) {
    return ErrnoStatus("mknod", device);
  }
  return device;
}

// FALSE when another client took the device first.
absl::StatusOr<bool> Configure(const std::string& device, const UniqueFd& file) {
  ASSIGN_OR_RETURN(const UniqueFd loop, OpenFile(device, O_RDWR));
  loop_config config;
  std::memset(&config, 0, sizeof config);
  config.fd = static_cast<uint32_t>(file.get());
  if (ioctl(loop.get(), LOOP_CONFIGURE, &config) == 0) {
    return true;
  }
  return errno == EBUSY ? absl::StatusOr<bool>(false) : ErrnoStatus("configure", device);
}

template <typename Action>
absl::Status ForEachLoop(const std::string& file, int flags, Action action) {
  ASSIGN_OR_RETURN(const std::vector<std::string> devices, LoopDevicesOf(file));
  for (const std::string& device : devices) {
    ASSIGN_OR_RETURN(const UniqueFd loop, OpenFile(device, flags));
    RETURN_IF_ERROR(action(loop, device));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> LoopDevicesOf(const std::string& file) {
  std::vector<std::string> devices;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder("/sys/block"));
  for (const std::string& name : names) {
    if (!absl::StartsWith(name, "loop")) {
      continue;
    }
    // Absent while the device is not attached.
    const absl::StatusOr<std::string> backing =
        ReadFile(absl::StrCat("/sys/block/", name, "/loop/backing_file"));
    if (backing.ok() && absl::StripAsciiWhitespace(*backing) == file) {
      devices.push_back(absl::StrCat("/dev/", name));
    }
  }
  return devices;
}

absl::StatusOr<std::string> AttachLoop(const std::string& file) {
  ASSIGN_OR_RETURN(const std::vector<std::string> devices, LoopDevicesOf(file));
  if (!devices.empty()) {
    return devices.front();
  }
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenFile(file, O_RDWR));
  for (int attempt = 0; attempt < kAttachAttemptsMax; ++attempt) {
    ASSIGN_OR_RETURN(const std::string device, FreeLoopDevice());
    ASSIGN_OR_RETURN(const bool attached, Configure(device, fd));
    if (attached) {
      return device;
    }
  }
  return absl::ResourceExhaustedError("every free loop device was taken by another client");
}

absl::Status DetachLoops(const std::string& file) {
  return ForEachLoop(file, O_RDONLY, [](const UniqueFd& loop, const std::string& device) {
    const bool done = ioctl(loop.get(), LOOP_CLR_FD) == 0 || errno == ENXIO;
    return done ? absl::OkStatus() : ErrnoStatus("detach", device);
  });
}

absl::Status RefreshLoopSize(const std::string& file) {
  return ForEachLoop(file, O_RDWR, [](const UniqueFd& loop, const std::string& device) {
    const bool done = ioctl(loop.get(), LOOP_SET_CAPACITY) == 0;
    return done ? absl::OkStatus() : ErrnoStatus("resize", device);
  });
}

absl::Status FlushLoops(const std::string& file) {
  return ForEachLoop(
      file, O_RDONLY, [](const UniqueFd& loop, const std::string& device) -> absl::Status {
        ASSIGN_OR_RETURN(const std::vector<Mount> mounts, ListMounts());
        for (const Mount& mount : mounts) {
          if (mount.source == device) {
            RETURN_IF_ERROR(SyncMount(mount.target));
          }
        }
        return fsync(loop.get()) == 0 ? absl::OkStatus() : ErrnoStatus("fsync", device);
      });
}

}  // namespace csidelta::csi_driver
