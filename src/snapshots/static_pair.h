#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "csi/static_content.h"
#include "k8s/api_client.h"
#include "objects/volume_snapshot.h"

// A VolumeSnapshot of a snapshot that the storage has already, and the pre-provisioned content that
// it is bound to, which name each other:
//
//   (nothing)
//       |  VolumeSnapshotContent, Retain: nothing that happens to it deletes the snapshot
//       |  VolumeSnapshot
//       v
//   pair --RemovePair--> (nothing); the storage keeps the snapshot
//
// A content that is not bound yet and says Delete would take the snapshot with it when it goes, so
// that Delete is written only once the VolumeSnapshot exists (RetainNoMore). All names follow from
// the request: the next run resumes an interrupted one. A pair is described by its content; its
// deletion_policy is the one that the content has in the end.
namespace csidelta::snapshots {

// Whether an object is that of `pair`: made by these verbs, for the same handle and each other. An
// object that is being deleted is not. Pure.
bool IsContentOf(const objects::VolumeSnapshotContent& content, const csi::StaticContent& pair);
bool IsSnapshotOf(const objects::VolumeSnapshot& snapshot, const csi::StaticContent& pair);

// "handle h of driver d already has VolumeSnapshotContent c, of VolumeSnapshot shop/orders". Pure.
std::string TakenText(const objects::VolumeSnapshotContent& content);

// Makes both, or takes up what is there of them. ALREADY_EXISTS, naming it, when one of the names
// belongs to something else. After an error nothing of the pair is left, or the message says what
// to do.
absl::StatusOr<objects::VolumeSnapshot> MakePair(const CallContext& ctx, k8s::ApiClient& api,
                                                 const csi::StaticContent& pair);

// From now on the snapshot goes with the VolumeSnapshot.
absl::Status RetainNoMore(const CallContext& ctx, k8s::ApiClient& api,
                          const csi::StaticContent& pair);

// Asks for the deletion of both, while the storage keeps the snapshot. Changes nothing of what is
// not this pair's. OK when they are gone. Does not wait.
absl::Status RemovePair(const CallContext& ctx, k8s::ApiClient& api,
                        const csi::StaticContent& pair);

}  // namespace csidelta::snapshots
