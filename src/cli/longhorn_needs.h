#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "longhorn/snapshot_inventory.h"

namespace csidelta::cli {

// The Snapshots of Longhorn, and what keeps each: by objects of Longhorn, and by what knows nothing
// of it: VolumeSnapshotContents whose handle names one, PVCs that are filled from those, and
// Velero's Backups. All are read after the Snapshots, page by page. Errors as
// longhorn::ReadInventory() has them; contents, PVCs and Backups that may not be listed are named
// in `not_checked`, or with `requires_all` an error.
absl::StatusOr<longhorn::Inventory> ReadLonghorn(const CallContext& ctx, k8s::ApiClient& api,
                                                 const longhorn::InventoryRequest& request);

}  // namespace csidelta::cli
