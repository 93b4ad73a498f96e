#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "datamover/mover_environment.h"
#include "datamover/presence.h"
#include "objects/event_handler.h"
#include "objects/object.h"
#include "objects/volume_snapshot.h"

namespace csidelta::datamover {

// When the storage is asked again for a kept snapshot: after the first record, and after each later
// one. Before each there is a pause: 30 a minute at most.
inline constexpr absl::Duration kKeptAskedFirst = absl::Hours(1);
inline constexpr absl::Duration kKeptAskedEvery = absl::Hours(24);
inline constexpr absl::Duration kKeptPause = absl::Seconds(2);
// How long the last record, whose Backup is gone, waits for an answer that is no error.
inline constexpr absl::Duration kKeptAnsweredWithin = absl::Hours(7 * 24);

// Makes the first record of a kept snapshot (csi/kept_snapshots.h) while its backup runs; none
// while no controller leads. If a record is due and its Backup has an archive, makes the next one
// and drops it. If the Backup has been missing for kMissingGracePeriod, the last one is due at
// once. It stays as long as the storage has the snapshot: nothing else knows the handle. Without an
// answer it is not made again, and ends after kKeptAnsweredWithin, with a warning in the log.
//
// Borrows `env`. Records by one thread at a time; thread-safe for other objects.
class KeptReconciler : public objects::Reconciler<objects::Object> {
 public:
  explicit KeptReconciler(const MoverEnvironment& env) : env_(env) {}

 private:
  absl::StatusOr<absl::Time> ReconcileOne(const CallContext& ctx,
                                          const objects::Object& object) override;
  absl::StatusOr<absl::Time> ReconcileRecord(const CallContext& ctx,
                                             const objects::VolumeSnapshotContent& record);

  const MoverEnvironment& env_;
  ObjectPresence presence_;
};

}  // namespace csidelta::datamover
