#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/json.h"
#include "velero/data_reference.h"
#include "velero/data_upload.h"

// The kind DataDeletion (csi::DataDeletionType()): the wish to remove the data of one DataUpload,
// which may be gone from the cluster. deploy/chart/crds/datadeletion.yaml is its schema. All
// reading is pure, never throws, and takes a value of the wrong type for a missing one.
namespace csidelta::datamover {

enum class DeletionPhase { kNone, kWaiting, kInProgress, kCompleted, kFailed };
// "InProgress"; "" for kNone.
std::string ToString(DeletionPhase phase);

// Why an attempt came to nothing.
enum class DeletionTrouble {
  kNone,
  kLocked,    // somebody else uses the repository
  kRetained,  // the bucket lets nobody remove it yet: object lock
  kFailed,
};
// "Locked"; "" for kNone.
std::string ToString(DeletionTrouble trouble);

inline constexpr std::size_t kLocksMax = 64;  // that a deletion remembers

// A lock of a repository, and when attempts met it first and last.
struct SeenLock {
  std::string id;
  absl::Time since;
  absl::Time until;
};

struct DataDeletion {
  std::string namespace_name = {};  // of Velero
  std::string name = {};
  std::string uid = {};
  std::string location = {};     // the BackupStorageLocation
  std::string snapshot_id = {};  // as status.snapshotID of the DataUpload has it; from anybody
  std::string backup = {};
  // Not "": what the worker of the DataUpload of this uid stored, if anything, is meant instead of
  // the snapshot that snapshot_id names.
  std::string upload = {};
  // With `upload`: no worker of it runs any more.
  bool worker_ended = false;
  bool being_deleted = false;
  std::optional<absl::Time> created_at = {};

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

DataDeletion DataDeletionOf(const Json& object);

// The object to create for a DataUpload whose worker was given up before it said how it ended: it
// may store its snapshot yet, which nobody would know of; with `worker_ended` it stores nothing any
// more, but may have. `reference` says where.
Json MakeDeletionOfUnnamed(const velero::DataTransfer& upload,
                           const velero::DataReference& reference, bool worker_ended);
// Its status, as it is written; what is not set is null.
Json StatusJson(const DataDeletion& deletion);

}  // namespace csidelta::datamover
