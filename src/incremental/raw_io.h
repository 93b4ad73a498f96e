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

// The error of a transfer that returned `error` at `offset_bytes`.
absl::Status TransferError(IoKind kind, int64_t offset_bytes, int error);
// The error of a file that ended before it should.
absl::Status EarlyEnd(IoKind kind, int64_t offset_bytes);

// How many bytes of `request` one aligned system call can move: a read is rounded up to the
// alignment, a write's tail that is not aligned is left for WriteTail().
int64_t DirectLength(const RawFile& file, const IoRequest& request);

// Does a whole transfer by pread and pwrite. Blocks. Thread-safe for transfers that share no block.
absl::Status DoTransfer(const RawFile& file, const IoRequest& request);

// Writes the last bytes of `request` that DirectLength() leaves, by reading the block they are in
// and writing it back; a file keeps its size. Nothing to do when none exist. Blocks.
absl::Status WriteTail(const RawFile& file, const IoRequest& request);

}  // namespace csidelta::incremental
