#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/rfc3339.h"
#include "csi/driver_error.h"
#include "csi/lock.h"
#include "csi/snapshot_state.h"
#include "k8s/api_client.h"
#include "objects/volume_snapshot.h"

// Takes a VolumeSnapshot, from the request until the driver has taken it, for backups and people.
// They differ in the values of the request alone.
//
//   (nothing)
//       |  lock (csi/lock.h), POST
//       v
//   VolumeSnapshot, and content with the driver's handle --error, timeout, cancel--> deleted again
//       |  the driver
//       v
//   taken
namespace csidelta::csi {

// The values in which backups and people differ when they take a snapshot, or a group.
struct TakeRules {
  // An object of the name with these labels is the requester's.
  std::map<std::string, std::string> own_labels;
  std::string asked_at_annotation;  // gets the time of the POST
  std::string (*format_time)(absl::Time) = FormatRfc3339;
  // An object that an earlier call made is resumed.
  bool may_join = true;
  // A resumed object is deleted like a new one when the call fails, unless it has this annotation:
  // something refers to it.
  bool deletes_joined = false;
  std::string referred_annotation = {};
  std::string name_advice = {};  // if another object has the name: "; choose another --name"
  // A missing right is recorded in `not_checked`; else it is an error.
  bool may_lack_rights = false;
  absl::Duration timeout;  // for the driver
  ErrorRules errors = {};
};

struct TakeRequest {
  TakeRules rules;
  LockRequest lock;
  objects::VolumeSnapshot object;  // to be made, of one PVC
  bool awaits_driver = true;
};

struct TakenSnapshot {
  objects::VolumeSnapshot snapshot;             // bound, if the driver was awaited
  objects::VolumeSnapshotContent content = {};  // with a handle; maybe not ready to use yet
  bool is_content_read = true;                  // else `content` is empty: no permission
  // By this machine's clock: just before the POST, and when the API server showed it as taken.
  absl::Time asked_at = {};
  std::optional<absl::Time> seen_taken_at = {};
  bool has_joined = false;                    // it was there
  std::vector<std::string> not_checked = {};  // "Lease not taken: ..."
};
// Its content, for StatusOf(). Borrows it. Pure.
ContentReading ReadingOf(const TakenSnapshot& taken);

// Has the driver take a snapshot of a PVC's volume. Returns as soon as the API server shows the
// handle; or the time, if contents cannot be read. Errors are those of the API server, and:
//   FAILED_PRECONDITION  IsVolumeBusy(); or the driver refuses, for as long as the rules say, with
//                        an error that a retry does not change
//   RESOURCE_EXHAUSTED   a quota refused: OutOfRoom()
//   DEADLINE_EXCEEDED    not taken in time; with the driver's last error
//   ALREADY_EXISTS       another object has the name
//   NOT_FOUND            another client deleted the VolumeSnapshot meanwhile
// After any error nothing of the snapshot is left, or the message names what is.
absl::StatusOr<TakenSnapshot> TakeSnapshot(const CallContext& ctx, k8s::ApiClient& api,
                                           const TakeRequest& request);

// --- For groups too

// Deletes the object that a failed call made, or could not finish, with a deadline of its own. It
// repeats that while the API server may be starting. The driver's snapshot is deleted too, even if
// its class says Retain: first the content's policy becomes Delete, if that is allowed. `asked`: as
// it was posted. `made`: the API server's answer; nothing if it was lost. Kind: VolumeSnapshot or
// VolumeGroupSnapshot. Returns `status`, with what was deleted; or with what is left, and its
// handle.
template <typename Kind>
absl::Status Withdraw(const Clock& clock, k8s::ApiClient& api, const TakeRules& rules,
                      const Kind& asked, const std::optional<Kind>& made,
                      const absl::Status& status);

}  // namespace csidelta::csi
