#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/random.h"
#include "csi/driver_error.h"
#include "csi/lock.h"
#include "csi/take.h"
#include "k8s/api_client.h"
#include "objects/volume_snapshot.h"
#include "snapshots/snapshot_source.h"

// A VolumeSnapshot that a person asks for, from the request until it is taken: with the rights of
// that person alone, and without any controller of csi-delta. One operation per volume: csi/lock.h.
namespace csidelta::snapshots {

enum class AwaitedState { kNothing, kTaken, kReady };

struct CreationRequest {
  SnapshotSource source;
  std::string name;  // of the VolumeSnapshot
  // One of this name and PVC that these verbs made is that of an earlier run, and is waited for.
  bool may_join = false;
  std::string set = {};
  std::string workload = {};
  std::string note = {};
  std::string schedule = {};  // that takes it; "": a person does
  bool waits_for_others = false;
  csi::RoomInDriver on_full = {};
  AwaitedState awaited = AwaitedState::kTaken;
  absl::Duration timeout;
};

// What a VolumeSnapshot, or a group of them, says of the request for it; "" for none.
std::map<std::string, std::string> CreationLabels(const std::string& set,
                                                  const std::string& schedule);
std::map<std::string, std::string> CreationAnnotations(const std::string& workload,
                                                       const std::string& note);

// How a person has a VolumeSnapshot, or a group, taken: refusals of the driver are final at once,
// and it is waited for while it has no room.
csi::TakeRules PersonRules(absl::Duration timeout, csi::RoomInDriver on_full);

// `prefix` and `ending`, with a part of the prefix replaced by its hash where they are longer than
// the 63 bytes of a label value. Pure.
std::string FitName(absl::string_view prefix, absl::string_view ending = "");
// The name where a person gives none: "<prefix>-<yyyymmdd-hhmmss>" in UTC, fitted. Pure.
std::string NameForSnapshot(absl::string_view prefix, absl::Time now);

// The lock of a person on PVCs of one namespace, at least one, for what is called `name`: the
// Leases are in that namespace, and a right that the person lacks is a note.
csi::LockRequest LockOf(const std::vector<SnapshotSource>& sources, const std::string& name,
                        bool waits_for_others, Random& random);

// The Lease of a PVC into whose volume something is restored, and of which no VolumeSnapshot is
// taken first, which would take it: creations and other restores find it while the restore begins,
// until the lock is destroyed, or kVolumeLeaseDuration has passed. Runs of the same `restore` are
// not held against each other. Errors of VolumeLock::Enter(). Adds to `not_checked`.
absl::StatusOr<std::unique_ptr<csi::VolumeLock>> GuardRestore(
    const CallContext& ctx, k8s::ApiClient& api, Random& random,
    const objects::PersistentVolumeClaim& pvc, absl::string_view restore,
    std::vector<std::string>& not_checked);

// csi::TakeSnapshot() with the rights of the caller, which returns once the snapshot is as
// `awaited` says.
absl::StatusOr<csi::TakenSnapshot> CreateSnapshot(const CallContext& ctx, k8s::ApiClient& api,
                                                  Random& random, const CreationRequest& request);

// The snapshot of a PVC that is taken before other data replaces its own: CreateSnapshot() with the
// driver and class that PrepareSources() finds for the PVC of `request`. The message of an error
// says that nothing is changed, and how to restore without a snapshot. Adds to `not_checked`.
absl::Status TakeBeforeRestore(const CallContext& ctx, k8s::ApiClient& api, Random& random,
                               CreationRequest request, std::vector<std::string>& not_checked);

// Whether another operation on the volume is under way, asked before anything is done for the
// VolumeSnapshot: errors as of CreateSnapshot() until its POST. Waits for that operation where the
// request does. Another one may begin at any time.
absl::Status CheckFree(const CallContext& ctx, k8s::ApiClient& api, Random& random,
                       const CreationRequest& request);

// Whether the API server would take the VolumeSnapshot now: the same answers, and nothing is made.
// OK also where an earlier run's of this name exists, which CreateSnapshot() would join.
absl::Status TryCreate(const CallContext& ctx, k8s::ApiClient& api, const CreationRequest& request);

}  // namespace csidelta::snapshots
