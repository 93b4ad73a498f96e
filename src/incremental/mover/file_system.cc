#include "incremental/mover/file_system.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>

#include "base/status_macros.h"
#include "incremental/mover/aligned_buffer.h"
#include "repository/byte_buffer.h"

namespace csidelta::incremental {
namespace {

constexpr std::array<absl::string_view, 5> kNames = {"ext2", "ext3", "ext4", "xfs", "btrfs"};

constexpr std::size_t kExtSuperblock = 1024;
constexpr std::size_t kExtMagic = kExtSuperblock + 0x38;
constexpr std::size_t kExtCompatible = kExtSuperblock + 0x5c;
constexpr std::size_t kExtIncompatible = kExtSuperblock + 0x60;
constexpr std::size_t kExtReadOnlyCompatible = kExtSuperblock + 0x64;
constexpr uint32_t kHasJournal = 0x4;
// What ext3 already had; anything else is ext4's.
constexpr uint32_t kIncompatibleOfExt3 = 0x2 | 0x4 | 0x10;
constexpr uint32_t kReadOnlyCompatibleOfExt3 = 0x1 | 0x2 | 0x4;

constexpr std::size_t kExtBlocks = kExtSuperblock + 0x4;
constexpr std::size_t kExtLogBlockBytes = kExtSuperblock + 0x18;  // 0: 1 KiB
constexpr std::size_t kExtBlocksHigh = kExtSuperblock + 0x150;
constexpr uint32_t kHas64Bit = 0x80;
constexpr uint32_t kExtLogBlockBytesMax = 6;

constexpr absl::string_view kXfsMagic = "XFSB";
constexpr std::size_t kXfsBlockBytes = 0x4;  // big-endian, as all of its numbers
constexpr std::size_t kXfsBlocks = 0x8;
constexpr std::size_t kBtrfsMagicAt = 0x10040;
constexpr std::size_t kBtrfsBytesOfDevice = 0x100d1;  // of this one, where it has several
constexpr absl::string_view kBtrfsMagic = "_BHRfS_M";

bool HasAt(absl::string_view bytes, std::size_t offset, absl::string_view wanted) {
  return bytes.size() >= offset + wanted.size() && bytes.substr(offset, wanted.size()) == wanted;
}

uint64_t LittleEndian64(absl::string_view bytes, std::size_t at) {
  return repository::ReadLe32(bytes, at) | (uint64_t{repository::ReadLe32(bytes, at + 4)} << 32);
}

// 0 for what no volume can have.
int64_t Product(uint64_t blocks, uint64_t block_bytes) {
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  return block_bytes == 0 || blocks > kMax / block_bytes
             ? 0
             : static_cast<int64_t>(blocks * block_bytes);
}

}  // namespace

std::string FileSystemOf(absl::string_view beginning) {
  if (HasAt(beginning, 0, kXfsMagic)) {
    return "xfs";
  }
  if (HasAt(beginning, kBtrfsMagicAt, kBtrfsMagic)) {
    return "btrfs";
  }
  if (beginning.size() < kExtReadOnlyCompatible + 4 || !HasAt(beginning, kExtMagic, "\x53\xef")) {
    return "";
  }
  const bool is_newer =
      (repository::ReadLe32(beginning, kExtIncompatible) & ~kIncompatibleOfExt3) != 0 ||
      (repository::ReadLe32(beginning, kExtReadOnlyCompatible) & ~kReadOnlyCompatibleOfExt3) != 0;
  if (is_newer) {
    return "ext4";
  }
  return (repository::ReadLe32(beginning, kExtCompatible) & kHasJournal) != 0 ? "ext3" : "ext2";
}

int64_t FileSystemBytes(absl::string_view beginning) {
  const std::string name = FileSystemOf(beginning);
  if (name.empty() || beginning.size() < kFileSystemProbeBytes) {
    return 0;
  }
  if (name == "xfs") {
    return Product(__builtin_bswap64(LittleEndian64(beginning, kXfsBlocks)),
                   __builtin_bswap32(repository::ReadLe32(beginning, kXfsBlockBytes)));
  }
  if (name == "btrfs") {
    return Product(LittleEndian64(beginning, kBtrfsBytesOfDevice), 1);
  }
  const bool has_64_bit = (repository::ReadLe32(beginning, kExtIncompatible) & kHas64Bit) != 0;
  const uint64_t high = has_64_bit ? repository::ReadLe32(beginning, kExtBlocksHigh) : 0;
  const uint32_t log_bytes = repository::ReadLe32(beginning, kExtLogBlockBytes);
  return Product((high << 32) | repository::ReadLe32(beginning, kExtBlocks),
                 log_bytes > kExtLogBlockBytesMax ? 0 : uint64_t{1024} << log_bytes);
}

absl::StatusOr<std::string> ReadBeginning(const CallContext& ctx, BlockDevice& device) {
  const int64_t alignment_bytes = device.info().alignment_bytes;
  const int64_t length_bytes =
      std::min(kFileSystemProbeBytes, device.info().size_bytes / alignment_bytes * alignment_bytes);
  if (length_bytes == 0) {
    return "";
  }
  const AlignedBuffer memory(length_bytes);
  ASSIGN_OR_RETURN(const std::unique_ptr<IoQueue> queue, device.OpenQueue(1));
  RETURN_IF_ERROR(ReadFully(ctx, *queue, {0, length_bytes}, memory.data()));
  return std::string(memory.View(length_bytes));
}

bool IsFileSystem(absl::string_view name) {
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

}  // namespace csidelta::incremental
