#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/json.h"
#include "cli/arguments.h"
#include "cli/exit_code.h"
#include "cli/session.h"
#include "repository/repo_snapshot.h"
#include "repository/repository.h"

namespace csidelta::cli {

// Which snapshots of a repository a verb is about, with restic's flags.
struct SnapshotFilter {
  std::vector<std::string> hosts = {};
  std::vector<std::string> paths = {};  // all of them
  std::vector<std::string> tags = {};   // each a list with commas, all of which count

  bool IsEmpty() const { return hosts.empty() && paths.empty() && tags.empty(); }
  // Whether the host is one of `hosts`, every path is there, and all tags of one list are. What is
  // empty asks for nothing. Pure.
  bool Matches(const repository::RepoSnapshot& snapshot) const;
};

// `host_names`: for a verb to which -H means something else.
void DeclareFilterFlags(ArgumentTable& table, SnapshotFilter& filter,
                        absl::string_view host_names = "-H,--host");

// The tags of all of `lists`, which are texts with commas, each once, in their order.
std::vector<std::string> SplitTags(const std::vector<std::string>& lists);

// What "latest" may be where snapshots of several volumes, that is of several hosts and paths,
// match.
enum class LatestOf {
  kAll,        // the newest of all
  kOneVolume,  // none: FAILED_PRECONDITION that names the newest of each
};

// The snapshot whose id begins with `id`, or, for "latest", the newest that matches, as
// repository::NewestOf() has it. Warns of one that is dated in the future, whether it is the one or
// was passed over for another. Errors end with the way to the list; DATA_LOSS for "latest" when any
// snapshot does not read.
absl::StatusOr<repository::StoredSnapshot> ChooseSnapshot(const CallContext& ctx, Console& console,
                                                          const repository::Repository& repository,
                                                          const std::string& id,
                                                          const SnapshotFilter& filter,
                                                          LatestOf latest_of = LatestOf::kAll);

// "host:/path, /other", as a person knows a volume.
std::string VolumeName(const repository::RepoSnapshot& snapshot);

// "snapshot 0a1b2c3d is dated in the future, 2099-01-01 00:00:00".
std::string SayFuture(const repository::StoredSnapshot& stored);

// Tells of snapshots that did not read, and with which exit code to end over them.
class UnreadableSnapshots {
 public:
  explicit UnreadableSnapshots(Console& console) : console_(console) {}

  // For Repository::ListSnapshots().
  std::function<void(const repository::Id&, const absl::Status&)> Teller();

  bool any() const { return any_; }
  ExitCode code() const { return any_ ? ExitCode::kIncomplete : ExitCode::kOk; }

 private:
  Console& console_;
  bool any_ = false;
};

// Of a volume: its size as the snapshot's summary has it; 0 when it does not say.
int64_t SummaryBytes(const repository::RepoSnapshot& snapshot);

// A snapshot as restic prints it: its file's members, then id and short_id.
std::string SnapshotJsonText(const repository::StoredSnapshot& stored);

}  // namespace csidelta::cli
