#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/finding.h"
#include "csi/snapshot_state.h"
#include "objects/volume_snapshot.h"

// Why a VolumeSnapshot may not be deleted: the one answer, for all that delete, prune or list.
// Pure.
//
// It depends on the requester: a person who names it, prune (and what makes room), the deletion of
// the backup that made it, the clean-up of delta bases.
//
//   code           when                                         person  prune  backup  base
//   -------------  -------------------------------------------  ------  -----  ------  ----
//   PendingSource  a PVC that is not bound is filled from it,   yes     yes    yes     yes
//                  or a bound one may not have its data yet
//   GroupMember    it goes with its VolumeGroupSnapshot         yes     yes    -       -
//   DeltaBase      the next backup is compared with it          yes     yes    yes     -
//   Backup         a backup made it, and deletes it             yes     yes    -       yes
//   Keep           labelled snapshot.csi-delta.io/keep          yes     yes    -       -
//   LastReady      the only Ready one of its PVC                yes(1)  yes    -       -
//   Young          younger than 5 minutes                       -       yes    -       -
//
// (1) A person may overrule it (--last-too); the others only by removing what they say.
namespace csidelta::csi {

// The codes that others look for.
inline constexpr absl::string_view kBackupCode = "Backup";
inline constexpr absl::string_view kLastReadyCode = "LastReady";

enum class Requester { kPerson, kPrune, kBackupDeletion, kBaseCleanUp };

inline constexpr absl::Duration kYoungSnapshotAgeMax = absl::Minutes(5);

// What is known around a VolumeSnapshot. What may not be read is left empty, and the caller says
// so.
struct ProtectionInput {
  ContentReading content;
  std::string mover_namespace;  // what is in it is the mover's
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

// LastReady as ProtectionsOf() gives it, for what is decided about several VolumeSnapshots at once
// (LastReadyOf() in snapshots/snapshot_inventory.h).
Finding LastReadyProtection();

}  // namespace csidelta::csi
