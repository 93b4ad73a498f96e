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
#include "csi/snapshot_state.h"
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

struct Creation {
  objects::VolumeSnapshot snapshot;
  csi::SnapshotStatus status;
  // By this machine's clock: just before the POST, and when the API server showed it as taken.
  absl::Time asked_at;
  std::optional<absl::Time> seen_taken_at = {};
  bool has_joined = false;                                     // it was there
  std::optional<objects::VolumeSnapshotContent> content = {};  // where it may be read
  std::vector<std::string> not_checked = {};                   // "Lease not taken: ..."
};

// What a VolumeSnapshot, or a group of them, says of the request for it; "" for none.
std::map<std::string, std::string> CreationLabels(const std::string& set,
                                                  const std::string& schedule);
std::map<std::string, std::string> CreationAnnotations(absl::Time asked_at,
                                                       const std::string& workload,
                                                       const std::string& note);

// Persons are told at once what the driver refuses, and wait for it while it has no room.
csi::ErrorRules ErrorRulesOf(csi::RoomInDriver on_full);

// What StatusOf() needs of the content of a creation. Borrows it. Pure.
csi::ContentReading ReadingOf(const Creation& creation);

// `stem` and `ending`, with a part of the stem replaced by its hash where they are longer than the
// 63 bytes of a label value. Pure.
std::string FitName(absl::string_view prefix, absl::string_view ending = "");
// The name where a person gives none: "<stem>-<yyyymmdd-hhmmss>" in UTC, fitted. Pure.
std::string NameForSnapshot(absl::string_view prefix, absl::Time now);

// The lock of a person on PVCs of one namespace, for what is called `name`: the Leases are in that
// namespace, and a right that the person lacks is a note.
csi::LockRequest LockOf(const std::vector<objects::PersistentVolumeClaim>& pvcs,
                        const std::string& name, bool waits_for_others, Random& random);

// The Lease of a PVC into whose volume something is restored, and of which no VolumeSnapshot is
// taken first, which would take it: creations and other restores find it while the restore begins,
// until the lock is destroyed, or kVolumeLeaseDuration has passed. Runs of the same `restore` are
// not held against each other. Errors of VolumeLock::Enter(). Adds to `not_checked`.
absl::StatusOr<std::unique_ptr<csi::VolumeLock>> GuardRestore(
    const CallContext& ctx, k8s::ApiClient& api, Random& random,
    const objects::PersistentVolumeClaim& pvc, absl::string_view restore,
    std::vector<std::string>& not_checked);

// Has a snapshot taken, and returns once it is as `awaited` says: at the latest 100 ms after the
// API server shows its handle, or the time of it where contents may not be read.
//   FAILED_PRECONDITION  csi::IsVolumeBusy(), or the driver refused with an error that asking again does
//                        not change
//   RESOURCE_EXHAUSTED   a quota refused: OutOfRoom() of csi/driver_error.h
//   DEADLINE_EXCEEDED    not taken within the timeout; with what the driver reported last
//   ALREADY_EXISTS       another VolumeSnapshot has the name
//   NOT_FOUND            the VolumeSnapshot was deleted meanwhile
//   CANCELLED            interrupted
// and what the API server says. After an error before it was taken the VolumeSnapshot is deleted
// again, unless an earlier run made it, and with it what the driver took by then; what cannot be
// deleted, or stays because the content says Retain and may not be patched, is in the message.
absl::StatusOr<Creation> CreateSnapshot(const CallContext& ctx, k8s::ApiClient& api, Random& random,
                                        const CreationRequest& request);

// Whether another operation on the volume is under way, asked before anything is done for the
// VolumeSnapshot: errors as of CreateSnapshot() until its POST. Waits for that operation where the
// request does. Another one may begin at any time.
absl::Status CheckFree(const CallContext& ctx, k8s::ApiClient& api, Random& random,
                       const CreationRequest& request);

// Whether the API server would take the VolumeSnapshot now: the same answers, and nothing is made.
// OK also where an earlier run's of this name exists, which CreateSnapshot() would join.
absl::Status TryCreate(const CallContext& ctx, k8s::ApiClient& api, const CreationRequest& request);

}  // namespace csidelta::snapshots
