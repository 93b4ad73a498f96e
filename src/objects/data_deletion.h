#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "objects/object.h"

namespace csidelta::objects {

enum class DeletionPhase { kNone, kWaiting, kInProgress, kCompleted, kFailed };
// "InProgress"; "" for kNone.
std::string ToString(DeletionPhase phase);

// Why an attempt came to nothing.
enum class DeletionTrouble {
  kNone,
  kLocked,    // another client uses the repository
  kRetained,  // the bucket does not allow removal yet: object lock
  kFailed,
};
// "Locked"; "" for kNone.
std::string ToString(DeletionTrouble trouble);

inline constexpr std::size_t kLocksMax = 64;  // that a deletion remembers

// A lock of a repository, and when attempts met it first and last.
struct SeenLock {
  std::string id = {};
  absl::Time since = absl::InfinitePast();
  absl::Time until = absl::InfinitePast();
};

struct DataDeletionSpec {
  std::string location = {};     // the BackupStorageLocation
  std::string snapshot_id = {};  // as status.snapshotID of the DataUpload has it; from anybody
  std::string backup = {};
  // Not "": what the worker of the DataUpload of this uid stored, if anything, is meant instead of
  // the snapshot that snapshot_id names.
  std::string upload = {};
  // With `upload`: no worker of it runs any more.
  bool worker_ended = false;
};

struct DataDeletionStatus {
  DeletionPhase phase = DeletionPhase::kNone;
  std::string message = {};
  DeletionTrouble trouble = DeletionTrouble::kNone;  // of the last attempt
  std::optional<absl::Time> trouble_since = {};
  std::vector<SeenLock> locks = {};  // that the last attempt met
  int64_t attempts = 0;              // that were begun
  std::optional<absl::Time> started_at = {};
  std::optional<absl::Time> next_attempt_at = {};
  std::optional<absl::Time> completed_at = {};
};

// A request to delete the data of one DataUpload, which may be gone from the cluster; in the
// namespace of Velero. deploy/chart/crds/datadeletion.yaml is its schema.
class DataDeletion : public ObjectOf<DataDeletion> {
 public:
  static constexpr KindName kKind = {"mover.csi-delta.io", "v1alpha1", "datadeletions",
                                     "DataDeletion"};

  DataDeletionSpec spec() const;
  DeletionPhase phase() const;
  DataDeletionStatus status() const;
  // With all fields of one that is about `upload`.
  void SetSpec(const DataDeletionSpec& spec);
  // The spec of one of a snapshot in a BackupStorageLocation, as DataUpload::snapshot_id() names
  // it; that of a Backup.
  void SetSnapshot(absl::string_view location, absl::string_view snapshot_id,
                   absl::string_view backup) {
    Set({"spec"},
        {{"backupStorageLocation", location}, {"snapshotID", snapshot_id}, {"backup", backup}});
  }
};

}  // namespace csidelta::objects
