#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "csi/static_content.h"
#include "k8s/api_client.h"
#include "snapshots/promotion.h"

// A PVC made of a VolumeSnapshot of another namespace, by a caller with rights on both ends:
//
//   source VolumeSnapshot, its content names it by its uid
//       |  PlanBorrowing: rights, binding, all of snapshots/promotion_check.h; changes nothing
//       v
//   plan without refusals
//       |  a second content of the same handle, Retain, and a VolumeSnapshot here
//       |  the PVC
//       v
//   PVC bound --> the pair is removed; the storage's snapshot stays that of the source
//             --error--> PVC and pair are removed
//             --waits for a Pod--> the pair stays until a second run finds the PVC bound
//
// A name or a handle is never enough: nothing is made without the right to read the source. The
// names of the pair follow from source and PVC, so that the next run resumes an interrupted one. If
// the VolumeSnapshot of a failed run is still being deleted, the next one has another name.
namespace csidelta::snapshots {

struct BorrowRequest {
  std::string source_namespace;
  std::string snapshot_name;
  PvcOptions options;
  std::string labels_of = {};
  bool awaits_source = true;  // until it is ready; else it is refused
};

struct BorrowPlan {
  PromotionPlan plan;       // of one
  csi::StaticContent pair;  // empty if the source has no content that names it
  bool was_begun = false;   // an earlier run made the PVC
};

// INVALID_ARGUMENT for two equal namespaces; PERMISSION_DENIED names the right that is missing;
// NOT_FOUND if the source does not exist.
absl::StatusOr<BorrowPlan> PlanBorrowing(const CallContext& ctx, k8s::ApiClient& api,
                                         const BorrowRequest& request);

struct Borrowed {
  AwaitedPvc pvc;
  absl::Status removed;  // of the pair, when the PVC is bound
};

// REQUIRES a plan without refusals. After an error neither PVC nor pair is left, or the message
// names what remains. Adds to `not_checked` like AwaitPvc().
absl::StatusOr<Borrowed> CarryOutBorrowing(const CallContext& ctx, k8s::ApiClient& api,
                                           const BorrowPlan& plan,
                                           std::vector<std::string>& not_checked,
                                           const WaitObserver& on_look = {});

}  // namespace csidelta::snapshots
