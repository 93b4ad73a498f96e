#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/keep_rules.h"
#include "k8s/api_client.h"
#include "snapshots/snapshot_inventory.h"

// Decides which VolumeSnapshots a prune deletes, for `snapshot prune` and for --make-room. Pure,
// but for ReadBackupNames().
//
// The keep rules are those of forget (base/keep_rules.h), applied to each PVC by itself. Only Ready
// VolumeSnapshots count as generations: a failed one is no copy, and an unfinished one may fail.
// The first row that holds decides:
//
//   maker     state                     further                            verdict  code
//   --------  ------------------------  ---------------------------------  -------  ------------
//   another   any                       and not any_maker                  ignored  OtherMaker
//   any       Creating, Uploading,      -                                  kept     NotFinished
//             Deleting, Unverified
//   any       any                       no PVC, or no date is recorded     kept     NotCounted
//   any       Ready                     a keep rule keeps it               kept     Rule
//   any       Error, Lost               no newer one of its PVC is Ready   kept     NoNewerReady
//   any       any                       it is protected from prune         kept     Protected
//   any       Ready                     no other Ready one of its PVC      kept     Protected
//                                         would be left (LastReady)
//   any       any                       another member of its group stays  kept     Protected
//                                         (GroupMember)
//   any       Ready                     -                                  removed  NoRule
//   any       Error, Lost               -                                  removed  Failed
//
// So a failed VolumeSnapshot stays visible until a later attempt has succeeded; after that it only
// uses up a quota. One that is not selected (SnapshotEntry) is ignored like one of another maker.
// For "would be left" the Ready ones of all makers count, for the other rows only those that are
// not ignored: the snapshot of a backup is deleted with the backup.
namespace csidelta::snapshots {

struct PruneRequest {
  KeepRules rules;
  bool any_maker = false;  // else only what the verbs of `csi-delta snapshot` made
  // The names of Velero's Backups, as labels have them; nothing: they were not read. They only
  // explain a VolumeSnapshot whose Backup is gone.
  std::optional<std::set<std::string>> backups = {};
  absl::Time now;
};

// A decision for each entry, in their order. REQUIRES that the inventory has all VolumeSnapshots of
// its PVCs.
std::vector<PruneDecision> DecidePrune(const std::vector<SnapshotEntry>& entries,
                                       const PruneRequest& request);

// True if Velero's Backups matter for these entries: VolumeSnapshots of other makers are pruned,
// too, or one that the verbs made carries a label of Velero's. Pure.
bool ConcernsBackups(const std::vector<SnapshotEntry>& entries, bool any_maker);

// The names of all Backups of the cluster, as labels have them. Empty if Velero is not installed.
absl::StatusOr<std::set<std::string>> ReadBackupNames(const CallContext& ctx, k8s::ApiClient& api);

}  // namespace csidelta::snapshots
