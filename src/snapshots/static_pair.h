#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "objects/persistent_volume.h"
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
// what is asked for: an interrupted run is taken up by the next one.
namespace csidelta::snapshots {

struct StaticPair {
  std::string content_name;
  std::string driver;
  std::string handle;
  std::string namespace_name;  // of the VolumeSnapshot
  std::string snapshot_name;
  std::string class_name = {};  // VolumeSnapshotClass; "" for none
  std::optional<objects::VolumeMode> mode = {};
  bool is_retained = true;                                 // false: meant for RetainNoMore()
  std::map<std::string, std::string> content_labels = {};  // besides those written for the pair
  std::map<std::string, std::string> content_annotations = {};
};

// A pair of the snapshot that `content` has, with all that its sidecar needs to be told of it; the
// names are left to the caller. Pure.
StaticPair PairBeside(const objects::VolumeSnapshotContent& content);

// Whether they are this pair's: made by these verbs, for the same handle and each other. One that
// is being deleted is not. Pure.
bool IsContentOf(const objects::VolumeSnapshotContent& content, const StaticPair& pair);
bool IsSnapshotOf(const objects::VolumeSnapshot& snapshot, const StaticPair& pair);

// "handle h of driver d already has VolumeSnapshotContent c, of VolumeSnapshot shop/orders". Pure.
std::string TakenText(const objects::VolumeSnapshotContent& content);

// Makes both, or takes up what is there of them. ALREADY_EXISTS, naming it, when one of the names
// belongs to something else. After an error nothing of the pair is left, or the message says what
// to do.
absl::StatusOr<objects::VolumeSnapshot> MakePair(const CallContext& ctx, k8s::ApiClient& api,
                                                 const StaticPair& pair);

// From now on the snapshot goes with the VolumeSnapshot.
absl::Status RetainNoMore(const CallContext& ctx, k8s::ApiClient& api, const StaticPair& pair);

// Asks for the deletion of both, while the storage keeps the snapshot. Changes nothing of what is
// not this pair's. OK when they are gone. Does not wait.
absl::Status RemovePair(const CallContext& ctx, k8s::ApiClient& api, const StaticPair& pair);

}  // namespace csidelta::snapshots
