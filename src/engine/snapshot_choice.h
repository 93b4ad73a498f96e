#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "engine/session.h"
#include "repository/repo_snapshot.h"
#include "repository/repository.h"

namespace csidelta::engine {

// Selects snapshots of a repository, with restic's flags.
struct SnapshotFilter {
  std::vector<std::string> hosts = {};
  std::vector<std::string> paths = {};   // all of them
  std::vector<std::string> tags = {};    // each a list with commas, all of which count
  std::string backup = {};               // the Backup of Velero: "nightly-3", or "velero/nightly-3"
  std::optional<absl::Time> until = {};  // not newer

  bool IsEmpty() const {
    return hosts.empty() && paths.empty() && tags.empty() && backup.empty() && !until.has_value();
  }
  // Whether the host is one of `hosts`, every path is there, all tags of one list are, and it is of
  // `backup` and not newer than `until`. An empty field matches everything. Pure.
  bool Matches(const repository::RepoSnapshot& snapshot) const;
};

// The tags of all `lists`, which are separated by commas, each once, in their order.
std::vector<std::string> SplitTags(const std::vector<std::string>& lists);

// Warns of snapshots that cannot be read, each once: the first few by name, the number of others
// when it is destroyed. Thread-compatible.
class UnreadableSnapshots {
 public:
  explicit UnreadableSnapshots(Listener listener) : listener_(std::move(listener)) {}
  ~UnreadableSnapshots();
  UnreadableSnapshots(const UnreadableSnapshots&) = delete;
  UnreadableSnapshots& operator=(const UnreadableSnapshots&) = delete;

  // The sink of one listing; snapshots of further listings are not reported again.
  repository::DamagedSnapshotSink DamagedSink();
  bool any() const { return count_ > 0; }

 private:
  const Listener listener_;
  int listings_ = 0;
  int64_t count_ = 0;
};

// The meaning of "latest" if snapshots of several volumes, that is of several hosts and paths,
// match.
enum class LatestOf {
  kAll,        // the newest of all
  kOneVolume,  // none: FAILED_PRECONDITION that names the newest of each
};

// The snapshot whose id begins with `id`, or, for "latest", the newest that matches, as
// repository::NewestOf() chooses it. Warns of snapshots that are dated in the future, chosen or
// not. Also warns of those that cannot be read, which cannot be the latest. Errors end with the
// command that lists snapshots.
absl::StatusOr<repository::StoredSnapshot> ChooseSnapshot(
    const CallContext& ctx, const Listener& listener, const repository::Repository& repository,
    const std::string& id, const SnapshotFilter& filter, LatestOf latest_of = LatestOf::kAll,
    UnreadableSnapshots* unreadable = nullptr);

// "host:/path, /other", the name of a volume for users.
std::string VolumeName(const repository::RepoSnapshot& snapshot);

// "snapshot 0a1b2c3d is dated in the future, 2099-01-01 00:00:00".
std::string FutureText(const repository::StoredSnapshot& stored);

}  // namespace csidelta::engine
