#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "csi/base_snapshots.h"
#include "datamover/mover_environment.h"
#include "datamover/presence.h"
#include "datamover/records/base_use.h"
#include "datamover/records/volume_records.h"
#include "objects/data_deletion.h"
#include "objects/event_handler.h"
#include "objects/volume_snapshot.h"

namespace csidelta::datamover {

// How often a base is reconciled: no watch reports that the PVC of its volume was deleted.
inline constexpr absl::Duration kBaseReconciledEvery = absl::Minutes(10);

// The repository snapshots that DataDeletions of any namespace have deleted, the newest 5,000 of
// them. Their ids are those of DataUpload::snapshot_id(). Thread-safe.
class DeletedSnapshots {
 public:
  // A DataDeletion as it is. Its snapshot counts as deleted even when the object is gone.
  void Record(const objects::DataDeletion& deletion);
  bool Has(absl::string_view snapshot_id) const;

 private:
  mutable Mutex mutex_;
  std::set<std::string, std::less<>> ids_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> in_order_ ABSL_GUARDED_BY(mutex_);
};

// Drops the base snapshots that no upload can be compared with any more, or that are older than the
// settings allow. A driver keeps each block that changes under a snapshot, and many drivers cannot
// delete a volume that has one. WhyUseless() has the rules. Spares bases of PVCs whose upload is
// under way, and of other clusters. Logs the reason, and emits an Event on the ProtectedVolume; on
// the PVC as well, if the base is in its way.
class BaseReconciler : public objects::Reconciler<objects::VolumeSnapshotContent> {
 public:
  // Borrows all. Records that `records` does not have are read from the API server.
  BaseReconciler(const MoverEnvironment& env, const DeletedSnapshots& deleted,
                 const VolumeRecords& records)
      : env_(env), deleted_(deleted), records_(records) {}

 private:
  // REQUIRES that `content` has the label of bases. By one thread at a time.
  absl::StatusOr<absl::Time> ReconcileOne(const CallContext& ctx,
                                          const objects::VolumeSnapshotContent& content) override;
  void ReduceOne(objects::VolumeSnapshotContent& content) const override {
    csi::ReduceToBase(content);
  }
  absl::StatusOr<BaseInfo> ReadInfo(const CallContext& ctx, const csi::BaseSnapshot& base);
  // The status of the record; empty if there is none.
  absl::StatusOr<objects::ProtectedVolumeStatus> FindStatus(const CallContext& ctx,
                                                            const csi::BaseOwner& owner) const;
  void ReportDrop(const CallContext& ctx, const csi::BaseSnapshot& base,
                  const Finding& useless) const;
  // For a base that is in the way of its PVC and stays. `until`: "until the upload is over".
  void ReportStay(const CallContext& ctx, const csi::BaseSnapshot& base, const Finding& useless,
                  absl::string_view until) const;

  const MoverEnvironment& env_;
  const DeletedSnapshots& deleted_;
  const VolumeRecords& records_;
  ObjectPresence presence_;
  absl::Time began_at_ = absl::InfiniteFuture();  // when the first one was looked at
};

// For VolumeSnapshots by Velero's own action, as the plugin does for its own: drops a base of the
// PVC, with an Event, if the driver has no room. Any other error of the driver that lasts is an
// Event on the PVC, once for each VolumeSnapshot.
class RoomReconciler : public objects::Reconciler<objects::VolumeSnapshot> {
 public:
  // Borrows `env`.
  explicit RoomReconciler(const MoverEnvironment& env) : env_(env) {}

 private:
  // By one thread at a time.
  absl::StatusOr<absl::Time> ReconcileOne(const CallContext& ctx,
                                          const objects::VolumeSnapshot& snapshot) override;
  bool IsConcerned(const objects::VolumeSnapshot& snapshot) const override;

  const MoverEnvironment& env_;
  // By uid: of a PVC, when a base may go again; of a VolumeSnapshot, when its Event may come again.
  std::map<std::string, absl::Time> next_at_;
};

}  // namespace csidelta::datamover
