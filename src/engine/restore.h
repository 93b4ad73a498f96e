#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "engine/restore_target.h"
#include "engine/session.h"
#include "engine/snapshot_choice.h"
#include "incremental/mover/block_downloader.h"

namespace csidelta::engine {

// The snapshot to write, and its target.
struct RestoreJob {
  std::string snapshot;         // the beginning of its id, or "latest"
  SnapshotFilter filter = {};   // for "latest"
  std::string target;           // a block device or an image file
  bool target_is_zero = false;  // it reads as zeros; checked on a sample
  bool only_differing = false;  // read the target first; not with target_is_zero
  bool is_dry_run = false;
  std::optional<absl::Time> start_before = {};  // later nothing is written
};

// The plan of a restore: what it writes, and over what.
struct RestorePlan {
  repository::StoredSnapshot snapshot = {};
  RestoreTarget target = {};
  int64_t volume_bytes = 0;
  // "latest" was asked for, and a file of snapshots/ does not read: it may be that of a newer one.
  bool may_be_older = false;
};

struct RestoreOutcome {
  RestorePlan plan = {};
  std::optional<incremental::RestoreResult> result = {};  // nothing after a dry run
};

// Called before anything is written; its error ends the restore.
using RestoreConsent = std::function<absl::Status(const RestorePlan& plan)>;

// Writes a volume back from the session's repository, which it opens. The target is overwritten,
// zeros included; until all is written it begins with a mark of that. Errors in addition to those
// of Session::Open(), ChooseSnapshot(), ExamineTarget() and incremental::DownloadBlocks():
//   INVALID_ARGUMENT     the job contradicts itself
//   FAILED_PRECONDITION  it is too late to begin
//   OUT_OF_RANGE         marked as IsTargetTooSmall(); nothing was written
absl::StatusOr<RestoreOutcome> RunRestore(const CallContext& ctx, Session& session,
                                          const RestoreJob& job, const RestoreConsent& consent,
                                          const ByteProgress& progress);

}  // namespace csidelta::engine
