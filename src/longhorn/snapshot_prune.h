#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/keep_rules.h"
#include "longhorn/snapshot_inventory.h"

// Which Snapshots of Longhorn a prune removes: the one decision. Pure.
//
// The keep rules are those of forget (base/keep_rules.h), asked for each volume by itself, about
// what is selected and Ready. Without rules all that is selected goes. The first row that holds
// decides:
//
//   selected  state              further                                     verdict  reason
//   --------  -----------------  ------------------------------------------  -------  -----------
//   no        any                any                                         no line
//   yes       Deleting           -                                           kept     Deleting
//   yes       Removed            -                                           kept     Removed
//   yes       Pending, NotReady  -                                           kept     NotReady
//   yes       Ready              Longhorn took it itself (rebuild, expansion) kept    System
//   yes       Ready              no date is recorded                         kept     NotCounted
//   yes       Ready              a keep rule keeps it                        kept     Rule
//   yes       Ready              it is protected (snapshot_protection.h)     kept     Protected
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

enum class PruneVerdict { kKept, kHeld, kRemoved };
enum class PruneReason {
  kDeleting,
  kRemoved,
  kNotReady,
  kSystem,
  kNotCounted,
  kRule,
  kProtected,
  kVolumeGone,
  kVolumeBusy,
  kDetached,
  kNoRule,
};

// "Rule", ...
absl::string_view ToString(PruneReason reason);

struct PruneDecision {
  std::size_t entry = 0;  // its position in the inventory
  PruneVerdict verdict = PruneVerdict::kKept;
  PruneReason reason = PruneReason::kNotReady;
  std::string message = {};  // one line
};

// A decision for each that is selected, in their order: by volume, the oldest first. REQUIRES that
// Protect() was called.
std::vector<PruneDecision> DecidePrune(const Inventory& inventory, const PruneRequest& request);

}  // namespace csidelta::longhorn
