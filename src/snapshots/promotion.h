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

// Interval between two reads of the events of an awaited PVC and its VolumeSnapshot. It begins
// short, because the provisioner reports at once that a PVC waits for a Pod.
inline constexpr absl::Duration kProvisioningLookIntervalMin = absl::Milliseconds(250);
inline constexpr absl::Duration kProvisioningLookIntervalMax = absl::Seconds(2);

// Called at every read of an awaited object, with its state and the last report about it; "" for
// none.
using WaitObserver = std::function<void(absl::string_view state, absl::string_view waits_for)>;

struct PromotionTarget {
  objects::VolumeSnapshot snapshot;
  PvcOptions options;
};

struct PromotionRequest {
  std::vector<PromotionTarget> targets;  // at least one
  std::string labels_of = {};            // a PVC of the first target's namespace; "": no labels
  // An object that cannot be read is an error, except a source PVC, and bindings are proven by uid.
  bool must_check_all = false;
};

struct Promotion {
  objects::VolumeSnapshot snapshot;
  std::optional<objects::VolumeSnapshotContent> content;  // nothing if it was not read
  PlannedPvc pvc;
  std::map<std::string, std::string> labels;               // of the PVC
  bool waits_for_first_consumer = false;                   // as far as its StorageClass was read
  std::optional<objects::PersistentVolumeClaim> taken_by;  // the PVC that has its name already
  std::vector<Finding> refusals;
};

struct PromotionPlan {
  std::vector<Promotion> promotions;     // in the order of the targets
  std::vector<std::string> not_checked;  // objects that cannot be read: "binding not checked: ..."
};

// The VolumeSnapshots of a namespace that were taken together under this name, by name. NOT_FOUND
// if none exists.
absl::StatusOr<std::vector<objects::VolumeSnapshot>> SnapshotsOfSet(
    const CallContext& ctx, k8s::ApiClient& api, absl::string_view namespace_name,
    absl::string_view set);

// Waits until a VolumeSnapshot is ready to use, or can never be: it is being deleted, or refused
// for good. Returns its state at that time. NOT_FOUND if it does not exist; DEADLINE_EXCEEDED with
// its state and the driver's last message.
absl::StatusOr<objects::VolumeSnapshot> AwaitUsableSnapshot(const CallContext& ctx,
                                                            k8s::ApiClient& api,
                                                            absl::string_view namespace_name,
                                                            absl::string_view name,
                                                            const WaitObserver& on_look = {});

// Two PVCs of one name are refused. NOT_FOUND if the PVC of `labels_of` does not exist.
absl::StatusOr<PromotionPlan> PlanPromotions(const CallContext& ctx, k8s::ApiClient& api,
                                             const PromotionRequest& request);

// The object to create; `snapshot_name` is that of a VolumeSnapshot in its namespace. Pure.
objects::PersistentVolumeClaim MakePvcObject(const PlannedPvc& pvc, absl::string_view snapshot_name,
                                             const std::map<std::string, std::string>& labels);

// Makes the PVCs, and reads the VolumeSnapshots once more: without its VolumeSnapshot a PVC stays
// Pending for ever. REQUIRES a plan without refusals. After an error none of them is left, or the
// message names those that are. ALREADY_EXISTS if a name was taken meanwhile; FAILED_PRECONDITION
// if a VolumeSnapshot was deleted.
absl::StatusOr<std::vector<objects::PersistentVolumeClaim>> MakePvcs(const CallContext& ctx,
                                                                     k8s::ApiClient& api,
                                                                     const PromotionPlan& plan);

// Deletes a PVC that was made here. OK if it is gone, or another PVC has its name. One that is
// bound stays, FAILED_PRECONDITION: what its volume holds is not known.
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
  bool stays = true;                      // after an error, whose message says how to remove it
  // No Pod will use the PVC and so show that it has its data. If only a Pod could show it,
  // `not_checked` says so.
  bool has_no_pod = false;
  WaitObserver on_look = {};
};

// Waits until the PVC is bound and has its data (csi/population.h). Returns early if it waits for
// its first consumer and the scheduler has not chosen a node. Adds to `not_checked` if events
// cannot be read, and with `has_no_pod` if it is unknown whether the data is there. Errors:
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
