#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "incremental/block_device.h"

namespace csidelta::incremental {

// What a mark begins with, and how much of the volume it takes.
inline constexpr char kRestoreMark[] = "csi-delta: THIS RESTORE HAS NOT COME TO ITS END\n";
inline constexpr int64_t kRestoreMarkBytes = kIoAlignmentBytes;

// A device that a volume of `volume_bytes` is restored to, and that says so at its beginning as
// long as that has not finished: an interrupted run, however, leaves neither a file
// system that mounts nor a volume that looks whole.
//
//   Begin: the mark, as `text` goes on -> durable
//   transfers, where the first kRestoreMarkBytes of the volume are only kept in mind
//   Flush: all else -> durable -> the first bytes -> durable
//
// A volume shorter than a mark has none. Transfers begin at 0 or behind the mark. Does not own
// `inner`. Thread-safe as BlockDevice says.
class MarkedTarget : public BlockDevice {
 public:
  MarkedTarget(BlockDevice& inner, int64_t volume_bytes)
      : inner_(inner), is_marked_(volume_bytes >= kRestoreMarkBytes) {}

  absl::Status Begin(const CallContext& ctx, absl::string_view text);

  const DeviceInfo& info() const override { return inner_.info(); }
  absl::StatusOr<std::unique_ptr<IoQueue>> OpenQueue(int depth) override;
  absl::Status MakeZero(const CallContext& ctx, const Extent& extent) override;
  absl::Status Flush(const CallContext& ctx) override;

 private:
  class Queue;

  absl::Status WriteBeginning(const CallContext& ctx, absl::string_view bytes);
  void Keep(const uint8_t* bytes);

  BlockDevice& inner_;
  const bool is_marked_;
  Mutex mutex_;
  // The volume's first bytes, zeros where none were written.
  std::array<char, kRestoreMarkBytes> beginning_ ABSL_GUARDED_BY(mutex_) = {};
};

// Whether the device begins with the mark of a restore that did not finish.
absl::StatusOr<bool> HasRestoreMark(const CallContext& ctx, BlockDevice& device);

}  // namespace csidelta::incremental
