#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "csi/driver_error.h"
#include "k8s/api_client.h"
#include "snapshots/snapshot_creation.h"
#include "snapshots/snapshot_retention.h"

// Room for new VolumeSnapshots if a ResourceQuota, or the driver, allows no more. The oldest that
// snapshots/snapshot_prune.h allows are deleted, as few as are needed. The rules hold at every
// moment: a VolumeSnapshot that a rule keeps now stays, even if a new one is about to be taken.
//
//   limit   who is asked first                   what may go              it is gone when
//   ------  -----------------------------------  -----------------------  -----------------------
//   quota   the API server, by a dry run, and    all that may be pruned   the VolumeSnapshot is,
//           for more than one the quotas, where                           and the quota allows
//           they may be read: where there is                              them
//           room, or something else is in the
//           way, nothing is deleted
//   driver  none: only what it reports of a      those whose data goes    the content is, too;
//           VolumeSnapshot tells, which stays    with them                the sidecar asks again
//
// A VolumeSnapshot that is already being deleted counts as room, and is waited for first. Members
// of a group go together, if all of them may.
namespace csidelta::snapshots {

// What may be deleted, the oldest first. Pure.
std::vector<Unit> ChooseForRoom(const RetentionPlan& plan, csi::RoomLimit limit);

// Explains what to do about `refused`, which is OutOfRoom(), if no room is made. Names the quota's
// use and the VolumeSnapshots to delete for `needed` more, else why they are kept. A sentence
// without a full stop. Objects that cannot be read are omitted.
std::string ExplainRoom(const CallContext& ctx, k8s::ApiClient& api,
                        const RetentionRequest& request, const absl::Status& refused, int needed);

// Not thread-safe. Borrows all that it is given.
class RoomMaker {
 public:
  // `wait_max`: until the deleted VolumeSnapshots are gone.
  RoomMaker(const CallContext& ctx, k8s::ApiClient& api, RetentionRequest request,
            absl::Duration wait_max)
      : ctx_(ctx), api_(api), request_(std::move(request)), wait_max_(wait_max) {}

  // Makes room in the quotas for `needed` VolumeSnapshots like `one`. OK also if there is room.
  //   RESOURCE_EXHAUSTED  the rules allow no more to go, in the words of ExplainRoom()
  //   DEADLINE_EXCEEDED   what was deleted is not gone yet, or the quota does not show it
  // Other errors are the API server's, for `one` or for a LIST.
  absl::Status MakeInQuota(const CreationRequest& one, int needed);
  // Deletes one VolumeSnapshot of each of the PVCs that the driver has. Errors alike, if none may
  // be deleted.
  absl::Status MakeInDriver(const absl::Status& refused);

  // Returns the deletions, and the failures that did not end them, since the last call.
  Retention TakeReport();

 private:
  absl::Status AskQuotas(const CreationRequest& one, int needed);
  absl::Status AwaitQuota(const CreationRequest& one, int needed, absl::Duration wait_max);
  absl::Status Remove(csi::RoomLimit limit, const absl::Status& refused, int needed);

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const RetentionRequest request_;
  const absl::Duration wait_max_;
  bool has_deleted_ = false;
  Retention report_;
};

}  // namespace csidelta::snapshots
