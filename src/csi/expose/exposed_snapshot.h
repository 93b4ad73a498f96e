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
#include "objects/persistent_volume_claim.h"

// How a volume snapshot becomes readable to a Pod in another namespace, as a raw block device:
//
//   source VolumeSnapshot, ready
//       |  its content: Retain, confirmed by the API server
//       v
//   VolumeSnapshotContent `name`: the same handle, Retain, ours from here on
//       |
//       v
//   source VolumeSnapshot and its content deleted; the driver keeps the snapshot
//       |  VolumeSnapshot `name` in the mover's namespace
//       |  claim `name`, Block, filled from VolumeSnapshot `name`
//       v
//   ready --RemoveExposure, kKeep----> VolumeSnapshotContent `name` alone: it can be a base
//         --RemoveExposure, kDelete--> nothing, and the driver drops the snapshot
//
// What must outlive the source stands in annotations of the content. Every step looks first: it may
// be repeated, and another process may have done half of it.
namespace csidelta::csi {

// Claims of which the volume was looked at, and is the one that was made for them. A claim is bound
// for good, so one look is enough. The newest kExaminedClaimsMax are known. Thread-safe.
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
  std::string source_claim = {};     // which one the made claim says it stands for; "": none
  std::string mover_namespace;
  std::string storage_class = {};  // of the claim; "" for the source claim's
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations = {};  // of the content, beside its own
  // Of what is in the mover's namespace.
  std::optional<objects::OwnerReference> owner = {};
  bool read_only_many = false;    // the claim's access mode; an error on it falls back to
                                  // ReadWriteOnce, which the content remembers
  bool is_without_claim = false;  // goes no further than to a snapshot that is ready
  // Of what is made here, by its labels, and of sources, by theirs; null where nothing is watched.
  const k8s::ObjectCache* cache = nullptr;
  ExaminedClaims* examined = nullptr;  // null: the volume is looked at each time
};

struct Exposure {
  enum class State {
    kWaiting,  // for what waiting_for says
    kReady,    // a Pod may be made; the claim is bound, or waits for that Pod
  };
  State state = State::kWaiting;
  std::string waiting_for;
  bool awaits_snapshot = false;  // to be ready: the driver works, or the controller is away
  std::string driver;            // "" until known, like what follows
  std::string snapshot_handle;
  std::string storage_class;  // of the claim
  int64_t size_bytes = 0;     // of the claim
  std::optional<absl::Time> snapshot_taken_at;
  std::optional<absl::Time> ready_at;
  std::optional<MovedGroup> group;  // that the snapshot was taken with
  // What spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution of the Pod must
  // say: where the source's volume can be reached, for a class that waits for its first consumer.
  objects::NodeSelector node_affinity;
};

// Goes as far as it can without waiting. To be called again until the Pod runs, also after kReady:
// a claim that waits for its first consumer may fail later. Errors:
//   FAILED_PRECONDITION  permanently: the source is gone, or its driver has no block devices or
//                        refuses; names driver, reason and remediation
//   INVALID_ARGUMENT     `request` is not usable
// and what the API server says.
absl::StatusOr<Exposure> ExposeSnapshot(const CallContext& ctx, k8s::ApiClient& api,
                                        const ExposeRequest& request);

// The VolumeSnapshots that backups make, which are the sources.
k8s::WatchedObjects SourceSnapshots();

enum class SnapshotAction { kKeep, kDelete };

// Asks for the deletion of all that ExposeSnapshot() made, also half made; kDelete also of the
// driver's snapshot and of the source. The claim's volume goes whatever its class says. Idempotent;
// waits for nothing. The Pod that uses the claim is the caller's.
absl::Status RemoveExposure(const CallContext& ctx, k8s::ApiClient& api,
                            const ExposeRequest& request, SnapshotAction action);

// Drivers that serve file systems only: their claims never become a block device. Each as it
// registers, or as the end of a name that begins with the operator's namespace.
const std::vector<absl::string_view>& FileOnlyDrivers();
bool HasNoBlockDevices(absl::string_view driver);

// The rule of a volume policy that leaves volumes of `driver` to Velero's file-system backup, for
// messages.
std::string ExcludingPolicyRule(absl::string_view driver);

}  // namespace csidelta::csi
