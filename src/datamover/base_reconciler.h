#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "datamover/mover_environment.h"
#include "objects/reconciler.h"
#include "objects/volume_snapshot.h"

namespace csidelta::datamover {

// How often a base is looked at: nothing tells that the claim of its volume has gone.
inline constexpr absl::Duration kBaseLookedAtEvery = absl::Minutes(10);

// Drops the base snapshots of volumes that are gone: a claim that was deleted never comes back as
// the same volume, so that nothing would be compared with them any more, and many drivers cannot
// delete a volume that has a snapshot. Spares those of uploads that are on their way, and of other
// clusters. An upload that is still queued then reads what is allocated.
class BaseReconciler : public objects::Reconciler<objects::VolumeSnapshotContent> {
 public:
  // Borrows `env`.
  explicit BaseReconciler(const MoverEnvironment& env) : env_(env) {}

 private:
  // `content` has the label of bases.
  absl::StatusOr<absl::Time> ReconcileOne(const CallContext& ctx,
                                          const objects::VolumeSnapshotContent& content) override;

  const MoverEnvironment& env_;
};

}  // namespace csidelta::datamover
