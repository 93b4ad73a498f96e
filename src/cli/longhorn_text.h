#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/keep_rules.h"
#include "cli/arguments.h"
#include "cli/cluster_access.h"
#include "longhorn/snapshot_inventory.h"

// What the verbs of `csi-delta longhorn` read and print alike.
namespace csidelta::cli {

// Which Snapshots a verb is for.
struct LonghornFlags {
  std::string volume;
  std::string pvc;
  std::string job;
  bool of_gone_jobs = false;
  CalendarSpan older_than;

  void Declare(ArgumentTable& table);
  // INVALID_ARGUMENT for a PVC without its namespace.
  absl::StatusOr<longhorn::Selection> Select(absl::Time now) const;
};

// Longhorn's namespace: what -n says, else where Longhorn lives by default. INVALID_ARGUMENT for
// -A, and for -l, by which `verb` chooses nothing. Pure.
absl::StatusOr<std::string> LonghornNamespace(const ClusterOptions& cluster,
                                              absl::string_view verb);

// PERMISSION_DENIED when the selection asks for what could not be read. Pure.
absl::Status CheckSelection(const longhorn::Inventory& inventory,
                            const longhorn::Selection& selection);

// "snapshot.longhorn.io/NAME", as -o name prints it.
std::string LonghornSnapshotName(absl::string_view name);

// "nightly", "nightly (gone)", "nightly (not of the volume)".
std::string JobText(const longhorn::SnapshotEntry& entry);

}  // namespace csidelta::cli
