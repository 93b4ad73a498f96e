#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "objects/volume_group_snapshot.h"
#include "objects/volume_snapshot.h"

namespace csidelta::csi {

// The names by which the class of a PVC's snapshot, or of a volume group's, is chosen. "" if not
// given.
struct SnapshotClassRequest {
  std::string driver;                  // of the claim's volume
  std::string claim_annotation = {};   // velero.io/csi-volumesnapshot-class on it, or its like
  std::string policy_parameter = {};   // snapshotClass of the volume policy's rule
  std::string backup_annotation = {};  // velero.io/csi-volumesnapshot-class_<driver> on the Backup
};

struct SnapshotClassChoice {
  std::string name;
  // Named classes that could not be used, for a warning.
  std::vector<std::string> ungranted;
};

// Picks one of `classes`, all VolumeSnapshotClasses of the cluster. The first of these counts:
//   1. the class that the PVC, the policy or the Backup names, if it exists and is of the driver;
//   2. a class labelled velero.io/csi-volumesnapshot-class;
//   3. the driver's default class;
//   4. the driver's only class.
// Names and drivers are compared without case, as Velero does. FAILED_PRECONDITION, with the
// remediation, if none is left. Pure.
absl::StatusOr<SnapshotClassChoice> ChooseSnapshotClass(
    const SnapshotClassRequest& request, const std::vector<objects::VolumeSnapshotClass>& classes);

// The same for all VolumeGroupSnapshotClasses: a PVC of the group or the Backup names one, and the
// label is velero.io/csi-volumegroupsnapshot-class: "true". NOT_FOUND if the driver has none;
// FAILED_PRECONDITION, naming them, if it has several and none is chosen. Pure.
absl::StatusOr<SnapshotClassChoice> ChooseGroupSnapshotClass(
    const SnapshotClassRequest& request,
    const std::vector<objects::VolumeGroupSnapshotClass>& classes);

}  // namespace csidelta::csi
