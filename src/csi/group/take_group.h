#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "csi/lock.h"
#include "csi/take.h"
#include "k8s/api_client.h"
#include "objects/volume_group_snapshot.h"

// Snapshots of several PVCs at one instant, by a VolumeGroupSnapshot (KEP-3476; what the controller
// does is that of external-snapshotter 8.6), for backups and for people. While the group is made
// its PVCs carry a label, by which its selector takes them; nothing that outlives the call does.
//
//   (nothing)
//       |  lock (csi/lock.h), label the PVCs, POST
//       v
//   VolumeGroupSnapshot, content with the driver's handle: taken --error, timeout--> deleted again
//       |  the snapshot controller makes one VolumeSnapshot for each PVC
//       v
//   each member labelled as the requester's; the label of the PVCs is removed
namespace csidelta::csi {

struct TakeGroupRequest {
  TakeRules rules;
  LockRequest lock;
  objects::VolumeGroupSnapshot object;  // to be made; its selector takes `mark_label`=`mark`
  std::string what;                     // "volume group app/db", for messages
  std::string mark_label;
  std::string mark;
  // PVCs that are bound, of one driver. A volume whose handle is "" is not checked.
  std::vector<objects::PlannedGroupMember> members;

  // --- Of each member's VolumeSnapshot, and its content

  std::map<std::string, std::string> member_labels;
  std::map<std::string, std::string> member_annotations;
  std::string pvc_uid_label = {};      // gets the PVC's uid
  bool members_have_asked_at = false;  // by TakeRules::asked_at_annotation
  // {}: contents are not changed, and are read only if that is allowed.
  std::map<std::string, std::string> content_labels = {};

  // --- Annotations of the group

  std::string answered_at_annotation = {};  // gets the time of the driver's answer; "": none at all
  std::string missing_hint = {};            // why members may not be made, for messages
  std::function<void()> on_taken = [] {};   // called once, before the members are there
};

struct TakenGroup {
  objects::VolumeGroupSnapshot group;            // bound; it tells its FreezeWindow()
  objects::VolumeGroupSnapshotContent content;   // with a handle; maybe not ready to use yet
  std::map<std::string, TakenSnapshot> members;  // by the PVC's uid
  std::vector<std::string> not_checked = {};     // "Lease not taken: ..."
};

// Has the driver take snapshots of all members' volumes at once and returns as soon as the API
// server shows all of them. Errors as of TakeSnapshot(), and
//   UNIMPLEMENTED        this cannot be had as a group here, and single snapshots might: a PVC
//                        cannot be labelled or loses the label, the kinds are not served, the
//                        driver says so
//   FAILED_PRECONDITION  the driver has left a PVC out
// Messages name the PVC that caused the error, if it is known. After any error nothing of the group
// is left, or the message names what is.
absl::StatusOr<TakenGroup> TakeGroup(const CallContext& ctx, k8s::ApiClient& api,
                                     const TakeGroupRequest& request);

// Removes the label of a PVC if it has this value. OK if it has another, or the PVC is gone.
absl::Status UnmarkPvc(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& pvc,
                       const std::string& label, const std::string& mark);

}  // namespace csidelta::csi
