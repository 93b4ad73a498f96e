#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "csi/static_content.h"
#include "k8s/api_client.h"
#include "objects/volume_snapshot.h"

// A VolumeSnapshot of a snapshot that the storage has already, and its pre-provisioned content. The
// two name each other:
//
//   (nothing)
//       |  VolumeSnapshotContent, Retain: nothing that happens to it deletes the snapshot
//       |  VolumeSnapshot
//       v
//   pair --RemovePair--> (nothing); the storage keeps the snapshot
//
// Deletion of an unbound content with the policy Delete would delete the snapshot. So Delete is
// written only once the VolumeSnapshot exists (RetainNoMore). All names follow from the request:
// the next run resumes an interrupted one. A pair is described by its content, with the
// deletion_policy that the content has in the end.
namespace csidelta::snapshots {

// True if an object belongs to `pair`: these verbs made it, for the same handle and each other.
// False for an object that is being deleted. Pure.
bool IsContentOf(const objects::VolumeSnapshotContent& content, const csi::StaticContent& pair);
bool IsSnapshotOf(const objects::VolumeSnapshot& snapshot, const csi::StaticContent& pair);

// "handle h of driver d already has VolumeSnapshotContent c, of VolumeSnapshot shop/orders". Pure.
std::string TakenText(const objects::VolumeSnapshotContent& content);

// Makes both, or resumes with those that exist. ALREADY_EXISTS, naming it, if another object has
// one of the names. After an error nothing of the pair is left, or the message says what to do.
absl::StatusOr<objects::VolumeSnapshot> MakePair(const CallContext& ctx, k8s::ApiClient& api,
                                                 const csi::StaticContent& pair);

// From now on deletion of the VolumeSnapshot deletes the snapshot.
absl::Status RetainNoMore(const CallContext& ctx, k8s::ApiClient& api,
                          const csi::StaticContent& pair);

// Requests the deletion of both, while the storage keeps the snapshot. Changes no object outside
// this pair. OK if they are gone. Does not wait.
absl::Status RemovePair(const CallContext& ctx, k8s::ApiClient& api,
                        const csi::StaticContent& pair);

}  // namespace csidelta::snapshots
