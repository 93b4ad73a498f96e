#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace csidelta::csi_driver {

// The one file system that filesystem-mode volumes have.
inline constexpr char kFilesystemType[] = "ext4";

// Writes an empty ext4 over the whole of `path`, a file; holes stay holes. Runs mkfs.ext4; INTERNAL
// with what it said when it fails.
absl::Status MakeFilesystem(const std::string& path);

// Makes the ext4 on `device` as large as the device, `size_bytes`; nothing to do when it is.
// Unmounted, it is checked first (e2fsck) as resize2fs wants it. Mounted, it grows in place, which
// takes CAP_SYS_RESOURCE: INTERNAL without.
absl::Status GrowFilesystem(const std::string& device, int64_t size_bytes, bool mounted);

}  // namespace csidelta::csi_driver
