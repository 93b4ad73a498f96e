#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "engine/session.h"
#include "repository/repo_snapshot.h"
#include "repository/repository.h"

namespace csidelta::engine {

// Which snapshots of a repository work is about, with restic's flags.
struct SnapshotFilter {
  std::vector<std::string> hosts = {};
  std::vector<std::string> paths = {};  // all of them
  std::vector<std::string> tags = {};   // each a list with commas, all of which count

  bool IsEmpty() const { return hosts.empty() && paths.empty() && tags.empty(); }
  // Whether the host is one of `hosts`, every path is there, and all tags of one list are. What is
  // empty asks for nothing. Pure.
  bool Matches(const repository::RepoSnapshot& snapshot) const;
};

// The tags of all of `lists`, which are texts with commas, each once, in their order.
std::vector<std::string> SplitTags(const std::vector<std::string>& lists);

// Tells of snapshots that do not read, each once: the first few by their names, and at its end how
// many others there are. Thread-compatible.
class UnreadableSnapshots {
 public:
  explicit UnreadableSnapshots(Listener listener) : listener_(std::move(listener)) {}
  ~UnreadableSnapshots();
  UnreadableSnapshots(const UnreadableSnapshots&) = delete;
  UnreadableSnapshots& operator=(const UnreadableSnapshots&) = delete;

  // For one listing; those of a second one are not told again.
  repository::DamagedSnapshotSink DamagedSink();
  bool any() const { return count_ > 0; }

 private:
  const Listener listener_;
  int listings_ = 0;
  int64_t count_ = 0;
};

// What "latest" may be where snapshots of several volumes, that is of several hosts and paths,
// match.
enum class LatestOf {
  kAll,        // the newest of all
  kOneVolume,  // none: FAILED_PRECONDITION that names the newest of each
};

// The snapshot whose id begins with `id`, or, for "latest", the newest that matches, as
// repository::NewestOf() has it. Warns of one that is dated in the future, whether it is the one or
// was passed over for another, and of those that do not read, which cannot be the latest. Errors
// end with the way to the list.
absl::StatusOr<repository::StoredSnapshot> ChooseSnapshot(
    const CallContext& ctx, const Listener& listener, const repository::Repository& repository,
    const std::string& id, const SnapshotFilter& filter, LatestOf latest_of = LatestOf::kAll,
    UnreadableSnapshots* unreadable = nullptr);

// "host:/path, /other", as a person knows a volume.
std::string VolumeName(const repository::RepoSnapshot& snapshot);

// "snapshot 0a1b2c3d is dated in the future, 2099-01-01 00:00:00".
std::string FutureText(const repository::StoredSnapshot& stored);

}  // namespace csidelta::engine
