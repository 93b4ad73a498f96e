#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "absl/strings/string_view.h"

namespace csidelta::engine {

// The mount point in `mountinfo`, a text like /proc/self/mountinfo, at which the block device with
// this number may be written to; "" if there is none. `device_of` returns the number of the device
// at a path, or 0: some file systems show numbers of their own. Pure.
std::string MountedForWriting(absl::string_view mountinfo, dev_t device,
                              const std::function<dev_t(const std::string& path)>& device_of);

// The same for the device at `path`, by the mounts of this process; "" also if it is not a device.
std::string MountedForWriting(const std::string& path);

}  // namespace csidelta::engine
