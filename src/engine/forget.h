#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/keep_rules.h"
#include "engine/prune.h"
#include "engine/session.h"
#include "engine/snapshot_choice.h"
#include "repository/forget.h"

namespace csidelta::engine {

// The snapshots to remove: those that are named, or those that no rule keeps.
struct ForgetJob {
  std::vector<std::string> ids = {};   // beginnings of ids, or "latest"
  std::vector<std::string> tags = {};  // all snapshots that have one of them, beside `ids`
  // If not "": each tag with this prefix of a snapshot in `ids` counts as one of `tags`.
  std::string sibling_tag_prefix = {};
  KeepRules rules = {};
  repository::SnapshotGrouping grouping = {};  // which compete, for the rules
  SnapshotFilter filter = {};
  bool ignore_missing = false;  // an id that is not there counts as removed
  bool is_dry_run = false;

  bool frees_space = false;  // too, if something was removed
  // Not while an unfinished backup may resume: what it stored would be deleted, too.
  bool spares_unfinished = false;
  PruneJob prune = {};
};

struct ForgetOutcome {
  std::vector<repository::ForgetGroup> groups = {};
  std::size_t removed = 0;  // or, after a dry run, what would be
  // Files of snapshots, and their sidecars; not after a dry run.
  LockedObjects locked = {};
  repository::RefusedDeletions refused = {};  // snapshots that stay
};

// Removes the snapshots from the session's repository, which it opens alone. Their space is freed
// by FreeSpace(). Errors in addition to those of Session::Open(), ChooseSnapshot() and
// repository::DecideForget():
//   INVALID_ARGUMENT  the job names snapshots both by id or tag and by rules
//   DATA_LOSS         a snapshot does not read, and is not named by its whole id
absl::StatusOr<ForgetOutcome> RunForget(const CallContext& ctx, Session& session,
                                        const ForgetJob& job, const Progress& progress);

// Frees the space after RunForget(), with the same session, job and its outcome. Nothing if the job
// frees no space, or if an unfinished backup prevents it.
absl::StatusOr<std::optional<PruneOutcome>> FreeSpace(const CallContext& ctx, Session& session,
                                                      const ForgetJob& job,
                                                      const ForgetOutcome& outcome,
                                                      const Progress& progress);

}  // namespace csidelta::engine
