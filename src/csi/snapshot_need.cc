#include "csi/snapshot_need.h"

#include <utility>

#include "absl/time/time.h"
#include "base/status_macros.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/persistent_volume.h"

namespace csidelta::csi {

using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

void AddPvc(const objects::PersistentVolumeClaim& pvc, PvcsOfSnapshot& pvcs) {
  if (pvc.is_being_filled()) {
    pvcs.pending.push_back(pvc.name());
  } else if (pvc.is_bound() && !pvc.is_being_deleted()) {
    pvcs.bound.push_back(NamedVolumeOf(pvc));
  }
}

absl::StatusOr<PvcsBySource> ListPvcsBySource(const CallContext& ctx, k8s::ApiClient& api,
                                              const std::string& namespace_name) {
  ASSIGN_OR_RETURN(const auto listed,
                   objects::List<objects::PersistentVolumeClaim>(ctx, api, namespace_name));
  PvcsBySource pvcs;
  for (const objects::PersistentVolumeClaim& pvc : listed) {
    if (!pvc.source_snapshot().empty()) {
      AddPvc(pvc, pvcs[pvc.source_snapshot()]);
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
  ASSIGN_OR_RETURN(auto snapshot,
                   objects::Find<VolumeSnapshot>(ctx, api, content.snapshot_namespace(),
                                                 content.snapshot_name()));
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
  std::vector<Finding> needs = ProtectionsOf(snapshot, input, requester);
  RETURN_IF_ERROR(needs.empty() ? populations.refused() : absl::OkStatus());
  return needs;
}

bool IsRestored(const objects::Object& object) {
  return !object.Label(objects::kRestoreNameLabel).empty();
}

absl::StatusOr<std::vector<BackupContent>> ReadBackupContents(
    const CallContext& ctx, const Environment& env,
    const std::vector<VolumeSnapshotContent>& contents) {
  std::map<std::string, PvcsBySource> pvcs;  // by namespace
  PopulationReader populations(ctx, env.api, &env);
  std::vector<BackupContent> all;
  for (const VolumeSnapshotContent& content : contents) {
    BackupContent one{.content = content, .snapshot = std::nullopt};
    ASSIGN_OR_RETURN(one.snapshot, FindSnapshotOf(ctx, env.api, content));
    if (one.snapshot.has_value()) {
      const std::string namespace_name = one.snapshot->namespace_name();
      auto found = pvcs.find(namespace_name);
      if (found == pvcs.end()) {
        ASSIGN_OR_RETURN(PvcsBySource listed, ListPvcsBySource(ctx, env.api, namespace_name));
        found = pvcs.emplace(namespace_name, std::move(listed)).first;
      }
      ASSIGN_OR_RETURN(
          const std::vector<Finding> needs,
          NeedsOf(*one.snapshot, &content, found->second, populations, Requester::kBackupDeletion));
      one.needed = !needs.empty();
    }
    all.push_back(std::move(one));
  }
  return all;
}

absl::StatusOr<bool> IsStillNeeded(const CallContext& ctx, const Environment& env,
                                   const VolumeSnapshot& snapshot) {
  ASSIGN_OR_RETURN(const PvcsBySource pvcs,
                   ListPvcsBySource(ctx, env.api, snapshot.namespace_name()));
  const std::string name =
      snapshot.bound_content().empty() ? snapshot.source_content() : snapshot.bound_content();
  std::optional<VolumeSnapshotContent> content;
  if (!name.empty()) {
    ASSIGN_OR_RETURN(content, objects::Find<VolumeSnapshotContent>(ctx, env.api, "", name));
  }
  PopulationReader populations(ctx, env.api, &env);
  ASSIGN_OR_RETURN(const std::vector<Finding> needs,
                   NeedsOf(snapshot, content.has_value() ? &*content : nullptr, pvcs, populations,
                           Requester::kBackupDeletion));
  return !needs.empty();
}

}  // namespace csidelta::csi
