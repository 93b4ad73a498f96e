#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/random.h"
#include "k8s/api_client.h"
#include "snapshots/snapshot_creation.h"
#include "snapshots/snapshot_source.h"

// VolumeSnapshots of several PVCs at one instant, by a VolumeGroupSnapshot (KEP-3476) that a person
// requests, with the rights of that person alone. Meanwhile the PVCs carry the label
// snapshot.csi-delta.io/group, which its selector matches. The label does not outlive the call.
//
//   one operation per volume: csi/lock.h, for all of them
//     |
//   label the PVCs, create the VolumeGroupSnapshot
//     |
//   the driver's handle of the group is there: taken, the application may go on
//     |
//   one VolumeSnapshot for each PVC: labelled as one of the set
//     |
//   the label of the PVCs is removed
namespace csidelta::snapshots {

// How a cluster makes a group of some PVCs.
struct GroupChoice {
  std::string version;     // of the kinds: "v1"
  std::string class_name;  // VolumeGroupSnapshotClass
};

// UNIMPLEMENTED, with the reason, if `sources` cannot form a group: their drivers differ or are
// unknown; the kinds are not served or cannot be listed; the driver has no class.
// FAILED_PRECONDITION if the driver has several classes and none is chosen. One to three requests.
absl::StatusOr<GroupChoice> ChooseGroup(const CallContext& ctx, k8s::ApiClient& api,
                                        const std::vector<SnapshotSource>& sources);

// False also if it cannot be read.
bool GroupExists(const CallContext& ctx, k8s::ApiClient& api, const GroupChoice& choice,
                 const std::string& namespace_name, const std::string& name);

struct GroupCreationRequest {
  GroupChoice choice;
  std::vector<SnapshotSource> sources;  // two or more, of one namespace
  std::string name;                     // of the VolumeGroupSnapshot, and of the set
  std::string workload = {};
  std::string note = {};
  std::string schedule = {};  // that takes the snapshots; "": a person does
  bool waits_for_others = false;
  csi::RoomInDriver on_full = {};
  absl::Duration timeout;
  std::function<void()> on_taken = [] {};  // called once, before the VolumeSnapshots are there
};

// Takes snapshots of all sources at once, and returns them in the order of the sources. Quotas that
// can be read are checked first. Errors are those of CreateSnapshot(), and UNIMPLEMENTED if single
// VolumeSnapshots may still be possible: a PVC cannot be labelled, or the driver reports that it
// has no groups. After an error the VolumeGroupSnapshot is deleted again.
absl::StatusOr<std::vector<csi::TakenSnapshot>> CreateGroup(const CallContext& ctx,
                                                            k8s::ApiClient& api, Random& random,
                                                            const GroupCreationRequest& request);

}  // namespace csidelta::snapshots
