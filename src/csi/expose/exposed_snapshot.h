#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "csi/group/moved_group.h"
#include "k8s/api_client.h"
#include "k8s/informer.h"
#include "k8s/object_cache.h"
#include "objects/node.h"
#include "objects/object.h"
#include "objects/persistent_volume.h"

// Makes a volume snapshot readable to a Pod in another namespace, as a raw block device:
//
//   source VolumeSnapshot, ready
//       |  its content: Retain, confirmed by the API server
//       v
//   VolumeSnapshotContent `name`: the same handle, Retain, csi-delta's from here on
//       |
//       v
//   source VolumeSnapshot and its content deleted; the driver keeps the snapshot
//       |  VolumeSnapshot `name` in the mover's namespace
//       |  claim `name`, Block, filled from VolumeSnapshot `name`; as large as its restoreSize, or
//       |  as the source volume if that is larger. If the driver refuses that, with the other size.
//       v
//   ready --RemoveExposure, kKeep----> VolumeSnapshotContent `name` alone: it can be a base
//         --RemoveExposure, kDelete--> nothing, and the driver drops the snapshot
//
// Annotations of the content keep what must outlive the source. Every step first reads what exists:
// it may be repeated, and another process may have done half of it.
namespace csidelta::csi {

// PVCs whose volume was examined, and was made for them. A binding is permanent, so one check is
// enough. Keeps the newest kExaminedClaimsMax. Thread-safe.
class ExaminedClaims {
 public:
  bool Has(const objects::PersistentVolumeClaim& claim) const;
  void Add(const objects::PersistentVolumeClaim& claim);

 private:
  mutable Mutex mutex_;
  std::set<std::string, std::less<>> bindings_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> in_order_ ABSL_GUARDED_BY(mutex_);
};
inline constexpr std::size_t kExaminedClaimsMax = 5000;

struct ExposeRequest {
  std::string name;  // of everything that is made
  std::string source_namespace = {};
  std::string source_snapshot = {};  // VolumeSnapshot
  std::string source_claim = {};     // that the made PVC names as its original; "": none
  std::string mover_namespace;
  std::string storage_class = {};  // of the claim; "" for the source claim's
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations = {};  // of the content, beside its own
  // The owner of all objects in the mover's namespace.
  std::optional<objects::OwnerReference> owner = {};
  bool read_only_many = false;    // the claim's access mode; an error on it falls back to
                                  // ReadWriteOnce, which the content remembers
  bool is_without_claim = false;  // goes no further than to a snapshot that is ready
  // Holds what is made here, by its labels, and sources, by theirs; null: nothing is watched.
  const k8s::ObjectCache* cache = nullptr;
  ExaminedClaims* examined = nullptr;  // null: the volume is examined each time
};

struct Exposure {
  enum class State {
    kWaiting,  // for what waiting_for says
    kReady,    // a Pod may be made; the claim is bound, or waits for that Pod
  };
  State state = State::kWaiting;
  std::string waiting_for;       // with kReady: of a refused claim that waits for its Pod
  bool awaits_snapshot = false;  // to be ready: the driver works, or the controller is away
  std::string driver;            // "" until known, like what follows
  std::string snapshot_handle;
  std::string storage_class;  // of the claim
  int64_t size_bytes = 0;     // of the claim
  std::optional<absl::Time> snapshot_taken_at;
  std::optional<absl::Time> ready_at;
  std::optional<MovedGroup> group;  // that the snapshot was taken with
  // The nodes that reach the source's volume, if the class waits for its first consumer. For the
  // Pod's spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.
  objects::NodeSelector node_affinity;
};

// Advances as far as it can without waiting. To be called again until the Pod runs, also after
// kReady: a PVC that waits for its first consumer may fail later. REQUIRES labels. Errors:
//   FAILED_PRECONDITION  permanently: the source is gone, or its driver has no block devices or
//                        refuses; names driver, reason and remediation
//   INVALID_ARGUMENT     `request` is not usable
// and errors of the API server.
absl::StatusOr<Exposure> ExposeSnapshot(const CallContext& ctx, k8s::ApiClient& api,
                                        const ExposeRequest& request);

// The VolumeSnapshots that backups make: the sources.
k8s::WatchedObjects SourceSnapshots();

enum class SnapshotAction { kKeep, kDelete };

// Requests the deletion of all that ExposeSnapshot() made, even if half made. kDelete also deletes
// the driver's snapshot and the source. The PVC's volume is deleted whatever its class says.
// REQUIRES a name and labels. Idempotent; waits for nothing. The Pod that uses the PVC is the
// caller's.
absl::Status RemoveExposure(const CallContext& ctx, k8s::ApiClient& api,
                            const ExposeRequest& request, SnapshotAction action);

// Drivers that serve file systems only: their PVCs never become a block device. Each by its
// registered name, or as the end of a name that begins with the operator's namespace.
const std::vector<absl::string_view>& FileOnlyDrivers();
bool HasNoBlockDevices(absl::string_view driver);

// The rule of a volume policy that leaves volumes of `driver` to Velero's file-system backup, for
// messages.
std::string ExcludingPolicyRule(absl::string_view driver);

}  // namespace csidelta::csi
