#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "csi/static_content.h"
#include "k8s/api_client.h"
#include "objects/volume_snapshot.h"

// A VolumeSnapshot of a snapshot that a storage has and the cluster does not know:
//
//   handle
//       |  PlanImport: rights, class, no other content of the handle, the name free; changes
//       nothing
//       v
//   plan
//       |  CarryOutImport: snapshots/static_pair.h; with Delete, the policy last
//       v
//   VolumeSnapshot, which the sidecar asks the driver about
namespace csidelta::snapshots {

// The ClusterRole for imports and for snapshots/borrowed_snapshot.h.
inline constexpr char kSnapshotAdminRole[] = "csi-delta-snapshot-admin";
inline constexpr char kSnapshotUserRole[] = "csi-delta-snapshot-user";
inline constexpr char kSnapshotReaderRole[] = "csi-delta-snapshot-reader";  // of the cluster

// The names of an imported VolumeSnapshot and of its content: the same in each run. Pure.
std::string ImportName(absl::string_view driver, absl::string_view handle);
std::string ImportContentName(absl::string_view driver, absl::string_view handle);

struct ImportPlan {
  csi::StaticContent pair;
  bool was_begun = false;  // an earlier run made a part of it, or all
};

// Makes all checks. Each is needed, so an object that cannot be read is an error. `request`: the
// pair, without the name of the content; if `snapshot_name` is "", it is ImportName(). Errors:
//   INVALID_ARGUMENT     a name or the handle cannot be one
//   PERMISSION_DENIED    a right is missing; the message says which, and the ClusterRole
//   ALREADY_EXISTS       the handle has a content, or the name a VolumeSnapshot; names them
//   FAILED_PRECONDITION  the class does not exist, or is of another driver
absl::StatusOr<ImportPlan> PlanImport(const CallContext& ctx, k8s::ApiClient& api,
                                      csi::StaticContent request);

// Like MakePair(). Returns the VolumeSnapshot as it was made; AwaitUsableSnapshot() waits for the
// driver.
absl::StatusOr<objects::VolumeSnapshot> CarryOutImport(const CallContext& ctx, k8s::ApiClient& api,
                                                       const ImportPlan& plan);

}  // namespace csidelta::snapshots
