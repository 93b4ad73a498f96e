#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace csidelta::support {

// What drivers that users run allow less of than others, as switches of both test drivers. The
// defaults allow everything. docs/csi-drivers.md names drivers with these habits.
struct DriverHabits {
  bool grows_with_snapshots = true;    // else a volume with a snapshot is FAILED_PRECONDITION
  bool deletes_with_snapshots = true;  // likewise
  int snapshots_max = 0;               // of a volume, then snapshots_max_code; 0: no limit
  // vSphere's is FAILED_PRECONDITION, that of IBM Storage Scale OUT_OF_RANGE.
  absl::StatusCode snapshots_max_code = absl::StatusCode::kResourceExhausted;
  int clones_max = 0;  // volumes made of snapshots, in all, likewise
  // Before the next snapshot of a volume; sooner it is RESOURCE_EXHAUSTED.
  absl::Duration snapshot_pause = absl::ZeroDuration();
  // From the first CreateSnapshot of a name until one succeeds; ABORTED meanwhile.
  absl::Duration snapshot_takes = absl::ZeroDuration();
  bool exact_size_only = false;   // of a volume that is made of a snapshot; else OUT_OF_RANGE
  bool shares_block_mode = true;  // else ReadWriteMany with Block is INVALID_ARGUMENT
  bool shares_reads = true;       // else ReadOnlyMany is INVALID_ARGUMENT
  // A volume that is made as ReadWriteMany is a file share, as Longhorn's are: this node exports
  // it, and alone has its device. "": each node has the device. The driver in memory has no nodes.
  std::string share_manager = {};
  // Whatever is ReadWriteMany is a share of files, as with Longhorn: it is made and confirmed, and
  // no node publishes it as a block device.
  bool shares_files = false;
};

// The volume that CreateSnapshot names, and the driver around it.
struct SnapshotRoom {
  int snapshots = 0;                    // of the volume
  int clones = 0;                       // in all
  std::optional<absl::Time> latest_at;  // the volume's newest snapshot, deleted ones included
  absl::Time now;
};

// For a snapshot that is not there yet.
inline absl::Status CheckRoom(const DriverHabits& habits, const SnapshotRoom& room) {
  if (habits.snapshots_max > 0 && room.snapshots >= habits.snapshots_max) {
    return {habits.snapshots_max_code,
            absl::StrCat("the volume has ", room.snapshots, " of ", habits.snapshots_max,
                         " snapshots, the configured maximum")};
  }
  if (habits.clones_max > 0 && room.clones >= habits.clones_max) {
    return absl::ResourceExhaustedError(
        absl::StrCat(room.clones, " of ", habits.clones_max, " images are clones"));
  }
  if (room.latest_at.has_value() && room.now < *room.latest_at + habits.snapshot_pause) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this operation is rate-limited - one request per ",
                     absl::FormatDuration(habits.snapshot_pause)));
  }
  return absl::OkStatus();
}

// For a snapshot that was first asked for at that time.
inline absl::Status CheckTaken(const DriverHabits& habits, absl::Time asked_at, absl::Time now) {
  return now < asked_at + habits.snapshot_takes
             ? absl::AbortedError("the snapshot is still being taken")
             : absl::OkStatus();
}

inline absl::Status CheckGrows(const DriverHabits& habits, int snapshots) {
  return habits.grows_with_snapshots || snapshots == 0
             ? absl::OkStatus()
             : absl::FailedPreconditionError("a volume with existing snapshots cannot be expanded");
}

inline absl::Status CheckDeletes(const DriverHabits& habits, int snapshots) {
  return habits.deletes_with_snapshots || snapshots == 0
             ? absl::OkStatus()
             : absl::FailedPreconditionError("a volume with existing snapshots cannot be deleted");
}

// Of a volume that is to be made; `access_modes` as Kubernetes calls them.
inline absl::Status CheckModes(const DriverHabits& habits,
                               const std::vector<std::string>& access_modes, bool is_block) {
  const auto has = [&](const char* mode) {
    return std::find(access_modes.begin(), access_modes.end(), mode) != access_modes.end();
  };
  if (!habits.shares_block_mode && is_block && has("ReadWriteMany")) {
    return absl::InvalidArgumentError("no block device is shared by several writers");
  }
  return habits.shares_reads || !has("ReadOnlyMany")
             ? absl::OkStatus()
             : absl::InvalidArgumentError("no volume has several readers");
}

// Of NodePublishVolume, in the words of the node plugin of longhorn-manager 5ddaa369, which says so
// for ever.
inline absl::Status CheckPublish(const DriverHabits& habits, bool shares_writes, bool is_block,
                                 absl::string_view source, absl::string_view target) {
  return habits.shares_files && shares_writes && is_block
             ? absl::InternalError(absl::StrCat("failed to bind mount \"", source, "\" at \"",
                                                target, "\": mount failed: exit status 32"))
             : absl::OkStatus();
}

// `bytes`: of the volume that is to be made of a snapshot of `snapshot_bytes`.
inline absl::Status CheckSizeOfClone(const DriverHabits& habits, int64_t bytes,
                                     int64_t snapshot_bytes) {
  return !habits.exact_size_only || bytes == snapshot_bytes
             ? absl::OkStatus()
             : absl::OutOfRangeError(absl::StrCat("requested volume size ", bytes,
                                                  " must be the same as source snapshot size ",
                                                  snapshot_bytes));
}

}  // namespace csidelta::support
