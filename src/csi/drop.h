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

// Deletes or retains a VolumeSnapshot, a group of them, or a content. The requester is a backup,
// its sweep, its deletion, the data mover or a person. "Delete" has the driver delete the data.
// "Retain" detaches it: it survives the namespace of its objects.
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
// (1) The mark "being deleted" is how the snapshot controller requests the deletion from the
// sidecar. The controller omits it if it sees no VolumeSnapshot. Before the VolumeSnapshot is gone
// the mark is too early: the content goes at once, and the controller has another snapshot taken.
//
// Each step begins only when the one before it has succeeded. A policy has succeeded when the API
// server confirms it; else FAILED_PRECONDITION. An object that is gone counts as done, and so does
// one whose name belongs to another by now. Nothing here waits for the driver:
// csi/deletion_proof.h does.
namespace csidelta::csi {

enum class Data { kDelete, kRetain };

// The content that a snapshot is bound to, or was made of; else the one that the snapshot
// controller will make for it. Pure.
k8s::ObjectKey ContentKeyOf(const objects::VolumeSnapshot& snapshot);
k8s::ObjectKey ContentKeyOf(const objects::VolumeGroupSnapshot& group);
// That content; nothing unless it refers to `group`.
absl::StatusOr<std::optional<objects::VolumeGroupSnapshotContent>> FindContentOf(
    const CallContext& ctx, k8s::ApiClient& api, const objects::VolumeGroupSnapshot& group);

// `snapshot`, `group`: as read from the API server. With kRetain, FAILED_PRECONDITION if it is not
// bound, or if a content belongs to another. Retries transient errors.
absl::Status DropSnapshot(const CallContext& ctx, k8s::ApiClient& api,
                          const objects::VolumeSnapshot& snapshot, Data data);
absl::Status DropSnapshot(const CallContext& ctx, k8s::ApiClient& api,
                          const objects::VolumeGroupSnapshot& group, Data data);

// Reads the VolumeSnapshot and drops it with its data, unless another one has its name.
absl::Status DeleteSnapshot(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& key,
                            absl::string_view uid);

// One object: a later one of the same name is another.
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

// Drops a content of either kind. `snapshot`: the VolumeSnapshot, or group, that it is bound to.
absl::Status DropContent(const CallContext& ctx, k8s::ApiClient& api, const ObjectId& content,
                         const std::optional<ObjectId>& snapshot, Data data);

// Deletes a content whose policy was just set to Delete, after the deletion of its VolumeSnapshot
// was accepted. The snapshot controller acts by the policy that it has seen: if that is still the
// one before, it marks the content and leaves it for ever, with its data (external-snapshotter
// 8.7.0). What goes already is not harmed: the sidecar waits for the mark.
absl::Status DeleteContentBehind(const CallContext& ctx, k8s::ApiClient& api,
                                 const ObjectId& content, const ObjectId& snapshot);

// Deletes a content that csi-delta made, with its data. REQUIRES that no VolumeSnapshot is bound to
// it. A member of a moved group is given up instead: GiveUpMember(). First writes the handle into a
// status without one, because the sidecar deletes only what the status names.
absl::Status DeleteContent(const CallContext& ctx, k8s::ApiClient& api,
                           const objects::VolumeSnapshotContent& content);

// Writes the policy of a content of either kind, along with `more`. Returns the content as stored;
// nothing if it is gone. FAILED_PRECONDITION if it keeps another policy.
absl::StatusOr<std::optional<objects::Object>> SetPolicy(const CallContext& ctx,
                                                         k8s::ApiClient& api,
                                                         const k8s::ObjectKey& content, Data data,
                                                         objects::Patch more = {});

// Marks the snapshot of a moved group's member as not needed; from here on it is not a base. OK if
// the content is gone. Idempotent.
absl::Status GiveUpMember(const CallContext& ctx, k8s::ApiClient& api,
                          const objects::VolumeSnapshotContent& content);

}  // namespace csidelta::csi
