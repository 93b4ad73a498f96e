#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "incremental/mover/block_device.h"

namespace csidelta::support {

// A device in memory. What was never written takes no memory and reads as zeros, or as `fill`.
// Stops the process when a transfer breaks the contract of BlockDevice. Transfers complete in
// another order than they were started. Thread-safe.
class FakeBlockDevice : public incremental::BlockDevice {
 public:
  explicit FakeBlockDevice(int64_t size_bytes, int64_t alignment_bytes = 512, uint8_t fill = 0);
  // The same bytes, as of now.
  FakeBlockDevice(const FakeBlockDevice& other);

  const incremental::DeviceInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<incremental::IoQueue>> OpenQueue(int depth) override;
  absl::Status MakeZero(const CallContext& ctx, const Extent& extent) override;
  absl::Status Flush(const CallContext& ctx) override;

  // Past the seam, at any offset.
  void Store(int64_t offset_bytes, absl::string_view bytes);
  std::string Load(int64_t offset_bytes, int64_t length_bytes) const;
  void Resize(int64_t size_bytes);
  // Whether both hold the same bytes from 0 to `length_bytes`.
  bool Equals(const FakeBlockDevice& other, int64_t length_bytes) const;
  // Extents that ever were written and not made zero since, rounded out to pages.
  std::vector<Extent> WrittenExtents() const;

  // Transfers that touch this byte fail as a bad sector does.
  void BreakByte(int64_t offset_bytes) { broken_byte_ = offset_bytes; }

  int64_t read_bytes() const;
  int64_t written_bytes() const;  // without zeros made
  int64_t flushes() const;

  // For its queue.
  absl::Status DoTransfer(const incremental::IoRequest& request);

 private:
  static constexpr int64_t kPageBytes = 64 << 10;

  void StoreLocked(int64_t offset_bytes, absl::string_view bytes);
  void LoadLocked(int64_t offset_bytes, int64_t length_bytes, char* out) const;
  // What a page that is not in pages_ is full of.
  char FillOf(int64_t page) const;
  // What was written there, as long as nothing else is; empty where nothing was.
  absl::string_view PageAt(int64_t page) const;
  void ZeroPagesLocked(int64_t first_page, int64_t end_page);

  incremental::DeviceInfo info_;
  const uint8_t fill_;
  std::optional<int64_t> broken_byte_;
  mutable std::mutex mutex_;
  std::map<int64_t, std::string> pages_;  // under mutex_, by page number
  std::map<int64_t, int64_t> zeroed_;     // under mutex_, pages made zero: first, end
  int64_t read_bytes_ = 0;                // under mutex_
  int64_t written_bytes_ = 0;             // under mutex_
  int64_t flushes_ = 0;                   // under mutex_
};

}  // namespace csidelta::support
