#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "objects/object.h"
#include "objects/outcome.h"

namespace csidelta::objects {

// Which PVC is protected, and where its backups go.
struct ProtectedVolumeSpec {
  std::string pvc_namespace = {};
  std::string pvc = {};
  std::string pvc_uid = {};
  std::string location = {};  // the BackupStorageLocation
};

// The newest upload that was completed, and whose data was not deleted.
struct LastGoodBackup {
  std::string backup = {};                  // of Velero
  std::string upload = {};                  // uid of the DataUpload
  std::string snapshot_id = {};             // as status.snapshotID of the DataUpload has it
  std::optional<absl::Time> taken_at = {};  // the VolumeSnapshot
  std::optional<absl::Time> completed_at = {};
  std::string mode = {};    // "full", "incremental"
  std::string reason = {};  // of a full one
  int64_t logical_bytes = 0;
  int64_t changed_bytes = 0;
  int64_t stored_bytes = 0;

  // The time that it restores, as far as that is known.
  std::optional<absl::Time> recovery_point() const {
    return taken_at.has_value() ? taken_at : completed_at;
  }
};

// The last good backup before its data or its Backup was deleted.
struct DeletedBackup {
  std::string backup = {};  // of Velero
  std::string upload = {};  // uid of the DataUpload
};

// The newest upload, whatever became of it.
struct LastAttempt {
  std::string backup = {};
  std::string upload = {};
  std::string phase = {};  // as the DataUpload has it: "Failed"
  std::optional<absl::Time> at = {};
  std::string message = {};
};

// Data of the volume that the storage has lost, by its own report.
struct LostData {
  std::string backup = {};   // of Velero: the last good one when it was seen; "": none existed
  std::string message = {};  // as the PVC has it
};

// The VolumeSnapshot that the next upload is compared with.
struct VolumeBase {
  std::string content = {};  // the VolumeSnapshotContent; "": none exists
  std::optional<absl::Time> taken_at = {};
};

// The state of the object locks on all objects that the repository's snapshots need.
struct LockRenewal {
  std::string mode = {};  // of the locks: "GOVERNANCE", "COMPLIANCE"
  int64_t days = 0;
  // When the newest run began that ended without a failure.
  std::optional<absl::Time> renewed_at = {};
  // Until then all needed objects are locked at least, by that run; nothing: not known.
  std::optional<absl::Time> locked_until = {};
  int64_t objects = 0;       // needed, by the newest run
  int64_t extended = 0;      // by the newest run
  std::string finding = {};  // of the newest run; "": it ended without a failure
};

// What checks of the repository found.
struct Verification {
  std::optional<absl::Time> at = {};  // the newest check
  // Since then all data that there was has been read at least once; nothing: not yet.
  std::optional<absl::Time> all_since = {};
  // When the round that is under way began: over all of its parts each pack is read once.
  std::optional<absl::Time> round_since = {};
  // All data written until then is known to be good, or was when it was new.
  std::optional<absl::Time> read_until = {};
  std::string finding = {};                      // "": all was good
  std::vector<std::string> broken_backups = {};  // which cannot be restored
  int64_t position = 0;                          // of the next part to be read, from 0
  int64_t parts = 0;                             // that the data is read in; 0: not begun
  int64_t read_bytes = 0;                        // by the newest check
  // Repository snapshots whose Backup, DataUpload and DataDeletion are gone: how many there are, at
  // least while `orphans` is full. `orphans` names them for people: "<id> of backup <name>, made at
  // <time>".
  int64_t orphaned_snapshots = 0;
  std::vector<std::string> orphans = {};  // at most kOrphansInRecordMax
  // Whose DataUpload is gone, and which name no Backup.
  int64_t unattributed_snapshots = 0;
  std::optional<RepositoryDamage> damage = {};  // set with `finding`
  std::optional<LockRenewal> locks = {};        // where the settings ask for it
};
inline constexpr std::size_t kOrphansInRecordMax = 20;

struct RepositorySize {
  std::optional<int64_t> bytes = {};
  std::optional<int64_t> snapshots = {};
  // What a restore of the last good backup needs: the memory limit of a worker, and its scratch
  // space.
  std::optional<int64_t> restore_memory_bytes = {};
  std::optional<int64_t> restore_scratch_bytes = {};
};

struct ProtectedVolumeStatus {
  std::optional<LastGoodBackup> last_good = {};
  std::optional<DeletedBackup> deleted_backup = {};  // since which no other was completed
  std::optional<LastAttempt> last_attempt = {};
  int64_t failures = 0;  // in a row, since the last good backup
  std::optional<VolumeBase> base = {};
  std::optional<Verification> verification = {};
  RepositorySize repository = {};
  std::optional<absl::Time> restored_at = {};  // the newest restore of a backup of it
  std::optional<absl::Time> pvc_gone_at = {};  // since when the PVC has not been there
  std::optional<LostData> lost_data = {};      // while the PVC reports it
  std::string next_step = {};                  // for people; "": nothing is to be done
};

// One PVC and BackupStorageLocation that backups were asked for, in the namespace of Velero. It
// outlives DataUploads, and knows volumes of which no backup ever succeeded.
// deploy/chart/crds/protectedvolume.yaml is its schema.
class ProtectedVolume : public ObjectOf<ProtectedVolume> {
 public:
  static constexpr KindName kKind = {"mover.csi-delta.io", "v1alpha1", "protectedvolumes",
                                     "ProtectedVolume"};

  // Of the record of a PVC and a location: "<uid of the PVC>-<8 hexadecimal digits>".
  static std::string NameOf(absl::string_view pvc_uid, absl::string_view location);

  ProtectedVolumeSpec spec() const;
  ProtectedVolumeStatus status() const;
  void SetSpec(const ProtectedVolumeSpec& spec);
  // Leaves of the status the last good backup and what checks found.
  void ReduceToChecks();
};

}  // namespace csidelta::objects
