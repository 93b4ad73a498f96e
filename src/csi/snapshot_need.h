#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "csi/snapshot_protection.h"
#include "k8s/api_client.h"
#include "objects/volume_snapshot.h"

// What a component asks before it deletes a VolumeSnapshot of its own: the facts that
// csi/snapshot_protection.h decides by, read from the cluster. Person and prune have them from
// csi/snapshot_inventory.h, for many at once.
namespace csidelta::csi {

// The PVCs of one namespace that are being filled: their names, by the VolumeSnapshot.
using PvcsBySource = std::map<std::string, std::vector<std::string>>;

// One LIST.
absl::StatusOr<PvcsBySource> ListPvcsBeingFilled(const CallContext& ctx, k8s::ApiClient& api,
                                                 const std::string& namespace_name);

// The VolumeSnapshot that the content is bound to, or that waits to be bound to it. One GET.
absl::StatusOr<std::optional<objects::VolumeSnapshot>> FindSnapshotOf(
    const CallContext& ctx, k8s::ApiClient& api, const objects::VolumeSnapshotContent& content);

// Why `snapshot` must stay; nothing: it may go. Pure. `content`: where it was read, else null.
// `pvcs`: of its namespace.
std::vector<Protection> NeedsOf(const objects::VolumeSnapshot& snapshot,
                                const objects::VolumeSnapshotContent* content,
                                const PvcsBySource& pvcs, Requester requester);

}  // namespace csidelta::csi
