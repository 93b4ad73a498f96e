#pragma once

#include <cstddef>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/keep_rules.h"
#include "k8s/api_client.h"
#include "longhorn/snapshot_inventory.h"

// Which Snapshots of Longhorn a prune removes, the one decision, and their deletion.
//
// The keep rules are those of forget (base/keep_rules.h), asked for each volume by itself, about
// what is selected and Ready. Without rules all that is selected goes. The first row that holds
// decides:
//
//   selected  state              further                                     verdict  code
//   --------  -----------------  ------------------------------------------  -------  -----------
//   no        any                any                                         no line
//   yes       Deleting           -                                           kept     Deleting
//   yes       Removed            -                                           kept     Removed
//   yes       Pending, NotReady  -                                           kept     NotReady
//   yes       Ready              Longhorn took it itself (rebuild, expansion) kept    System
//   yes       Ready              no date is recorded                         kept     NotCounted
//   yes       Ready              a keep rule keeps it                        kept     Rule
//   yes       Ready              it is protected (snapshot_inventory.h)      kept     Protected
//   yes       Ready              its volume is gone, going, migrating or     held     VolumeGone,
//                                being filled                                         VolumeBusy
//   yes       Ready              its volume is not attached, and not         held     Detached
//                                also_detached
//   yes       Ready              -                                           removed  NoRule
//
// What is held is not needed: Longhorn would not delete it now. From 1.11 on it deletes nothing of
// a volume that is not attached; a deletion that was requested is carried out at the next
// attachment.
namespace csidelta::longhorn {

struct PruneRequest {
  Selection selection;
  KeepRules rules;
  bool also_detached = false;
  absl::Time now;
};

// A decision for each that is selected, in their order: by volume, the oldest first. Pure.
std::vector<PruneDecision> DecidePrune(const Inventory& inventory, const PruneRequest& request);

// Longhorn merges the data of each into the next one, on every replica.
inline constexpr double kDeletionsPerSecond = 5;

// The ClusterRole of deploy/longhorn-roles.yaml that allows it.
inline constexpr char kPrunerRole[] = "csi-delta-longhorn-pruner";

// Requests the deletion of each, as it was read: by its uid, so that another Snapshot of the name,
// which Longhorn makes for an entry that its engine still has, is left alone. Waits for none: the
// finalizer is Longhorn's, and so is the rest. Changes nothing else, so the next run finishes one
// that was ended. At most kDeletionsPerSecond; a stop ends that wait.
//
// `note` hears of each in its order: OK when the API server took the deletion, or that Snapshot was
// gone; else why it was not deleted (a webhook of Longhorn denied it, ...). What would fail for all
// that come after ends it, is noted, too, and returned: UNAVAILABLE when Longhorn or the API server
// does not answer, PERMISSION_DENIED when the caller may not delete, CANCELLED and
// DEADLINE_EXCEEDED from ctx; of those after it `note` hears nothing.
absl::Status DeleteSnapshots(
    const CallContext& ctx, k8s::ApiClient& api, absl::string_view namespace_name,
    const std::vector<const SnapshotEntry*>& snapshots,
    absl::FunctionRef<void(std::size_t position, const absl::Status& end)> note);

}  // namespace csidelta::longhorn
