#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "objects/volume_snapshot.h"

// The state of a VolumeSnapshot: the one reading of it, for lists, deletion and waits. Pure. The
// first row that holds is the state:
//
//   VolumeSnapshot               content                        state       reason
//   ---------------------------  -----------------------------  ----------  ---------------------
//   being deleted, held          any                            Deleting    HeldByFinalizer
//   being deleted                any                            Deleting    Requested
//   bound                        does not exist                 Lost        ContentGone
//   any                          the storage lacks its handle   Lost        HandleGone
//   any                          names another VolumeSnapshot   Error       BoundToAnother
//   ready, pre-provisioned,      any                            Unverified  NoRestoreSize
//     without a restoreSize
//   ready                        names it, or was not read      Ready       Ready
//   an error                     any                            Error       Refused, Retried
//   taken                        has a handle, or was not read  Uploading   Taken
//   bound                        has no handle                  Creating    AskedDriver
//   not bound                    -                              Creating    WaitsForController
//
// The error of a ready one is stale: external-snapshotter leaves it there. If the content cannot be
// read, the state comes from the VolumeSnapshot alone. Times are those of the objects; a time that
// is not recorded is omitted.
namespace csidelta::csi {

enum class SnapshotState { kCreating, kUploading, kReady, kError, kDeleting, kLost, kUnverified };

// "Creating", "Uploading", ...
absl::string_view ToString(SnapshotState state);

// The content that a VolumeSnapshot names, as far as it was read.
struct ContentReading {
  enum class Kind {
    kPresent,
    kGone,     // the API server says that it does not exist
    kUnknown,  // not bound, or it cannot be read
  };
  Kind kind = Kind::kUnknown;
  const objects::VolumeSnapshotContent* content = nullptr;  // with kPresent; borrowed
  bool is_handle_gone = false;  // the storage was asked and does not have it
};

// A condition as Kubernetes objects have them.
struct SnapshotCondition {
  std::string type;    // "Creating", ..., "Ready"
  bool holds = false;  // status True or False
  std::string reason;  // one word
  std::string message = {};
  std::optional<absl::Time> last_transition_time = {};

  bool operator==(const SnapshotCondition&) const = default;
};

struct SnapshotStatus {
  SnapshotState state = SnapshotState::kCreating;
  // The condition of the state; and Ready with False, unless the state is Ready.
  std::vector<SnapshotCondition> conditions = {};
  // When the driver took it, by the objects: from then on the application may write again.
  std::optional<absl::Time> taken_at;
};

SnapshotStatus StatusOf(const objects::VolumeSnapshot& snapshot, const ContentReading& reading);

// True if a volume can be made of it: Ready or Unverified.
bool IsUsable(SnapshotState state);

// Says if a volume can be made of it, now or later. `why`: "VolumeSnapshot shop/monday is Error:
// ..."; "" if it is usable. A binding to another VolumeSnapshot does not count here: checks of the
// binding refuse it.
struct Usability {
  enum class Kind { kUsable, kNotYet, kNever };
  Kind kind = Kind::kUsable;
  std::string why = {};
};
Usability UsabilityOf(const objects::VolumeSnapshot& snapshot, const ContentReading& reading);

// A VolumeSnapshot that is older, and still not taken, is not waited for.
inline constexpr absl::Duration kOthersAgeMax = absl::Minutes(5);
// True if the driver may be taking it: Creating by its own status, and young.
bool IsBeingTaken(const objects::VolumeSnapshot& snapshot, absl::Time now);

}  // namespace csidelta::csi
