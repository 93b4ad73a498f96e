#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "objects/volume_snapshot.h"
#include "snapshots/static_pair.h"

// A VolumeSnapshot for people of another namespace, by a caller with rights on both ends:
//
//   source VolumeSnapshot, Ready, its content names it by its uid
//       |  PlanShare: rights, binding, the name free; changes nothing
//       v
//   plan
//       |  the source's content names who shares its snapshot (csi/snapshot_shares.h)
//       |  a second content of the same handle, Retain, and a VolumeSnapshot there
//       v
//   pair, which stays; delete and prune keep the source for as long as it is there
//
// The data stays that of the source: what is shared goes without it, and never takes it along. A
// name or a handle is never enough: without the right to read the source nothing is made. All names
// follow from what is asked for: an interrupted run is taken up by the next one, and a second run
// changes nothing.
namespace csidelta::snapshots {

inline constexpr int kSharesMax = 256;  // of one VolumeSnapshot

struct ShareRequest {
  std::string source_namespace;
  std::string snapshot_name;
  std::string namespace_name;  // where it is shared
  std::string name = {};       // of the VolumeSnapshot there; "": as the source is called
};

struct SharePlan {
  StaticPair pair;
  objects::VolumeSnapshot source;
  objects::VolumeSnapshotContent content;  // of the source
  bool was_begun = false;                  // by an earlier run: a part of it is there, or all
  // The VolumeSnapshot of an earlier share was deleted by a client that may not delete its content.
  bool has_leftover = false;
};

//   INVALID_ARGUMENT     two equal namespaces, or a name that cannot be one
//   PERMISSION_DENIED    a right is missing; the message says which, and the ClusterRole
//   NOT_FOUND            the source does not exist
//   FAILED_PRECONDITION  the source is not Ready, not bound both ways, or shared itself; there are
//                        kSharesMax already
//   ALREADY_EXISTS       the name belongs to another VolumeSnapshot
absl::StatusOr<SharePlan> PlanShare(const CallContext& ctx, k8s::ApiClient& api,
                                    const ShareRequest& request);

// Makes the pair and waits, within `ctx`, until it can be used. DEADLINE_EXCEEDED: it stays, and is
// used when the sidecar has looked at it. After other errors nothing of the pair is left, or the
// message says what to do.
absl::StatusOr<objects::VolumeSnapshot> CarryOutShare(const CallContext& ctx, k8s::ApiClient& api,
                                                      const SharePlan& plan);

}  // namespace csidelta::snapshots
