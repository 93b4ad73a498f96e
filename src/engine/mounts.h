#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "absl/strings/string_view.h"

namespace csidelta::engine {

// Where in `mountinfo`, a text as /proc/self/mountinfo has it, the block device with this number is
// mounted such that its file system may be written to; "" for nowhere. `device_of` says the number
// of the device at a path, 0 for none: some file systems show numbers of their own. Pure.
std::string MountedForWriting(absl::string_view mountinfo, dev_t device,
                              const std::function<dev_t(const std::string& path)>& device_of);

// The same for the device at `path`, as this process sees the mounts; "" also when it is none.
std::string MountedForWriting(const std::string& path);

}  // namespace csidelta::engine
