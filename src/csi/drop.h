#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "objects/object.h"
#include "objects/patch.h"
#include "objects/volume_group_snapshot.h"
#include "objects/volume_snapshot.h"

// How a VolumeSnapshot, a group of them, or a content goes, for any requester: a backup, the sweep,
// the deletion of a backup, the data mover or a person. "Delete" has the driver delete the data;
// "retain" detaches it, so that it survives the namespace of its objects.
//
//   object                   data    what happens, in this order
//   -----------------------  ------  ---------------------------------------------------------------
//   VolumeSnapshot           delete  policy of its content; itself; a content that came meanwhile
//   VolumeSnapshot           retain  policy of its content; the content; itself
//   VolumeGroupSnapshot      delete  policies of all contents; itself; if the controller does not
//                                    take them along: its content, its members
//   VolumeGroupSnapshot      retain  policies of all contents; the contents; itself; members that
//                                    the controller does not take along
//   content with a snapshot  either  its policy; the snapshot; the mark (1); itself
//   content alone            either  its policy and the mark (1); itself
//   content of a member of   delete  its label "released": csi/group/moved_group.h deletes it with its
//   a moved group                    group
//
// (1) By the mark "being deleted" the snapshot controller tells the sidecar that deletion is meant.
// The controller omits it if it sees no VolumeSnapshot. Before the VolumeSnapshot is gone it would
// be too early: the content goes at once, and the controller has another snapshot taken.
//
// Each step follows only after the one before it succeeded; a policy succeeded when the API server
// confirms it (FAILED_PRECONDITION). An object that is gone is done, and so is one whose name
// belongs to another by now. Nothing here waits for the driver: csi/deletion_proof.h does.
namespace csidelta::csi {

enum class Data { kDelete, kRetain };

// The content of a snapshot: the one that it is bound to, or was made of, else the one that the
// snapshot controller is going to make for it. Pure.
k8s::ObjectKey ContentKeyOf(const objects::VolumeSnapshot& snapshot);
k8s::ObjectKey ContentKeyOf(const objects::VolumeGroupSnapshot& group);

// `snapshot`, `group`: as read from the API server. With kRetain FAILED_PRECONDITION if it is not
// bound, or a content belongs to another. Repeats what fails for a moment.
absl::Status DropSnapshot(const CallContext& ctx, k8s::ApiClient& api,
                          const objects::VolumeSnapshot& snapshot, Data data);
absl::Status DropSnapshot(const CallContext& ctx, k8s::ApiClient& api,
                          const objects::VolumeGroupSnapshot& group, Data data);

// Reads the VolumeSnapshot and drops it with its data, unless another one has its name.
absl::Status DeleteSnapshot(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& key,
                            absl::string_view uid);

// An object, and no later one of its name.
struct ObjectId {
  k8s::ObjectKey key;
  std::string uid;
};

template <typename Kind>
ObjectId IdOf(const Kind& object) {
  return {.key = object.key(), .uid = object.uid()};
}

template <typename Kind>
std::optional<ObjectId> IdOf(const std::optional<Kind>& object) {
  return object.has_value() ? std::optional(IdOf(*object)) : std::nullopt;
}

// Deletes the object alone. OK if it is gone.
absl::Status DeleteObject(const CallContext& ctx, k8s::ApiClient& api, const ObjectId& object);

// A content of either kind; `snapshot`: the VolumeSnapshot, or group, that it is bound to.
absl::Status DropContent(const CallContext& ctx, k8s::ApiClient& api, const ObjectId& content,
                         const std::optional<ObjectId>& snapshot, Data data);

// A content that csi-delta made and that is alone, or is the content of a member of a moved group.
// First its status gets the handle, if it was not written yet: the sidecar deletes only what that
// names.
absl::Status DeleteContent(const CallContext& ctx, k8s::ApiClient& api,
                           const objects::VolumeSnapshotContent& content);

// Writes the policy of a content of either kind, along with `more`. Returns the content as stored,
// nothing if it is gone. FAILED_PRECONDITION if it keeps another policy.
absl::StatusOr<std::optional<objects::Object>> SetPolicy(const CallContext& ctx,
                                                         k8s::ApiClient& api,
                                                         const k8s::ObjectKey& content, Data data,
                                                         objects::Patch more = {});

// Says that the snapshot of a member of a moved group is not needed any more; from here on it is
// not a base. OK when the content is gone. Idempotent.
absl::Status GiveUpMember(const CallContext& ctx, k8s::ApiClient& api,
                          const objects::VolumeSnapshotContent& content);

}  // namespace csidelta::csi
