#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "k8s/api_client.h"
#include "objects/volume_snapshot.h"
#include "velero/backup.h"

// The life of a volume snapshot that a backup takes. docs/design/0001-snapshot-life-cycle.md says
// why.
//
//   (nothing)
//       |  TakeSnapshot
//       v
//   VolumeSnapshot, and content with the driver's handle --error, timeout, cancel-+
//       |  the driver                                                             |
//       v                                                    DropSnapshot(kDelete)
//   ready --operation cancelled-------------------------------------------------+
//       |  DropSnapshot(kRetain)                                                  v
//       v                                                         everything made is gone
//   the driver's snapshot alone; the archive holds the objects
namespace csidelta::csi {

// How long a backup waits for other operations on a volume: long enough to see the Lease of a
// holder that died run out.
absl::Duration LockWaitMax(const velero::Backup& backup);

// How much of a hash goes into the name of an object that we make.
inline constexpr std::size_t kNameHashBytes = 20;

struct SnapshotRequest {
  const velero::Backup& backup;
  std::string claim_namespace;
  std::string claim_name;
  std::string claim_uid;
  std::string class_name;  // VolumeSnapshotClass
};

struct TakenSnapshot {
  objects::VolumeSnapshot snapshot;        // bound
  objects::VolumeSnapshotContent content;  // with a handle; maybe not ready to use yet
};

// The name of the VolumeSnapshot that `request` makes: a DNS label that fits a label value, the
// same in every process and every retry. Pure.
std::string SnapshotName(const SnapshotRequest& request);

// The managed VolumeGroupSnapshot that a VolumeSnapshot is a member of; "" for one that was taken
// alone. A copy without an owner does not count. Pure.
std::string MemberGroupName(const objects::VolumeSnapshot& snapshot);

// Whether a VolumeSnapshot was made by us, for whichever backup: its source, labels and name agree,
// or it is a member of a managed group. A copy under another name is not. Pure.
bool IsMadeByUs(const objects::VolumeSnapshot& snapshot);
// Whether a backup's archive has it, as the annotation says that our action writes then: it is not
// unreferenced any more, and no sweep removes it.
bool EnteredArchive(const objects::VolumeSnapshot& snapshot);
// The same, for this backup. Pure.
bool IsManaged(const objects::VolumeSnapshot& snapshot, const velero::Backup& backup);

// Has the driver cut a snapshot of a claim's volume and returns as soon as the API server shows its
// handle. Waits first until no other snapshot of that volume is being taken: for its turn, and for
// VolumeSnapshots managed by another program. These waits end after the backup's csiSnapshotTimeout
// together. A VolumeSnapshot that an earlier, interrupted call left under the same name is taken
// up.
//   DEADLINE_EXCEEDED    with the driver's last error
//   FAILED_PRECONDITION  the driver has refused for a minute with an error that repeating does not
//                        change
//   ALREADY_EXISTS       something else stands under the name
//   NOT_FOUND            another client deleted the VolumeSnapshot meanwhile
// and what the API server says. After any error nothing of it is left, or the message names what
// is.
absl::StatusOr<TakenSnapshot> TakeSnapshot(const CallContext& ctx, const Environment& env,
                                           const SnapshotRequest& request);

}  // namespace csidelta::csi
