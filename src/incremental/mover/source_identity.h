#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace csidelta::incremental {

// What the kernel says of a file or block device, as far as it tells one content from another.
struct SourceInfo {
  bool is_block_device = false;
  uint64_t device = 0;  // its own number; of a file, that of its file system
  uint64_t inode = 0;   // of a file
  int64_t size_bytes = 0;
  std::string modified;  // of a file: when its bytes were changed last, and when anything of it was
  std::string boot_id;
  // Counts each time that any disk of this machine was attached or got other media; 0: not known.
  uint64_t disk_sequence = 0;
  bool read_only = false;
  std::string dm_uuid;  // of a device-mapper device; "": none
};

// Errors of the system, by their number.
absl::StatusOr<SourceInfo> ReadSourceInfo(const std::string& path);

// A text that is another one when the source has other bytes, provided that it is not written to as
// it is: a device keeps its path and its number when the next volume snapshot takes its place, so
// these alone say nothing. FAILED_PRECONDITION, naming `path`, where the kernel does not tell.
// Pure.
absl::StatusOr<std::string> ContentIdentity(const std::string& path, const SourceInfo& info);

}  // namespace csidelta::incremental
