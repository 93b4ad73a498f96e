#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace csidelta::csi_driver {

// Loop devices, asked of the kernel each time: nothing is remembered here, so nothing is lost with
// the process. Device nodes are made when no udev does it. Needs root. Thread-safe.

// The devices ("/dev/loop3") whose backing file is `file`, an absolute path without links.
absl::StatusOr<std::vector<std::string>> LoopDevicesOf(const std::string& file);

// The device of `file`; attaches one when none exists.
absl::StatusOr<std::string> AttachLoop(const std::string& file);

// Detaches every device of `file`. One that is still open somewhere goes when it is closed.
absl::Status DetachLoops(const std::string& file);

// Makes every device of `file` as long as the file is now.
absl::Status RefreshLoopSize(const std::string& file);

// Writes what the kernel holds back for a file system on the device, and for the device itself, to
// `file`. Nothing to do when no device is attached.
absl::Status FlushLoops(const std::string& file);

}  // namespace csidelta::csi_driver
