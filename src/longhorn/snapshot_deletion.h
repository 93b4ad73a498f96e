#pragma once

#include <cstddef>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "longhorn/snapshot_inventory.h"

namespace csidelta::longhorn {

// Longhorn merges the data of each into the next one, on every replica.
inline constexpr double kDeletionsPerSecond = 5;

// The ClusterRole of deploy/longhorn-roles.yaml that allows it.
inline constexpr char kPrunerRole[] = "csi-delta-longhorn-pruner";

// Requests the deletion of each, as it was read: by its uid, so that another Snapshot of the name,
// which Longhorn makes for an entry that its engine still has, is left alone. Waits for none: the
// finalizer is Longhorn's, and so is the rest. Changes nothing else, so a run that was ended is
// gone on with by the next one. At most kDeletionsPerSecond; a stop ends that wait.
//
// `note` hears of each in its order: OK when the API server took the deletion, or that Snapshot was
// gone; else why it was not deleted (a webhook of Longhorn denied it, ...). What would fail for all
// that come after ends it, is noted, too, and returned: UNAVAILABLE when Longhorn or the API server
// does not answer, PERMISSION_DENIED when the caller may not delete, CANCELLED and
// DEADLINE_EXCEEDED from ctx; of those after it `note` hears nothing.
absl::Status DeleteSnapshots(
    const CallContext& ctx, k8s::ApiClient& api, absl::string_view namespace_name,
    const std::vector<const SnapshotEntry*>& snapshots,
    absl::FunctionRef<void(std::size_t position, const absl::Status& end)> note);

}  // namespace csidelta::longhorn
