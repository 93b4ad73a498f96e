#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/extent.h"
#include "incremental/mover/aligned_buffer.h"

namespace csidelta::incremental {

struct DeviceInfo {
  int64_t size_bytes = 0;
  // Offsets, and lengths but for the volume's tail, are multiples of it. At most kIoAlignmentBytes.
  int64_t alignment_bytes = 1;
  bool is_block_device = false;
  std::string engine;  // "threads", with ", buffered" where direct I/O is not possible
};

enum class IoKind { kRead, kWrite };

// One transfer. Its offset is a multiple of the device's alignment; so is its length, unless it
// ends at the end of the volume or is the last of a volume that is smaller than its target.
// `memory` is aligned to kIoAlignmentBytes and has room for the length rounded up to that; a read
// may overwrite what is behind the length.
struct IoRequest {
  IoKind kind = IoKind::kRead;
  int64_t offset_bytes = 0;
  int64_t length_bytes = 0;
  uint8_t* memory = nullptr;
  uint64_t tag = 0;  // the caller's, given back
};

struct IoCompletion {
  uint64_t tag = 0;
  absl::Status status;
};

// Transfers in flight, for one thread. Memory in flight is the device's until its completion is
// seen; the destructor waits for what is still under way. Errors of a transfer name its offset:
//   DATA_LOSS           the device could not read or write (EIO), or ended early
//   RESOURCE_EXHAUSTED  no space left · INTERNAL  anything else
class IoQueue {
 public:
  virtual ~IoQueue() = default;

  virtual int depth() const = 0;
  virtual int in_flight() const = 0;

  // Starts a transfer. REQUIRES in_flight() < depth(), and `request` inside the device.
  virtual void Submit(const IoRequest& request) = 0;

  // Blocks until any transfer is complete, in no order. REQUIRES in_flight() > 0. An error of its
  // own is only CANCELLED or DEADLINE_EXCEEDED; transfers are under way then.
  virtual absl::StatusOr<IoCompletion> Wait(const CallContext& ctx) = 0;
};

// Bytes by offset: a device, an image file, or a fake. Thread-safe; queues belong to one thread
// each and are gone before the device is.
class BlockDevice {
 public:
  virtual ~BlockDevice() = default;

  virtual const DeviceInfo& info() const = 0;

  // REQUIRES depth from 1 to kQueueDepthMax.
  virtual absl::StatusOr<std::unique_ptr<IoQueue>> OpenQueue(int depth) = 0;

  // Makes every byte of `extent` read as zero, whatever was there; discards count as nothing.
  // Aligned like a transfer. REQUIRES the extent inside a device that was opened for writing.
  virtual absl::Status MakeZero(const CallContext& ctx, const Extent& extent) = 0;

  // After OK, all that was written survives the loss of power.
  virtual absl::Status Flush(const CallContext& ctx) = 0;
};

inline constexpr int kQueueDepthMax = 64;
inline constexpr int64_t kTransferBytesMax = int64_t{64} << 20;

// One transfer, waited for. REQUIRES nothing else in flight. After CANCELLED or DEADLINE_EXCEEDED
// the memory is still in use until the queue is gone: let it outlive the queue.
absl::Status ReadFully(const CallContext& ctx, IoQueue& queue, const Extent& extent,
                       uint8_t* memory);
absl::Status WriteFully(const CallContext& ctx, IoQueue& queue, const Extent& extent,
                        uint8_t* memory);

}  // namespace csidelta::incremental
