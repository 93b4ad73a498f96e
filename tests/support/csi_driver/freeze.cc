#include "tests/support/csi_driver/freeze.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "tests/support/csi_driver/files.h"
#include "tests/support/csi_driver/mounts.h"

namespace csidelta::csi_driver {
namespace {

absl::StatusOr<dev_t> DeviceOf(const std::string& path) {
  struct stat stat_of_path;
  if (stat(path.c_str(), &stat_of_path) != 0) {
    return ErrnoStatus("stat", path);
  }
  return stat_of_path.st_dev;
}

}  // namespace

absl::StatusOr<Freeze> Freeze::Take(const std::string& folder) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(folder, O_RDONLY | O_DIRECTORY));
  if (ioctl(fd.get(), FIFREEZE, 0) != 0) {
    return errno == EBUSY ? absl::FailedPreconditionError(absl::StrCat(
                                "the file system of ", folder, " is frozen by another client"))
                          : ErrnoStatus("freeze", folder);
  }
  return Freeze(std::move(fd), folder);
}

Freeze::~Freeze() {
  const absl::Status status = fd_.get() < 0 ? absl::OkStatus() : Thaw();
  if (!status.ok()) {
    CSIDELTA_LOG(kError, "a file system stays frozen", {"status", status.ToString()});
  }
}

absl::Status Freeze::Thaw() {
  const UniqueFd fd = std::move(fd_);
  return ioctl(fd.get(), FITHAW, 0) == 0 ? absl::OkStatus() : ErrnoStatus("thaw", folder_);
}

absl::Status ThawLeftover(const std::string& folder) {
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenFile(folder, O_RDONLY | O_DIRECTORY));
  const bool done = ioctl(fd.get(), FITHAW, 0) == 0 || errno == EINVAL;
  return done ? absl::OkStatus() : ErrnoStatus("thaw", folder);
}

absl::Status CheckOwnFilesystem(const std::string& folder, const std::string& other) {
  ASSIGN_OR_RETURN(const bool mounted, IsMounted(folder));
  ASSIGN_OR_RETURN(const dev_t device, DeviceOf(folder));
  ASSIGN_OR_RETURN(const dev_t root_device, DeviceOf("/"));
  ASSIGN_OR_RETURN(const dev_t other_device, DeviceOf(other));
  if (!mounted || device == root_device || device == other_device) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder, " is no file system of its own; mount one there that neither / nor ",
                     other, " is in"));
  }
  return absl::OkStatus();
}

}  // namespace csidelta::csi_driver
