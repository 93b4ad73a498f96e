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

// A VolumeSnapshot that a person requests, from the request until it is taken. It needs the rights
// of that person alone, and no controller of csi-delta. One operation per volume: csi/lock.h.
namespace csidelta::snapshots {

enum class AwaitedState { kNothing, kTaken, kReady };

struct CreationRequest {
  SnapshotSource source;
  std::string name;  // of the VolumeSnapshot
  // A VolumeSnapshot of this name and PVC that these verbs made is that of an earlier run, and is
  // awaited.
  bool may_join = false;
  std::string set = {};
  std::string workload = {};
  std::string note = {};
  std::string schedule = {};  // that takes the snapshot; "": a person does
  bool waits_for_others = false;
  csi::RoomInDriver on_full = {};
  AwaitedState awaited = AwaitedState::kTaken;
  absl::Duration timeout;
};

// Labels and annotations that describe the request on its VolumeSnapshot or group; "" for none.
std::map<std::string, std::string> CreationLabels(const std::string& set,
                                                  const std::string& schedule);
std::map<std::string, std::string> CreationAnnotations(const std::string& workload,
                                                       const std::string& note);

// Rules for a VolumeSnapshot, or a group, that a person requests: a refusal of the driver is final
// at once, but a driver without room is waited for.
csi::TakeRules PersonRules(absl::Duration timeout, csi::RoomInDriver on_full);

// Concatenates `prefix` and `ending`. If the result exceeds the 63 bytes of a label value, a part
// of the prefix is replaced by its hash. Pure.
std::string FitName(absl::string_view prefix, absl::string_view ending = "");
// The name if a person gives none: "<prefix>-<yyyymmdd-hhmmss>" in UTC, fitted. Pure.
std::string NameForSnapshot(absl::string_view prefix, absl::Time now);

// The lock of a person on one or more PVCs of one namespace, for the snapshot or group `name`. The
// Leases are in that namespace, and a right that the person lacks is reported, not an error.
csi::LockRequest LockOf(const std::vector<SnapshotSource>& sources, const std::string& name,
                        bool waits_for_others, Random& random);

// The Lease of a PVC for a restore into its volume without a safety snapshot, which would itself
// hold the Lease. Snapshots and other restores find it until the lock is destroyed, or
// kVolumeLeaseDuration has passed. Runs of the same `restore` do not block each other. Errors are
// those of VolumeLock::Enter(). Adds to `not_checked`.
absl::StatusOr<std::unique_ptr<csi::VolumeLock>> GuardRestore(
    const CallContext& ctx, k8s::ApiClient& api, Random& random,
    const objects::PersistentVolumeClaim& pvc, absl::string_view restore,
    std::vector<std::string>& not_checked);

// csi::TakeSnapshot() with the rights of the caller. Returns once the snapshot is in the state
// `awaited`.
absl::StatusOr<csi::TakenSnapshot> CreateSnapshot(const CallContext& ctx, k8s::ApiClient& api,
                                                  Random& random, const CreationRequest& request);

// Takes a snapshot of a PVC before other data replaces its own, with the driver and class that
// PrepareSources() finds. Errors say that nothing is changed, and how to restore without a
// snapshot. Adds to `not_checked`.
absl::Status TakeBeforeRestore(const CallContext& ctx, k8s::ApiClient& api, Random& random,
                               CreationRequest request, std::vector<std::string>& not_checked);

// Checks for another operation on the volume before anything is done for the VolumeSnapshot. Errors
// are those of CreateSnapshot() before its POST. Waits for that operation if the request does.
// Another one may begin at any time.
absl::Status CheckFree(const CallContext& ctx, k8s::ApiClient& api, Random& random,
                       const CreationRequest& request);

// Checks by a dry run that the API server would accept the VolumeSnapshot now: the answers are the
// same, and nothing is made. OK also if an earlier run made one of this name, which
// CreateSnapshot() would join.
absl::Status TryCreate(const CallContext& ctx, k8s::ApiClient& api, const CreationRequest& request);

}  // namespace csidelta::snapshots
