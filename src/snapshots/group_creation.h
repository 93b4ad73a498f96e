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
// asks for: with the rights of that person alone. While it is made the PVCs carry
// snapshot.csi-delta.io/group, by which its selector takes them; nothing that outlives the call
// does.
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

// UNIMPLEMENTED, saying why, where there is no group of `sources`: they are of several drivers, or
// of one that is not known; the kinds are not served or may not be listed; the driver has no class.
// FAILED_PRECONDITION where it has several and none is chosen. One to three requests.
absl::StatusOr<GroupChoice> ChooseGroup(const CallContext& ctx, k8s::ApiClient& api,
                                        const std::vector<SnapshotSource>& sources);

struct GroupCreationRequest {
  GroupChoice choice;
  std::vector<SnapshotSource> sources;  // two or more, of one namespace
  std::string name;                     // of the VolumeGroupSnapshot, and of the set
  std::string workload = {};
  std::string note = {};
  std::string schedule = {};  // that takes them; "": a person does
  bool waits_for_others = false;
  csi::RoomInDriver on_full = {};
  absl::Duration timeout;
  std::function<void()> on_taken = [] {};  // called once, before the VolumeSnapshots are there
};

// Has snapshots of all taken at once; in the order of the sources. Quotas are asked first whether
// they allow all, where they may be read. Errors as of CreateSnapshot(), and UNIMPLEMENTED where
// single VolumeSnapshots might be had: a PVC may not be labelled, or the driver says so. After an
// error the VolumeGroupSnapshot is deleted again.
absl::StatusOr<std::vector<csi::TakenSnapshot>> CreateGroup(const CallContext& ctx,
                                                            k8s::ApiClient& api, Random& random,
                                                            const GroupCreationRequest& request);

}  // namespace csidelta::snapshots
