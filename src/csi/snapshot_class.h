#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "objects/volume_group_snapshot.h"
#include "objects/volume_snapshot.h"

namespace csidelta::csi {

// What decides which class a claim's snapshot, or a volume group's, is made with. "" where nothing
// said.
struct SnapshotClassRequest {
  std::string driver;             // of the claim's volume
  std::string claim_annotation;   // velero.io/csi-volumesnapshot-class on the claim, or its like
  std::string policy_parameter;   // snapshotClass of the volume policy's rule
  std::string backup_annotation;  // velero.io/csi-volumesnapshot-class_<driver> on the Backup
};

struct SnapshotClassChoice {
  std::string name;
  // A request that could not be granted, so that the search went on: for a warning.
  std::vector<std::string> ungranted;
};

// Picks from `classes`, all VolumeSnapshotClasses of the cluster, the first of: the one that the
// claim, the policy or the Backup names; one labelled velero.io/csi-volumesnapshot-class; the
// driver's default class; the driver's only class. A named class counts when it exists and is the
// driver's. Names and drivers compare without case, as Velero does. FAILED_PRECONDITION, saying
// what to do, when none is left. Pure.
absl::StatusOr<SnapshotClassChoice> ChooseSnapshotClass(
    const SnapshotClassRequest& request, const std::vector<objects::VolumeSnapshotClass>& classes);

// The same among all VolumeGroupSnapshotClasses: the one that a claim of the group or the Backup
// names; one labelled velero.io/csi-volumegroupsnapshot-class: "true"; the driver's default class;
// the driver's only class. NOT_FOUND when the driver has none, FAILED_PRECONDITION, naming them,
// when it has several and none is chosen. Pure.
absl::StatusOr<SnapshotClassChoice> ChooseGroupSnapshotClass(
    const SnapshotClassRequest& request,
    const std::vector<objects::VolumeGroupSnapshotClass>& classes);

}  // namespace csidelta::csi
