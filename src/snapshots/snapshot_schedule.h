#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "objects/object.h"
#include "snapshots/snapshot_source.h"

// A CronJob that takes VolumeSnapshots and prunes them, with an account and the rights that it
// needs, as objects that a person inspects and applies. Nothing here asks a cluster.
namespace csidelta::snapshots {

struct ScheduleRequest {
  std::string name;  // of the CronJob
  std::string cron;
  std::string time_zone;  // "": that of the cluster's controllers
  bool is_suspended = false;
  std::string image;
  PvcSelection selection;                   // without a Pod, which comes and goes
  std::string class_name;                   // "": chosen as backups do
  std::string group;                        // "auto", "always", "never"
  std::string note;                         // "": none
  std::vector<std::string> keep_arguments;  // "--keep-last=3"; none: nothing is pruned
};

// All objects, ready to be applied. Each is complete in itself.
struct SnapshotSchedule {
  objects::Object service_account;
  objects::Object role;
  objects::Object role_binding;
  // To kSnapshotReaderRole, for classes and contents: prune fails without them.
  objects::Object cluster_role_binding;
  objects::Object cron_job;

  std::vector<const objects::Object*> All() const {
    return {&service_account, &role, &role_binding, &cluster_role_binding, &cron_job};
  }
};

// The Pod of the CronJob meets the level restricted of Pod Security. Its init container runs
// `snapshot create`, and then its container runs `snapshot prune`, only for the VolumeSnapshots of
// this schedule. Without keep rules its container runs `snapshot create`. With them, create makes
// room by them if there is none, and applies them also if a PVC fails: prune does not run then. No
// shell parses any argument.
//
// Rights in the namespace:
//
//   what                                              when
//   ------------------------------------------------  ------------------------------------
//   csi-delta-snapshot-viewer                         always
//   VolumeSnapshots: create, delete; Leases           always
//   StatefulSets: get                                 it names one
//   VolumeGroupSnapshots: create, delete;             there may be several PVCs, and a group
//     VolumeSnapshots, PVCs: patch                      is not ruled out
//
// INVALID_ARGUMENT, naming the value, for an invalid name, cron expression, time zone or image, and
// unless PVCs are selected in exactly one way. Pure.
absl::StatusOr<SnapshotSchedule> MakeSchedule(const ScheduleRequest& request);

}  // namespace csidelta::snapshots
