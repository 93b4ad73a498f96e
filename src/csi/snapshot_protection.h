#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/finding.h"
#include "csi/snapshot_state.h"
#include "objects/volume_snapshot.h"

// Why a VolumeSnapshot must not be deleted: the one answer, for deletion, prune and lists. Pure.
//
// It depends on the requester: a person who names it, prune (also to make room), the deletion of
// the backup that made it, or the clean-up of delta bases.
//
//   code           when                                         person  prune  backup  base
//   -------------  -------------------------------------------  ------  -----  ------  ----
//   PendingSource  a PVC that is not bound is filled from it,   yes     yes    yes     yes
//                  or a bound one may not have its data yet
//   GroupMember    it goes with its VolumeGroupSnapshot         yes(2)  yes(2) -       -
//   DeltaBase      the next backup is compared with it          yes     yes    yes     -
//   Backup         a backup made it, and deletes it             yes     yes    -       yes
//   Keep           labelled snapshot.csi-delta.io/keep          yes     yes    -       -
//   LastReady      the only Ready one of its PVC                yes(1)  yes    -       -
//   Young          younger than 5 minutes                       -       yes    -       -
//
// (1) A person may overrule it (--last-too). The other rows hold until their cause is removed.
// (2) Unless all members go: SparedOf() in snapshots/snapshot_inventory.h.
namespace csidelta::csi {

// The codes that other code compares with.
inline constexpr absl::string_view kBackupCode = "Backup";
inline constexpr absl::string_view kGroupMemberCode = "GroupMember";
inline constexpr absl::string_view kLastReadyCode = "LastReady";

enum class Requester { kPerson, kPrune, kBackupDeletion, kBaseCleanUp };

inline constexpr absl::Duration kYoungSnapshotAgeMax = absl::Minutes(5);

// The surroundings of a VolumeSnapshot. A field that cannot be read is left empty; the caller
// reports that.
struct ProtectionInput {
  ContentReading content;
  std::string mover_namespace;  // its VolumeSnapshots are the mover's
  std::vector<std::string> pending_pvcs =
      {};  // PVCs of its namespace that are being filled from it
  // Bound ones that may not have its data yet (PopulationReader): one line each.
  std::vector<std::string> unfilled = {};
  bool is_last_ready = false;  // the only Ready one of its PVC
  absl::Time now;
};

// The rows that hold for `requester`, in the order of the table; none: it may go.
std::vector<Finding> ProtectionsOf(const objects::VolumeSnapshot& snapshot,
                                   const ProtectionInput& input, Requester requester);

// LastReady as ProtectionsOf() returns it, for decisions about several VolumeSnapshots at once
// (SparedOf() in snapshots/snapshot_inventory.h).
Finding LastReadyProtection();

}  // namespace csidelta::csi
