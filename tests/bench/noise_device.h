#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "incremental/mover/block_device.h"

namespace csidelta::bench {

// A volume of bytes that neither repeat nor shrink, and that take next to no memory and no disk: a
// read copies the same noise with its place in the volume written over it. Read-only. Thread-safe.
class NoiseDevice : public incremental::BlockDevice {
 public:
  explicit NoiseDevice(int64_t size_bytes);

  const incremental::DeviceInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<incremental::IoQueue>> OpenQueue(int depth) override;
  absl::Status MakeZero(const CallContext& ctx, const Extent& extent) override;
  absl::Status Flush(const CallContext& ctx) override;

  // For its queue.
  void Read(const incremental::IoRequest& request) const;

 private:
  static constexpr int64_t kPageBytes = 4096;

  incremental::DeviceInfo info_;
  std::string noise_;
};

}  // namespace csidelta::bench
