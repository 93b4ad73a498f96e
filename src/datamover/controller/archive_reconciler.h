#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "datamover/mover_environment.h"
#include "k8s/api_client.h"
#include "objects/data_transfer.h"
#include "objects/event_handler.h"

namespace csidelta::datamover {

// How often a Backup with completed DataUploads is read until it is over, however many DataUploads
// it has.
inline constexpr absl::Duration kArchiveReadEvery = absl::Seconds(30);

// Reconciles completed DataUploads until their Backup is over, too. Velero writes a DataUpload into
// the backup's archive at the very end. Only DataUploads in the archive are restored, and deleted
// with the backup.
//
//   Backup, of the very uid that the DataUpload names as its owner    what was moved
//   ---------------------------------------------------------------   ---------------------------
//   Completed, PartiallyFailed; the upload is marked as archived, or  is in the archive: stays
//     it was not to be marked
//   Completed, PartiallyFailed; a mark is still awaited: the plugin   is in none: deleted, once
//     died over the claim, or Velero lost the operation
//   Failed: it never finished                                         is in none: deleted, once
//   any other phase                                                   is read again
//   gone, or another one of that name                                 stays: the reason is not known
//
// The data to delete is found by the upload's own tag, so that no field of a DataUpload can name
// the data of another. Borrows `env`.
class ArchiveReconciler : public objects::Reconciler<objects::DataUpload> {
 public:
  explicit ArchiveReconciler(const MoverEnvironment& env) : env_(env) {}

  // Records which Backups of Velero's namespaces have archives. Called before the DataUploads are
  // listed, so that those of earlier nights are not kept until each Backup was read. Without it
  // they only take more memory for a while.
  absl::Status RecordBackups(const CallContext& ctx);

 private:
  struct Backup {
    std::string uid, phase;  // "": it is not there
    absl::Time read_at = absl::InfinitePast();
  };
  absl::StatusOr<absl::Time> ReconcileOne(const CallContext& ctx,
                                          const objects::DataUpload& object) override;
  bool IsConcerned(const objects::DataUpload& object) const override;
  void ReduceOne(objects::DataUpload& object) const override;
  absl::StatusOr<Backup> BackupAsRead(const CallContext& ctx, const k8s::ObjectKey& key);
  absl::StatusOr<bool> IsAwaited(const CallContext& ctx, const objects::DataUpload& object);
  absl::Status RequestRemoval(const CallContext& ctx, const objects::DataUpload& object,
                              const char* reason, const std::string& why);

  const MoverEnvironment& env_;
  mutable Mutex mutex_;
  std::set<std::string> over_ ABSL_GUARDED_BY(mutex_);  // Uids of Backups with archives
  // Backups that go on, by namespace and name.
  std::map<std::pair<std::string, std::string>, Backup> going_on_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace csidelta::datamover
