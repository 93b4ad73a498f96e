#include "csi/snapshot_need.h"

#include "absl/time/time.h"
#include "base/status_macros.h"
#include "csi/snapshot_types.h"
#include "k8s/find.h"
#include "k8s/object.h"
#include "objects/persistent_volume_claim.h"
#include "objects/volume_snapshot.h"

namespace csidelta::csi {

absl::StatusOr<PvcsBySource> ListPvcsBeingFilled(const CallContext& ctx, k8s::ApiClient& api,
                                                 const std::string& namespace_name) {
  ASSIGN_OR_RETURN(const k8s::ObjectList listed,
                   api.List(ctx, PersistentVolumeClaimType(), namespace_name, {}));
  PvcsBySource pvcs;
  for (const Json& object : listed.items) {
    const absl::StatusOr<objects::PersistentVolumeClaim> pvc =
        objects::PersistentVolumeClaim::Of(object);
    if (pvc.ok() && pvc->is_being_filled()) {
      pvcs[pvc->source_snapshot()].push_back(pvc->name());
    }
  }
  return pvcs;
}

absl::StatusOr<std::optional<Json>> FindSnapshotOf(const CallContext& ctx, k8s::ApiClient& api,
                                                   const Json& content) {
  ASSIGN_OR_RETURN(const auto typed, objects::VolumeSnapshotContent::Of(content));
  if (typed.snapshot_name().empty() || typed.snapshot_namespace().empty()) {
    return std::optional<Json>();
  }
  ASSIGN_OR_RETURN(
      std::optional<Json> snapshot,
      k8s::Find(ctx, api, VolumeSnapshotKey(typed.snapshot_namespace(), typed.snapshot_name())));
  if (snapshot.has_value() && !typed.snapshot_uid().empty() &&
      k8s::Uid(*snapshot) != typed.snapshot_uid()) {
    snapshot.reset();
  }
  return snapshot;
}

absl::StatusOr<std::vector<Protection>> NeedsOf(const Json& snapshot, const Json* content,
                                                const PvcsBySource& pvcs, Requester requester) {
  ASSIGN_OR_RETURN(const auto typed, objects::VolumeSnapshot::Of(snapshot));
  std::optional<objects::VolumeSnapshotContent> typed_content;
  if (content != nullptr) {
    ASSIGN_OR_RETURN(typed_content, objects::VolumeSnapshotContent::Of(*content));
  }
  // Neither its age nor the mover's namespace counts for those who own it.
  ProtectionInput input = {.content = {}, .mover_namespace = "", .now = absl::InfiniteFuture()};
  if (typed_content.has_value()) {
    input.content = {.kind = ContentReading::Kind::kPresent, .content = &*typed_content};
  }
  if (const auto found = pvcs.find(typed.name()); found != pvcs.end()) {
    input.pending_pvcs = found->second;
  }
  return ProtectionsOf(typed, input, requester);
}

}  // namespace csidelta::csi
