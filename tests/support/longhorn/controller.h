#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/clock.h"
#include "base/json.h"
#include "k8s/api_client.h"
#include "k8s/informer.h"
#include "tests/support/longhorn/admission.h"
#include "tests/support/longhorn/engine.h"
#include "tests/support/longhorn/record_table.h"
#include "tests/support/longhorn/records.h"
#include "tests/support/longhorn/work_queue.h"

namespace csidelta::longhorn_stand_in {

// How often the engine monitor calls a running engine; longhorn-manager: EnginePollInterval.
inline constexpr absl::Duration kMonitorInterval = absl::Seconds(5);
// From a change of an object until the controller looks at it.
inline constexpr absl::Duration kReactionTime = absl::Milliseconds(200);
inline constexpr absl::Duration kAttachTime = absl::Seconds(2);
inline constexpr absl::Duration kDetachTime = absl::Seconds(1);
// From a fault of all replicas until the volume is salvaged and started again.
inline constexpr absl::Duration kSalvageTime = absl::Seconds(8);
// Until an engine that is being upgraded is looked at again.
inline constexpr absl::Duration kUpgradeWaitTime = absl::Seconds(3);
// While a purge is under way, or others use up their limit.
inline constexpr absl::Duration kPurgeWaitTime = absl::Seconds(1);
// A clone: from its creation until the copy begins, the copy, and how often its source is looked
// at meanwhile. A failed one is tried again after kCloneRetryTime x 2^attempts, up to ten times.
inline constexpr absl::Duration kCloneBeginTime = absl::Seconds(3);
inline constexpr absl::Duration kCloneCopyTime = absl::Seconds(5);
inline constexpr absl::Duration kCloneLookTime = absl::Seconds(1);
inline constexpr absl::Duration kCloneRetryTime = absl::Seconds(30);
// Setting snapshot-heavy-task-concurrent-limit.
inline constexpr int kPurgesMax = 5;

struct ControllerOptions {
  std::string namespace_name = "longhorn-system";
  // Of the original proposal: a Volume stays until all of its snapshots were removed.
  bool as_proposed = false;
};

// What becomes of a new Snapshot whose status was written by another program, as a restore does.
// All three were seen on longhorn-manager 5ddaa369; it depends on which write comes first. In each
// of them a snapshot of today's data is taken.
enum class RestoredStatusEnd {
  kStays,     // the object stays, and is ready (4 of 6 runs)
  kReplaced,  // it is lost and deleted; another object of the name shows the snapshot (2 of 6)
  kRemoved,   // it is lost and deleted, and the engine's entry is marked as removed (once before)
};

// What a test changes while the controller runs.
struct Switches {
  // Longhorn up to 1.10: a deletion attaches a detached volume. Since 1.11 it hangs.
  bool attaches_to_delete = false;
  bool purge_is_disabled = false;  // setting disable-snapshot-purge
  // Clones stay in this state of cloneStatus ("" is the first), unless their source goes.
  std::optional<std::string> holds_clones_at = {};
  RestoredStatusEnd restored_status_end = RestoredStatusEnd::kStays;
  // How long an engine is busy with one snapshot. About 1 s and 3 s were seen on a real one.
  absl::Duration cut_time = absl::ZeroDuration();
  absl::Duration removal_time = absl::ZeroDuration();
};

// Whether a volume may be attached: a clone only when its data is copied.
bool MayAttach(const VolumeRecord& volume);

// Longhorn's controllers for volumes and snapshots, with the engine monitor, as far as a client of
// snapshots.longhorn.io can tell (longhorn-manager: controller/snapshot_controller.go,
// engine_controller.go, volume_controller.go).
//
// Learns of objects by its followers, which it owns and any thread may feed; works in Work(), in
// one thread. There is no resync: a key is queued when an object changes, and each running engine
// is called once per kMonitorInterval. Objects outside its namespace are ignored. Forgets nothing
// that matters when it is destroyed: another one goes on from the objects and the engines.
class Controller : public VolumeLookup {
 public:
  Controller(k8s::ApiClient& api, Engines& engines, const Clock& clock, ControllerOptions options);

  k8s::ObjectEventHandler& snapshots() { return snapshots_; }
  k8s::ObjectEventHandler& volumes() { return volumes_; }
  k8s::ObjectEventHandler& engines() { return engine_objects_; }
  k8s::ObjectEventHandler& attachments() { return attachments_; }

  // Does all that is due, once all followers have a list; returns when there is more to do.
  absl::Time Work(const CallContext& ctx);

  void SetSwitches(const Switches& switches);

  // Keys queued since the beginning. Calls of the monitor are not queued.
  int64_t queued() const { return queue_.added(); }

  // For the webhooks: those of the controller's namespace.
  std::optional<Json> FindVolume(const std::string& name) const override;
  std::string VolumeWithLabel(const std::string& key, const std::string& value) const override;
  int ShownSnapshots(const std::string& volume) const override;

 private:
  struct Process {
    bool is_running = false;
    bool is_faulted = false;
  };

  absl::Time Soon() const { return clock_.Now() + kReactionTime; }
  Switches switches() const;
  std::set<std::string> SnapshotsOf(const std::string& volume) const;
  bool TakeNew(const std::string& snapshot);
  Process Look(const std::string& volume);

  void OnSnapshot(const std::string& name, const std::optional<SnapshotRecord>& before,
                  const std::optional<SnapshotRecord>& after);
  void OnEngine(const std::optional<EngineRecord>& before,
                const std::optional<EngineRecord>& after);
  void OnVolume(const std::string& name);

  void Handle(const CallContext& ctx, const WorkKey& key);
  absl::Status Reconcile(const CallContext& ctx, const WorkKey& key);

  // Volumes and their engines.
  absl::Status ReconcileVolume(const CallContext& ctx, const std::string& name);
  absl::Status EnsureParts(const CallContext& ctx, const VolumeRecord& volume);
  absl::Status MoveProcess(const CallContext& ctx, const VolumeRecord& volume);
  absl::Status MoveFaulted(const CallContext& ctx, const VolumeRecord& volume, bool is_wanted);
  absl::Status DeleteVolume(const CallContext& ctx, const VolumeRecord& volume);
  absl::Status DeleteSnapshotsOf(const CallContext& ctx, const std::string& volume);
  absl::Status ShowState(const CallContext& ctx, const VolumeRecord& volume,
                         const std::string& state, const std::string& robustness);
  absl::Status ShowEngine(const CallContext& ctx, const std::string& volume);
  void Monitor(const CallContext& ctx, const std::string& volume);
  absl::Status SyncObjects(const CallContext& ctx, const std::string& volume);

  // Clones: controller_clones.cc.
  absl::Status MoveClone(const CallContext& ctx, const VolumeRecord& volume);
  absl::Status FailClone(const CallContext& ctx, const VolumeRecord& volume);
  absl::Status ShowClone(const CallContext& ctx, const VolumeRecord& volume,
                         const std::string& state, int attempts);
  bool HasCloneSource(const VolumeRecord& volume);
  void CopyData(const VolumeRecord& volume);
  // An object of this name is gone: clones whose engine has an entry of it get one.
  void LookAtClonesOf(const std::string& snapshot);

  // Snapshots: controller_snapshots.cc.
  absl::Status ReconcileSnapshot(const CallContext& ctx, const std::string& name);
  // Whether its engine is at work on another one; then it is queued for later.
  bool WaitsForEngine(const SnapshotRecord& snapshot);
  absl::Status RequestSnapshot(const CallContext& ctx, const SnapshotRecord& snapshot,
                               const EngineRecord& engine);
  absl::Status ReconcileDeleted(const CallContext& ctx, const SnapshotRecord& snapshot);
  absl::Status RemoveInEngine(const CallContext& ctx, const SnapshotRecord& snapshot,
                              const EngineRecord& engine, const ChainEntry* entry);
  absl::Status Release(const CallContext& ctx, const SnapshotRecord& snapshot);
  absl::Status ShowEntry(const CallContext& ctx, const SnapshotRecord& snapshot,
                         const EngineRecord& engine, const ChainEntry& entry);
  absl::Status ShowError(const CallContext& ctx, const SnapshotRecord& snapshot,
                         const std::string& error);
  absl::Status EnsureTicket(const CallContext& ctx, const SnapshotRecord& snapshot);
  absl::Status DropTicket(const CallContext& ctx, const SnapshotRecord& snapshot);

  // Writes; an object that is gone is none.
  k8s::ObjectKey Key(const k8s::ResourceType& type, const std::string& name) const;
  absl::Status ReplaceStatus(const CallContext& ctx, const k8s::ObjectKey& key,
                             const std::string& resource_version, const Json& status);
  absl::Status Merge(const CallContext& ctx, const k8s::ObjectKey& key, const Json& patch,
                     const char* subresource);
  absl::Status SetFinalizer(const CallContext& ctx, const k8s::ObjectKey& key,
                            const std::string& resource_version,
                            const std::vector<std::string>& finalizers, bool is_wanted);
  absl::Status Delete(const CallContext& ctx, const k8s::ObjectKey& key, const std::string& uid);
  absl::Status Create(const CallContext& ctx, const k8s::ResourceType& type, Json object,
                      const char* api_version = "longhorn.io/v1beta2");

  k8s::ApiClient& api_;
  Engines& processes_;
  const Clock& clock_;
  const ControllerOptions options_;
  WorkQueue queue_;
  WorkQueue monitors_;
  RecordTable<SnapshotRecord> snapshots_;
  RecordTable<VolumeRecord> volumes_;
  RecordTable<EngineRecord> engine_objects_;  // by name, which follows from the volume's
  RecordTable<AttachmentRecord> attachments_;
  mutable std::mutex mutex_;
  std::map<std::string, std::set<std::string>> by_volume_;  // Guarded by mutex_; snapshots.
  Switches switches_;                                       // Guarded by mutex_.
  // Guarded by mutex_. Snapshots to be taken that were not looked at yet: the first look is at what
  // the object was then, whatever was written into its status since.
  std::set<std::string> new_;
  // When a clone leaves the state (and attempt) that `key` names; Work()'s own.
  struct Clone {
    std::string key = "?";
    absl::Time due = absl::InfinitePast();
  };
  std::map<std::string, Clone> clones_;
  std::set<std::string> restored_;  // taken with a restored status, not shown yet; Work()'s own
  std::map<std::string, absl::Time> busy_until_;  // engines, by volume; Work()'s own
  // When a volume's process will be where it should be; Work()'s own.
  std::map<std::string, absl::Time> moves_;
};

}  // namespace csidelta::longhorn_stand_in
