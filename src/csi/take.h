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

// A VolumeSnapshot, from the request until the driver has taken it, for backups and for people:
// what differs between them are the values of a request.
//
//   (nothing)
//       |  lock (csi/lock.h), POST
//       v
//   VolumeSnapshot, and content with the driver's handle --error, timeout, cancel--> deleted again
//       |  the driver
//       v
//   taken
namespace csidelta::csi {

// What differs between backups and people that have a snapshot, or a group of them, taken. Values
// alone.
struct TakeRules {
  // An object of the name that has these labels is the requester's.
  std::map<std::string, std::string> own_labels;
  std::string asked_at_annotation;  // gets the time of the POST
  std::string (*format_time)(absl::Time) = FormatRfc3339;
  // An object that an earlier call made is taken up.
  bool may_join = true;
  // Such an object is deleted like one of this call when the call fails, unless it has this
  // annotation: something refers to it.
  bool deletes_joined = false;
  std::string referred_annotation = {};
  std::string name_advice = {};  // where another object has the name: "; choose another --name"
  // A missing right is a note; else an error.
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
  objects::VolumeSnapshot snapshot;        // bound, where the driver was awaited
  objects::VolumeSnapshotContent content;  // with a handle; maybe not ready to use yet
  bool is_content_read = true;             // else `content` is empty: the right is missing
  // By this machine's clock: just before the POST, and when the API server showed it as taken.
  absl::Time asked_at = {};
  std::optional<absl::Time> seen_taken_at = {};
  bool has_joined = false;                    // it was there
  std::vector<std::string> not_checked = {};  // "Lease not taken: ..."
};
// What StatusOf() needs of its content. Borrows it. Pure.
ContentReading ReadingOf(const TakenSnapshot& taken);

// Has the driver take a snapshot of a PVC's volume and returns as soon as the API server shows its
// handle; the time of it where contents may not be read.
//   FAILED_PRECONDITION  IsVolumeBusy(); or the driver refuses with an error that asking again does
//                        not change, for as long as the rules say
//   RESOURCE_EXHAUSTED   a quota refused: OutOfRoom()
//   DEADLINE_EXCEEDED    not taken in time; with the driver's last error
//   ALREADY_EXISTS       another object has the name
//   NOT_FOUND            another client deleted the VolumeSnapshot meanwhile
// and errors of the API server. After any error nothing of it is left, or the message names what
// is.
absl::StatusOr<TakenSnapshot> TakeSnapshot(const CallContext& ctx, k8s::ApiClient& api,
                                           const TakeRequest& request);

// --- For groups too

// Deletes the object that a call made, or that it could not finish, in a time of its own. The
// driver's snapshot goes with it, also where its class says Retain: the policy of its content
// becomes Delete first, where that is allowed. `asked`: as it was posted. `made`: as the
// API server answered; nothing where the answer was lost. Kind: VolumeSnapshot or
// VolumeGroupSnapshot. Returns `status`, and what was deleted; else what is left, and its handle.
template <typename Kind>
absl::Status Withdraw(const Clock& clock, k8s::ApiClient& api, const TakeRules& rules,
                      const Kind& asked, const std::optional<Kind>& made,
                      const absl::Status& status);

}  // namespace csidelta::csi
