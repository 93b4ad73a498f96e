#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "tests/support/driver_habits.h"

namespace csidelta::support {

// How the driver answers some of its calls.
struct DriverFault {
  std::string method = "*";  // CreateVolume, CreateSnapshot, DeleteSnapshot, ListSnapshots, ...
  std::string match = {};    // part of the volume's or the snapshot's handle; "": all of them
  std::string code = {};     // name of a gRPC code, "Internal"; "": the call succeeds
  std::string message = {};
  int times = -1;               // so many calls; -1: all until ClearFaults()
  int every = 1;                // each so-many-th matching call
  bool hold = false;            // there is not an answer
  bool works = false;           // the call does its work before it fails
  bool not_ready = false;       // what it returns is not ready to use
  std::string leaves_out = {};  // the volume that a group lacks
};

// A CSI driver in memory: volumes with data, snapshots of them, groups of snapshots. Creating is
// idempotent by name, as the specification asks. Thread-safe.
class FakeStorageDriver {
 public:
  struct Snapshot {
    std::string handle = {};
    std::string volume = {};
    std::string group = {};  // handle of the group; "" for one that was taken alone
    std::string data = {};
    int64_t size_bytes = 0;
    int64_t cut_at_nanoseconds = 0;
    bool ready = true;
  };
  struct Group {
    std::string handle;
    std::vector<Snapshot> members;
    bool ready = true;
  };

  DriverHabits habits;
  const Clock* clock = nullptr;  // of habits that take time; null: they take none
  bool takes_groups = true;
  bool lists_snapshots = true;
  // Handles that the driver did not give are taken for snapshots that it holds.
  bool takes_any_handle = true;
  int64_t size_bytes = 64 << 20;
  int64_t cut_at_nanoseconds = 1'700'000'000'500'000'000;  // 0: now

  // Each returns the error as the sidecar writes it, "rpc error: code = X desc = Y". A held call is
  // CANCELLED.
  absl::Status CreateVolume(const std::string& handle, const std::string& snapshot,
                            int64_t required_bytes = 0);
  absl::Status CheckModes(const std::vector<std::string>& access_modes, bool is_block) const;
  // Of the node: what the kubelet is told for a Pod that uses a volume of these modes.
  absl::Status PublishVolume(const std::vector<std::string>& access_modes, bool is_block) const;
  absl::Status ExpandVolume(const std::string& handle);
  absl::Status DeleteVolume(const std::string& handle);
  absl::StatusOr<Snapshot> CreateSnapshot(const std::string& handle, const std::string& volume);
  absl::Status DeleteSnapshot(const std::string& handle);
  absl::StatusOr<Snapshot> SnapshotStatus(const std::string& handle);
  absl::StatusOr<Group> CreateGroup(const std::string& handle, const std::string& base_name,
                                    const std::vector<std::string>& volumes);
  // `secret`: the name of the Secret that comes with the call; "": none.
  absl::Status DeleteGroup(const std::string& handle, const std::set<std::string>& members,
                           const std::string& secret = "");
  absl::Status GroupStatus(const std::string& handle);

  // Whether an error of the above leaves open if the call did its work: Unavailable and the like.
  static bool IsOpen(const absl::Status& status);

  void AddFault(DriverFault fault);
  // All calls of `method` fail; or have no answer.
  void Refuse(const std::string& method, const std::string& code, const std::string& message) {
    AddFault({.method = method, .code = code, .message = message});
  }
  void Hold(const std::string& method) { AddFault({.method = method, .hold = true}); }
  void ClearFaults();
  int CallCount(const std::string& method) const;

  std::set<std::string> snapshots() const;  // taken alone
  std::map<std::string, std::set<std::string>> groups() const;
  std::map<std::string, std::string> volumes() const;  // handle: data
  void AddSnapshot(const std::string& handle, const std::string& volume = "");
  void AddGroup(const std::string& handle, const std::set<std::string>& members);
  void RemoveSnapshot(const std::string& handle);
  void Write(const std::string& volume, const std::string& data);
  // Snapshots that were asked for alone although a group has them.
  std::vector<std::string> asked_alone() const;
  // The Secrets of the calls of DeleteGroup that succeeded.
  std::vector<std::string> group_secrets() const;

 private:
  struct Verdict {
    absl::Status status;
    bool works = true;
    bool ready = true;
    std::string leaves_out = {};
  };
  Verdict Judge(const std::string& method, const std::string& subject);
  absl::Time Now() const { return clock == nullptr ? absl::UnixEpoch() : clock->Now(); }
  int SnapshotCount(const std::string& volume) const;
  absl::Status CheckHabits(const std::string& handle, const std::string& volume);
  Snapshot Cut(const std::string& handle, const std::string& volume, bool ready);

  mutable std::mutex mutex_;
  std::map<std::string, std::string> volumes_;
  std::map<std::string, Snapshot> snapshots_;
  std::map<std::string, std::set<std::string>> groups_;
  std::vector<DriverFault> faults_;
  std::map<std::string, int> calls_;
  std::set<std::string> clones_;                 // volumes that were made of snapshots
  std::map<std::string, absl::Time> asked_at_;   // by snapshot, deleted ones included
  std::map<std::string, absl::Time> latest_at_;  // by volume: its newest snapshot
  std::vector<std::string> asked_alone_;
  std::vector<std::string> group_secrets_;
};

}  // namespace csidelta::support
