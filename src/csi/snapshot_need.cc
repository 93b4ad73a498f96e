#include "csi/snapshot_need.h"

#include "absl/time/time.h"
#include "base/status_macros.h"
#include "objects/client.h"
#include "objects/persistent_volume_claim.h"

namespace csidelta::csi {

using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

absl::StatusOr<PvcsBySource> ListPvcsBySource(const CallContext& ctx, k8s::ApiClient& api,
                                              const std::string& namespace_name) {
  ASSIGN_OR_RETURN(const std::vector<objects::PersistentVolumeClaim> listed,
                   objects::List<objects::PersistentVolumeClaim>(ctx, api, namespace_name));
  PvcsBySource pvcs;
  for (const objects::PersistentVolumeClaim& pvc : listed) {
    if (pvc.is_being_filled()) {
      pvcs[pvc.source_snapshot()].pending.push_back(pvc.name());
    } else if (pvc.is_bound() && !pvc.source_snapshot().empty() && !pvc.is_being_deleted()) {
      pvcs[pvc.source_snapshot()].bound.push_back(NamedVolumeOf(pvc));
    }
  }
  return pvcs;
}

absl::StatusOr<std::optional<VolumeSnapshot>> FindSnapshotOf(const CallContext& ctx,
                                                             k8s::ApiClient& api,
                                                             const VolumeSnapshotContent& content) {
  if (content.snapshot_name().empty() || content.snapshot_namespace().empty()) {
    return std::optional<VolumeSnapshot>();
  }
  ASSIGN_OR_RETURN(
      std::optional<VolumeSnapshot> snapshot,
      objects::Find<VolumeSnapshot>(
          ctx, api, VolumeSnapshot::Key(content.snapshot_namespace(), content.snapshot_name())));
  if (snapshot.has_value() && !content.snapshot_uid().empty() &&
      snapshot->uid() != content.snapshot_uid()) {
    snapshot.reset();
  }
  return snapshot;
}

absl::StatusOr<std::vector<Finding>> NeedsOf(const VolumeSnapshot& snapshot,
                                             const VolumeSnapshotContent* content,
                                             const PvcsBySource& pvcs,
                                             PopulationReader& populations, Requester requester) {
  // Neither its age nor the mover's namespace counts for those who own it.
  ProtectionInput input = {.content = {}, .mover_namespace = "", .now = absl::InfiniteFuture()};
  if (content != nullptr) {
    input.content = {.kind = ContentReading::Kind::kPresent, .content = content};
  }
  const auto found = pvcs.find(snapshot.name());
  const PvcsOfSnapshot made_of_it = found == pvcs.end() ? PvcsOfSnapshot() : found->second;
  input.pending_pvcs = made_of_it.pending;
  if (requester != Requester::kBaseCleanUp) {
    ASSIGN_OR_RETURN(input.unfilled, populations.UnfilledFromSnapshot(
                                         content == nullptr ? "" : content->driver(),
                                         content == nullptr ? "" : content->handle_or_source(),
                                         snapshot.uid(), made_of_it.bound));
  }
  return ProtectionsOf(snapshot, input, requester);
}

}  // namespace csidelta::csi
