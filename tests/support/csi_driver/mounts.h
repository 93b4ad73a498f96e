#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace csidelta::csi_driver {

// One line of /proc/self/mountinfo. `source` is the device of a file system ("/dev/loop3"); for a
// bind mount of a device node, `root` is the node's place in its own file system ("/loop3").
struct Mount {
  std::string root;
  std::string target;
  std::string source;
};

// The mounts of this process, in the order they were made.
absl::StatusOr<std::vector<Mount>> ListMounts();

// Whether something is mounted on `target`, an absolute path without links.
absl::StatusOr<bool> IsMounted(const std::string& target);

absl::Status MountFilesystem(const std::string& device, const std::string& target);

// Mounts `source`, a folder or a device node, on `target`. A device node keeps its own permissions:
// `read_only` is for folders.
absl::Status BindMount(const std::string& source, const std::string& target, bool read_only);

// Takes away everything that is mounted on `target`. Nothing mounted is success.
absl::Status Unmount(const std::string& target);

// Writes the dirty pages of the file system that `target` is in.
absl::Status SyncMount(const std::string& target);

}  // namespace csidelta::csi_driver
