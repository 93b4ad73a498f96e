#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "base/keep_rules.h"
#include "repository/lock.h"
#include "repository/maintenance.h"
#include "repository/repo_snapshot.h"
#include "repository/repository.h"

// Which repository snapshots stay, by rules with the meaning they have in restic, and the removal
// of the rest.
namespace csidelta::repository {

// Which snapshots compete with each other.
struct SnapshotGrouping {
  bool by_host = true;
  bool by_paths = true;
  bool by_tags = false;
};

// INVALID_ARGUMENT unless `text` is "" or a list of host, paths and tags with commas.
absl::StatusOr<SnapshotGrouping> ParseGrouping(absl::string_view text);

struct KeptSnapshot {
  StoredSnapshot snapshot;
  std::vector<std::string> reasons;  // "daily snapshot", "within 7d", "oldest yearly snapshot".
};

struct ForgetGroup {
  // What the snapshots have in common; empty where it is not grouped by.
  std::string hostname;
  std::vector<std::string> paths;
  std::vector<std::string> tags;
  // Newest first.
  std::vector<KeptSnapshot> keep;
  std::vector<StoredSnapshot> remove;
};

// Sorts snapshots into groups and decides about each. Pure. FAILED_PRECONDITION when rules are
// empty, or would leave a group without any snapshot: who wants that removes snapshots by id.
absl::StatusOr<std::vector<ForgetGroup>> DecideForget(absl::Span<const StoredSnapshot> snapshots,
                                                      const KeepRules& rules,
                                                      const SnapshotGrouping& grouping,
                                                      absl::Time now);

// Removes these snapshots, then their sidecars; the data goes with the next prune. One that is gone
// already is no error, and one that the store refuses to delete stays, with its sidecar:
// Lock::refused() tells. REQUIRES that `lock` is exclusive. An error leaves the rest in place.
absl::Status RemoveSnapshots(const CallContext& ctx, Repository& repository, Lock& lock,
                             absl::Span<const Id> ids, const ProgressReporter& progress = nullptr);

}  // namespace csidelta::repository
