#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "conformance/driver_link.h"

namespace csidelta::conformance {

// Makes volumes and snapshots of a driver, puts volumes on this machine, and remembers all of it
// so that nothing stays. Not thread-safe. Errors are the driver's.
class DriverHarness {
 public:
  // `folder` exists, and is empty; names of what is made begin with `prefix`.
  DriverHarness(DriverLink& link, DriverInfo info, std::string folder, std::string prefix)
      : link_(link),
        info_(std::move(info)),
        folder_(std::move(folder)),
        prefix_(std::move(prefix)) {}

  const DriverInfo& info() const { return info_; }
  // Where an image of this name may lie.
  std::string ImagePath(absl::string_view name) const;

  // A block volume, empty or made of a snapshot.
  absl::StatusOr<VolumeInfo> MakeVolume(const CallContext& ctx, int64_t size_bytes,
                                        const std::string& snapshot_id);
  // Waits until it is ready to use.
  absl::StatusOr<SnapshotInfo> MakeSnapshot(const CallContext& ctx, const std::string& volume_id);
  // A volume or a snapshot.
  absl::Status Drop(const CallContext& ctx, const std::string& id);

  // The path of its device. REQUIRES that it was made here.
  absl::StatusOr<std::string> Attach(const CallContext& ctx, const std::string& volume_id);
  absl::Status Detach(const CallContext& ctx, const std::string& volume_id);
  // REQUIRES that it is attached.
  absl::Status Expand(const CallContext& ctx, const std::string& volume_id, int64_t size_bytes);

  // Drops all that is left, the youngest first, and goes on after an error. "" or what stayed, and
  // why.
  std::string CleanUp(const CallContext& ctx);

 private:
  // Written down before the driver is asked: a call may have worked though its answer was lost.
  struct Made {
    bool is_volume = false;
    VolumeRequest wish = {};     // of a volume; of a snapshot its name
    std::string source_id = {};  // of a snapshot
    std::string id = {};         // "" until the driver has said it
    Mount mount = {};            // of a volume
    bool attached = false;
    SnapshotInfo snapshot = {};  // of a snapshot
  };

  Made& Find(absl::string_view id);
  void Forget(absl::string_view id);
  absl::Status Ask(const CallContext& ctx, Made& made);
  absl::Status Drop(const CallContext& ctx, Made& made);
  absl::Status TakeOff(const CallContext& ctx, Made& made);

  DriverLink& link_;
  const DriverInfo info_;
  const std::string folder_;
  const std::string prefix_;
  int64_t count_ = 0;
  std::vector<Made> made_;
};

}  // namespace csidelta::conformance
