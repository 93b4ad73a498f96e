#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "datamover/mover_environment.h"
#include "datamover/presence.h"
#include "datamover/records/volume_records.h"
#include "k8s/heartbeat.h"
#include "objects/data_deletion.h"
#include "objects/data_transfer.h"
#include "objects/patch.h"
#include "objects/persistent_volume.h"
#include "objects/protected_volume.h"

namespace csidelta::datamover {

// The pause between two writes: after an upgrade each existing volume needs two.
inline constexpr absl::Duration kRecordWriteEvery = absl::Milliseconds(50);
// The pause after a failed write.
inline constexpr absl::Duration kRecordWriteAgain = absl::Seconds(30);
// How often the PVC of a record is read; each record's at another time.
inline constexpr absl::Duration kRecordPvcEvery = absl::Hours(1);

// Writes the records of volumes by their DataUploads and DataDownloads, none of which waits for it:
//
//   DataUpload accepted, no record yet --> the record is created
//   DataUpload ended ---------------------> one patch of its status
//   DataDownload completed ---------------> likewise
//   DataDeletion of the last good backup
//   completed -----------------------------> the last good backup is the newest other one of the
//                                           DataUploads that there are and whose Backup is there,
//                                           or none
//   each hour ----------------------------> the PVC is read; a record whose PVC is gone says so,
//                                           and is deleted after RecordSettings::keep_after_pvc. The
//                                           Backup is read: one that was missed for
//                                           kMissingGracePeriod counts as deleted
//
// All writes are derived from the objects in the cluster. So a controller that starts writes what
// the previous one did not, and what records lack after an upgrade. Only a DataUpload that was
// deleted before its record was written is lost.
//
// Thread-safe; one thread writes.
class VolumeRecordWriter {
 public:
  struct Seams {
    std::function<bool()> leads;      // whether this process may write
    std::function<bool()> is_synced;  // whether all DataUploads and records are known
    // Whether a repository snapshot, as DataUpload::snapshot_id() names it, was deleted. It knows
    // each DataDeletion that was recorded here.
    std::function<bool(absl::string_view snapshot_id)> is_deleted;
  };

  // Borrows `env` and `records`.
  VolumeRecordWriter(const MoverEnvironment& env, VolumeRecords& records, Seams seams);

  // An object as it was seen, in any order and any number of times.
  void Record(const objects::DataUpload& upload);
  void Record(const objects::DataDownload& download);
  void Record(const objects::DataDeletion& deletion);
  // The record was added, changed or deleted.
  void Enqueue(const VolumeRecordKey& key);

  // Writes until `ctx` ends.
  void Work(const CallContext& ctx);
  // Writes what is due now, in this thread.
  void WorkOnce(const CallContext& ctx);

  // Of both.
  const k8s::Heartbeat& heartbeat() const { return heartbeat_; }

 private:
  using EndKey = std::pair<absl::Time, std::string>;  // of an upload: when it ended, its uid

  // What objects show and the record may not have yet.
  struct Pending {
    objects::ProtectedVolumeSpec spec;  // without a uid: no reason to make a record
    std::optional<objects::LastGoodBackup> good;
    objects::RepositorySize repository;  // as of `good`
    std::optional<objects::LastAttempt> attempt;
    std::set<EndKey> failed;  // after `good`
    std::optional<absl::Time> restored_at;
    uint64_t version = 0;  // counts what was noted
  };
  struct Entry {
    std::unique_ptr<Pending> pending = nullptr;  // mostly none
    absl::Duration due = absl::InfiniteDuration();
    absl::Duration pvc_due = absl::InfiniteDuration();
  };
  struct Taken {
    VolumeRecordKey key;
    Pending pending;
    bool is_pvc_due = false;
  };
  // The result of a write.
  struct WriteResult {
    bool is_written = true;  // all that its pending say
    bool has_asked = false;  // a request was made to the API server
  };

  // The records whose last good backup this is: a PVC that was restored is in the repository of
  // another one.
  std::vector<VolumeRecordKey> KeysOf(absl::string_view snapshot_id) const;
  template <typename Change>
  void RecordChange(const VolumeRecordKey& key, const Change& change);
  void Schedule(const VolumeRecordKey& key, Entry& entry, absl::Duration due)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<Taken> Take(absl::Duration now);
  void Settle(const Taken& taken, bool is_written, absl::Duration now);

  absl::StatusOr<WriteResult> WriteOne(const CallContext& ctx, const Taken& taken);
  absl::StatusOr<std::optional<ProtectedVolumeRecord>> Make(const CallContext& ctx,
                                                            const Taken& taken);
  absl::StatusOr<WriteResult> Remove(const CallContext& ctx, const ProtectedVolumeRecord& record);
  // Nothing if the PVC is gone. Without a name if it cannot be read (no permission).
  absl::StatusOr<std::optional<objects::PersistentVolumeClaim>> ReadPvc(
      const CallContext& ctx, const objects::ProtectedVolumeSpec& spec);
  // Brings `record` to what the pending say, and returns how.
  static objects::Patch Merge(const Pending& pending, ProtectedVolumeRecord& record);
  static void MergeEnd(const Pending& pending, ProtectedVolumeRecord& record,
                       objects::Patch& patch);
  // Takes from the pending a good backup that was deleted since.
  void DropDeleted(const ProtectedVolumeRecord& record, Pending& pending) const;
  absl::StatusOr<bool> IsLastGoodGone(const CallContext& ctx, const Taken& taken,
                                      const ProtectedVolumeRecord& record);
  // Replaces the last good backup of `record`, which was deleted.
  absl::Status FallBack(const CallContext& ctx, ProtectedVolumeRecord& record,
                        objects::Patch& patch);
  absl::StatusOr<std::optional<objects::LastGoodBackup>> NewestLeft(
      const CallContext& ctx, const ProtectedVolumeRecord& record) const;
  void MergeBase(ProtectedVolumeRecord& record, objects::Patch& patch) const;

  const MoverEnvironment& env_;
  VolumeRecords& records_;
  const RecordSettings& rules_;
  const Seams seams_;
  ObjectPresence presence_;  // of Backups; of the thread that writes
  k8s::Heartbeat heartbeat_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::map<VolumeRecordKey, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<absl::Duration, VolumeRecordKey>> queue_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace csidelta::datamover
