#pragma once

#include <cstdint>

namespace csidelta::datamover {

// How much scratch space a worker may need for a volume of so many bytes: a restore, a check and a
// deletion sort the repository's index there; see docs/cli.md "Plan memory and scratch space". Of a
// volume that began small. The index has 48 bytes for each chunk, and twice as much while it is
// sorted; prune has 36 more. A third is for chunks of older backups.
constexpr int64_t ScratchBytesFor(int64_t volume_bytes) {
  constexpr int64_t kChunkBytes = int64_t{512} << 10;
  constexpr int64_t kBytesOfChunk = (2 * 48 + 36) * 4 / 3;
  return (volume_bytes / kChunkBytes + 1) * kBytesOfChunk;
}

}  // namespace csidelta::datamover
