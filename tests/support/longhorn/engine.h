#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace csidelta::longhorn_stand_in {

// The live end of every chain: in the engine's list, but not a snapshot.
inline constexpr char kVolumeHead[] = "volume-head";
// Entries of a chain, the volume head and removed snapshots included.
inline constexpr int kChainEntriesMax = 250;
inline constexpr int kSnapshotMaxCountDefault = 250;
// A replica's file of a snapshot with a longer name has a name beyond 255 bytes.
inline constexpr std::size_t kSnapshotNameBytesMax = 230;
inline constexpr int64_t kEngineBlockBytes = 4096;
inline constexpr absl::Duration kPurgeTime = absl::Seconds(1);

// An entry of a chain, as the engine lists it.
struct ChainEntry {
  std::string parent = {};              // "" for the oldest
  std::set<std::string> children = {};  // kVolumeHead for the newest
  bool is_removed = false;              // marked; it stays in the chain until it is purged
  bool is_user_created = true;
  absl::Time taken_at = absl::UnixEpoch();  // whole seconds
  int64_t size_bytes = 0;                   // of its own blocks
  std::map<std::string, std::string> labels = {};

  bool operator==(const ChainEntry&) const = default;
};

// The engine of one volume: a chain of snapshots in memory that keeps the rules of the Longhorn v1
// engine (longhorn-engine: pkg/controller/control.go, pkg/replica/replica.go), with the texts of
// its errors. Has no clock: callers say what time it is. Not thread-safe.
//
// Each entry holds the blocks that were written while it was the live end. Coalescing moves those
// of a removed snapshot into its only child; the newest one cannot be coalesced, because its child
// is live, and loses what the head overwrote. Neither changes what the volume or another snapshot
// reads.
class Engine {
 public:
  explicit Engine(int64_t size_bytes) : size_bytes_(size_bytes) {}

  // FAILED_PRECONDITION: a limit, or the engine does not run. ALREADY_EXISTS: the name is in the
  // chain. INTERNAL: the name is too long for a file; then all replicas are in error.
  absl::Status TakeSnapshot(const std::string& name, bool is_user_created,
                            const std::map<std::string, std::string>& labels, absl::Time now);
  // NOT_FOUND. Marks it only.
  absl::Status RemoveSnapshot(const std::string& name);
  // Marks all system snapshots as removed, too. ALREADY_EXISTS while a purge is under way.
  absl::Status StartPurge(absl::Time now);
  // Ends the purge that should be over by now.
  void Advance(absl::Time now);
  // What was written since is gone. FAILED_PRECONDITION with a frontend; NOT_FOUND: there is no
  // such snapshot, or it was removed.
  absl::Status Revert(const std::string& name);
  // FAILED_PRECONDITION when more snapshots exist than the new limit allows.
  absl::Status SetSnapshotMaxCount(int count);

  // Takes the system snapshot "expand-<bytes>" first. Errors of TakeSnapshot().
  absl::Status Expand(int64_t size_bytes, absl::Time now);

  // The whole chain, kVolumeHead included.
  std::map<std::string, ChainEntry> Entries() const;
  bool Has(const std::string& name) const { return layers_.contains(name); }
  bool IsRemoved(const std::string& name) const;

  void Write(int64_t block, const std::string& data);
  // As the snapshot, or kVolumeHead, has it; "" where nothing was written.
  std::string Read(const std::string& name, int64_t block) const;
  // All blocks that were written, as Read() has them.
  std::map<int64_t, std::string> Contents(const std::string& name) const;

  void Start() { is_running_ = true; }
  void Stop() { is_running_ = false; }
  // The replicas are taken as they are, as automatic salvage does.
  void Salvage() { is_faulted_ = false; }
  void SetFrontend(bool on) { has_frontend_ = on; }

  bool is_running() const { return is_running_; }
  bool is_faulted() const { return is_faulted_; }
  bool is_purging() const { return purge_end_.has_value(); }
  int snapshot_max_count() const { return snapshot_max_count_; }
  int64_t size_bytes() const { return size_bytes_; }

 private:
  struct Layer {
    std::string parent = {};
    bool is_removed = false;
    bool is_user_created = true;
    absl::Time taken_at = absl::UnixEpoch();
    std::map<std::string, std::string> labels = {};
    std::map<int64_t, std::string> blocks = {};
  };

  int CountUsed() const;
  std::vector<std::string> ChildrenOf(const std::string& name) const;
  void FinishPurge();
  void PurgeOne(const std::string& name);

  std::map<std::string, Layer> layers_ = {{kVolumeHead, {}}};
  int64_t size_bytes_;
  int snapshot_max_count_ = kSnapshotMaxCountDefault;
  bool is_running_ = false;
  bool is_faulted_ = false;
  bool has_frontend_ = false;
  std::optional<absl::Time> purge_end_;
};

// The engine processes of all volumes, which live on while Longhorn's manager is stopped.
// Thread-safe.
class Engines {
 public:
  // Told of each snapshot of a volume that has come or gone, before anybody else can know of it.
  using Observer =
      std::function<void(const std::string& volume, const std::string& name, bool is_there)>;

  explicit Engines(Observer observer = nullptr) : observer_(std::move(observer)) {}

  void Ensure(const std::string& volume, int64_t size_bytes);
  void Remove(const std::string& volume);
  bool Has(const std::string& volume) const;

  // A call to the process, counted. UNAVAILABLE when it does not run; NOT_FOUND for an unknown
  // volume; errors of `call`, which runs with a lock held.
  absl::Status Call(const std::string& volume, absl::FunctionRef<absl::Status(Engine&)> call);
  // What is not a call: starting and stopping it, and what a workload does. False for an unknown
  // volume.
  bool Handle(const std::string& volume, absl::FunctionRef<void(Engine&)> change);

  int64_t call_count(const std::string& volume) const;
  int purging_count() const;

 private:
  struct Process {
    Engine engine;
    int64_t calls = 0;
    std::set<std::string> told = {};  // of which the observer knows
  };

  void Tell(const std::string& volume, Process& process);

  const Observer observer_;
  mutable std::mutex mutex_;
  std::map<std::string, Process> processes_;  // Guarded by mutex_; by volume.
};

}  // namespace csidelta::longhorn_stand_in
