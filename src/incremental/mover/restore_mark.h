#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "incremental/mover/aligned_buffer.h"
#include "incremental/mover/block_device.h"

namespace csidelta::incremental {

// What a mark begins with, and how much of the volume it takes. The mark is also the header of a
// swap area, which swapon(2) refuses: a node formats a volume of mode Filesystem in which libblkid
// finds nothing, but does not mount swap as a file system.
inline constexpr char kRestoreMark[] = "csi-delta: THIS RESTORE HAS NOT COME TO ITS END\n";
inline constexpr int64_t kRestoreMarkBytes = kIoAlignmentBytes;
// So much of the volume's beginning and of its end is kept back at least: superblocks, partition
// tables and their copies are found there. btrfs has its own at 64 KiB, ZFS at 256 KiB, nilfs2, GPT
// and software RAID another one at the end.
inline constexpr int64_t kKeptBackBytes = int64_t{1} << 20;

// What a MarkedTarget takes of memory at most.
inline int64_t KeptBackBytes(int64_t chunk_bytes) {
  return std::max(kKeptBackBytes, chunk_bytes) + kKeptBackBytes;
}

// A device that a volume of `volume_bytes` is restored to, and that says so at its beginning as
// long as that has not finished. An interrupted run, at whatever moment, leaves neither a file
// system that is found and mounts nor a volume that looks whole. One moment is excepted: between
// the writes of Begin() the old volume lacks its beginning, and nilfs2 is found by its end alone.
//
//   Begin: the mark, as `text` goes on; zeros instead of the rest of the first max(`chunk_bytes`,
//          kKeptBackBytes) and of the last kKeptBackBytes -> durable
//   transfers, which read and write the parts that are kept back in memory
//   Flush: all else -> durable -> what was kept back, but the mark's bytes -> durable -> those
//          -> durable
//
// A volume shorter than a mark has none. Before Begin() everything goes to `inner`, which it does
// not own. Thread-safe as BlockDevice says; Begin() may run beside reads, whose answer then is
// either that of before or zeros.
class MarkedTarget : public BlockDevice {
 public:
  MarkedTarget(BlockDevice& inner, int64_t volume_bytes, int64_t chunk_bytes = 0);

  // With `holds_data` the parts that are kept back are what the device holds until they are
  // written; else zeros. Parts that do not read are zeros.
  absl::Status Begin(const CallContext& ctx, absl::string_view text, bool holds_data);

  // The parts that are kept back, as extents of the volume; may be empty.
  const Extent& head() const { return head_.extent; }
  const Extent& tail() const { return tail_.extent; }

  const DeviceInfo& info() const override { return inner_.info(); }
  absl::StatusOr<std::unique_ptr<IoQueue>> OpenQueue(int depth) override;
  absl::Status MakeZero(const CallContext& ctx, const Extent& extent) override;
  absl::Status Flush(const CallContext& ctx) override;

 private:
  struct Part {
    Extent extent;
    AlignedBuffer memory;
  };

  // Does the transfer as far as it is of parts that are kept back, and returns the rest. Without
  // memory it makes zeros.
  Extent Keep(IoKind kind, const Extent& extent, uint8_t* memory);
  absl::Status WritePart(const CallContext& ctx, Part& part, int64_t from_bytes);

  BlockDevice& inner_;
  std::atomic<bool> begun_ = false;
  Mutex mutex_;  // Guards the bytes of both once begun_ is set.
  Part head_;
  Part tail_;
};

// Whether the device begins with the mark of a restore that did not finish.
absl::StatusOr<bool> HasRestoreMark(const CallContext& ctx, BlockDevice& device);

}  // namespace csidelta::incremental
