#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "incremental/mover/block_device.h"

namespace csidelta::incremental {

inline constexpr int64_t kFileSystemProbeBytes = int64_t{128} << 10;

// What kind of file system a volume holds that begins with these bytes, by the name that mount(8)
// knows: "ext2", "ext3", "ext4", "xfs" or "btrfs". "" when it is none of these. Pure.
std::string FileSystemOf(absl::string_view beginning);

// How many bytes that file system takes, by its own superblock; 0 when that is not known. Pure.
int64_t FileSystemBytes(absl::string_view beginning);

// The beginning of a device, at most kFileSystemProbeBytes.
absl::StatusOr<std::string> ReadBeginning(const CallContext& ctx, BlockDevice& device);

// Whether `name` is one that FileSystemOf() may return, and not "".
bool IsFileSystem(absl::string_view name);

}  // namespace csidelta::incremental
