#include "incremental/mover/file_system.h"

#include <algorithm>
#include <array>
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

constexpr absl::string_view kXfsMagic = "XFSB";
constexpr std::size_t kBtrfsMagicAt = 0x10040;
constexpr absl::string_view kBtrfsMagic = "_BHRfS_M";

bool HasAt(absl::string_view bytes, std::size_t offset, absl::string_view wanted) {
  return bytes.size() >= offset + wanted.size() && bytes.substr(offset, wanted.size()) == wanted;
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

absl::StatusOr<std::string> ReadFileSystem(const CallContext& ctx, BlockDevice& device) {
  const int64_t alignment_bytes = device.info().alignment_bytes;
  const int64_t length_bytes =
      std::min(kFileSystemProbeBytes, device.info().size_bytes / alignment_bytes * alignment_bytes);
  if (length_bytes == 0) {
    return "";
  }
  const AlignedBuffer memory(length_bytes);
  ASSIGN_OR_RETURN(const std::unique_ptr<IoQueue> queue, device.OpenQueue(1));
  RETURN_IF_ERROR(ReadFully(ctx, *queue, {0, length_bytes}, memory.data()));
  return FileSystemOf(memory.View(length_bytes));
}

bool IsFileSystem(absl::string_view name) {
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

}  // namespace csidelta::incremental
