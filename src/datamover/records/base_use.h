#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/finding.h"
#include "csi/base_snapshots.h"
#include "datamover/settings.h"
#include "k8s/api_client.h"
#include "objects/object.h"
#include "objects/persistent_volume.h"
#include "objects/protected_volume.h"

namespace csidelta::datamover {

// The reasons why a base is useless, in the order in which they are checked:
//
//   PvcGone
//   PvcBeingDeleted
//   PvcWaitsToGrow   and the driver is not known to grow a volume that has snapshots. It costs
//                    nothing: the backup after a resize is a full one anyway.
//   LocationGone     the BackupStorageLocation
//   DriverKeepsNone  by the settings
//   SnapshotDeleted  the repository snapshot that it stands for
//   Superseded       a newer upload was completed, and left no base
//   BackupGone
//   TooOld

// What is known of a base apart from its content. Unknown facts never make a base useless.
struct BaseInfo {
  absl::Time now;
  absl::Duration age_max;
  bool pvc_is_gone = false;  // or has another uid
  bool pvc_is_being_deleted = false;
  bool pvc_waits_to_grow = false;
  bool is_kept = true;  // by the settings, or because its driver needs bases
  // How long the BackupStorageLocation has been missing; zero: it is there.
  absl::Duration location_missing_for = absl::ZeroDuration();
  // The same for the Backup of last_good.
  absl::Duration backup_missing_for = absl::ZeroDuration();
  bool snapshot_is_deleted = false;
  // As the ProtectedVolume of its PVC and location has it; nothing without a record.
  std::optional<objects::LastGoodBackup> last_good = {};
  // Likewise: the uid of the DataUpload whose backup was deleted while it was the last good one.
  std::string deleted_upload = {};
};

// Reads what a PVC tells of a base with that owner. `pvc`: empty if it was not found. Pure.
void ReadPvc(const std::optional<objects::PersistentVolumeClaim>& pvc, const csi::BaseOwner& owner,
             BaseInfo& info);

// Whether the base may keep its PVC from growing or from being deleted. Pure.
bool IsInTheWay(const Finding& useless);

// The first reason that holds; nothing if the next upload of its volume can be compared with it.
// Pure.
std::optional<Finding> WhyUseless(const csi::BaseSnapshot& base, const BaseInfo& info);

// One base, for display.
struct ListedBase {
  csi::BaseSnapshot base;
  std::optional<Finding> useless;
  bool is_in_use = false;  // an upload of its PVC is under way, or may be
};

// Lists all objects of a kind in a namespace, or in all ("").
using ListObjects = absl::FunctionRef<absl::StatusOr<std::vector<objects::Object>>(
    const k8s::ResourceType& type, absl::string_view namespace_name)>;

struct BaseListRequest {
  std::string mover_namespace;
  std::set<std::string> velero_namespaces;  // bases of others are omitted
  std::string cluster = {};                 // likewise; "": of all clusters
  MoverSettings settings;
  absl::Time now;
};

// All bases by namespace and PVC, each with the reason why it is useless. Missing objects count at
// once, without a grace period. Kinds that are not served make no base useless.
absl::StatusOr<std::vector<ListedBase>> ListBasesWithUse(const BaseListRequest& request,
                                                         ListObjects list);

}  // namespace csidelta::datamover
