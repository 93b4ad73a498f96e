#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "base/extent.h"
#include "incremental/block_device.h"

namespace csidelta::incremental {

// An open file or device, and what plain system calls need to know of it. A value; the descriptor
// is borrowed.
struct RawFile {
  int fd = -1;
  int64_t size_bytes = 0;
  int64_t alignment_bytes = 1;
  bool is_block_device = false;
};

// Does a whole transfer by pread and pwrite. A write whose last block is not whole reads that block
// and writes it back; a file keeps its size. Blocks. Thread-safe for transfers that share no block.
absl::Status DoTransfer(const RawFile& file, const IoRequest& request);

}  // namespace csidelta::incremental
