#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/finding.h"
#include "k8s/api_client.h"
#include "objects/persistent_volume.h"
#include "objects/volume_snapshot.h"
#include "snapshots/promotion_check.h"

// PVCs made of VolumeSnapshots, with the caller's own rights:
//
//   VolumeSnapshots
//       |  PlanPromotions: what each PVC would be, and all that is against it; changes nothing
//       v
//   plan without refusals
//       |  MakePvcs: all of them, or none
//       v
//   PVCs, Pending
//       |  AwaitPvc, for each
//       v
//   bound with its data, waiting for a Pod, refused by the provisioner, or dead for a failed copy
namespace csidelta::snapshots {

// How often the events of a PVC and its VolumeSnapshot are looked at while it is awaited: sooner at
// first, because that it waits for a Pod is said at once.
inline constexpr absl::Duration kProvisioningLookIntervalMin = absl::Milliseconds(250);
inline constexpr absl::Duration kProvisioningLookIntervalMax = absl::Seconds(2);

// Told while something is awaited, at every look: its state, and what was reported of it last, ""
// where nothing was.
using WaitObserver = std::function<void(absl::string_view state, absl::string_view waits_for)>;

struct PromotionTarget {
  objects::VolumeSnapshot snapshot;
  PvcOptions wish;
};

struct PromotionRequest {
  std::vector<PromotionTarget> targets;  // at least one
  std::string labels_of = {};            // a PVC of the first target's namespace; "": no labels
  // What may not be read is an error, but for the source PVCs, and bindings are proven by uid.
  bool must_check_all = false;
};

struct Promotion {
  objects::VolumeSnapshot snapshot;
  std::optional<objects::VolumeSnapshotContent> content;  // nothing when it was not read
  PlannedPvc pvc;
  std::map<std::string, std::string> labels;               // of the PVC
  bool waits_for_first_consumer = false;                   // as far as its StorageClass was read
  std::optional<objects::PersistentVolumeClaim> taken_by;  // the PVC that has its name already
  std::vector<Finding> refusals;
};

struct PromotionPlan {
  std::vector<Promotion> promotions;     // in the order of the targets
  std::vector<std::string> not_checked;  // what may not be read: "binding not checked: ..."
};

// The VolumeSnapshots of a namespace that were taken together under this name, by name. NOT_FOUND
// when none exists.
absl::StatusOr<std::vector<objects::VolumeSnapshot>> SnapshotsOfSet(
    const CallContext& ctx, k8s::ApiClient& api, absl::string_view namespace_name,
    absl::string_view set);

// Waits until a VolumeSnapshot is ready to use, or will never be: is being deleted, or refused for
// good. Returns it as it is then. NOT_FOUND when it does not exist; DEADLINE_EXCEEDED with its
// state and what the driver said last.
absl::StatusOr<objects::VolumeSnapshot> AwaitUsableSnapshot(const CallContext& ctx,
                                                            k8s::ApiClient& api,
                                                            absl::string_view namespace_name,
                                                            absl::string_view name,
                                                            const WaitObserver& on_look = {});

// Two of one name are refused. NOT_FOUND when the PVC of `labels_of` does not exist.
absl::StatusOr<PromotionPlan> PlanPromotions(const CallContext& ctx, k8s::ApiClient& api,
                                             const PromotionRequest& request);

// The object to create; `snapshot_name` is that of a VolumeSnapshot in its namespace. Pure.
objects::PersistentVolumeClaim MakePvcObject(const PlannedPvc& pvc, absl::string_view snapshot_name,
                                             const std::map<std::string, std::string>& labels);

// Makes the PVCs, and looks at the VolumeSnapshots once more: one that has gone meanwhile would
// leave its PVC Pending for ever. REQUIRES a plan without refusals. After an error none of them is
// left, or the message names which. ALREADY_EXISTS when a name was taken meanwhile;
// FAILED_PRECONDITION when a VolumeSnapshot went.
absl::StatusOr<std::vector<objects::PersistentVolumeClaim>> MakePvcs(const CallContext& ctx,
                                                                     k8s::ApiClient& api,
                                                                     const PromotionPlan& plan);

// Deletes a PVC that was made here. OK when it is gone, or another has its name. One that is bound
// stays, FAILED_PRECONDITION: what its volume holds is not known.
absl::Status RemovePvc(const CallContext& ctx, k8s::ApiClient& api,
                       const objects::PersistentVolumeClaim& pvc);

// FAILED_PRECONDITION when no PVC can be filled from a VolumeSnapshot any more: it is gone, is
// another one, or is being deleted and its provisioner has not begun.
absl::Status CheckStillThere(const CallContext& ctx, k8s::ApiClient& api,
                             const objects::VolumeSnapshot& snapshot);

enum class PvcState { kPlanned, kPending, kBound, kWaitsForFirstConsumer };

// "Planned", "Pending", ...
absl::string_view ToString(PvcState state);

struct AwaitedPvc {
  objects::PersistentVolumeClaim pvc;
  PvcState state = PvcState::kPending;
};

struct PvcWait {
  const objects::VolumeSnapshot& source;  // that it is filled from
  std::string driver = {};                // of the VolumeSnapshot; "" when not known
  bool waits_for_first_consumer = false;  // its StorageClass is known to
  bool stays = true;                      // after an error, which then says how to remove it
  // No Pod will use it that would show that it has its data: where only that would, it is noted.
  bool has_no_pod = false;
  WaitObserver on_look = {};
};

// Waits until the PVC is bound and has its data (csi/population.h). One that waits for its first
// consumer is not waited for until the scheduler has chosen a node. Adds to `not_checked` when
// events may not be read, and with `has_no_pod` when it is not known whether the data is there.
// Errors:
//   NOT_FOUND            another client deleted the PVC
//   FAILED_PRECONDITION  it will never be bound: the provisioner refuses with an answer that
//                        repeating does not change, or the VolumeSnapshot goes; or it is bound to
//                        a volume that was there before and holds something else; or the driver
//                        failed to copy the data
//   DEADLINE_EXCEEDED    with what the provisioner said last
absl::StatusOr<AwaitedPvc> AwaitPvc(const CallContext& ctx, k8s::ApiClient& api,
                                    const objects::PersistentVolumeClaim& pvc, const PvcWait& wait,
                                    std::vector<std::string>& not_checked);

}  // namespace csidelta::snapshots
