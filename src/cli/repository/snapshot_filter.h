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
#include "engine/snapshot_choice.h"
#include "repository/repo_snapshot.h"
#include "repository/repository.h"

namespace csidelta::cli {

using engine::FutureText;
using engine::LatestOf;
using engine::SnapshotFilter;
using engine::SplitTags;
using engine::VolumeName;

// `host_names`: for a verb to which -H means something else.
void DeclareFilterFlags(ArgumentTable& table, SnapshotFilter& filter,
                        absl::string_view host_names = "-H,--host");

// engine::ChooseSnapshot(), which tells the console.
absl::StatusOr<repository::StoredSnapshot> ChooseSnapshot(const CallContext& ctx, Console& console,
                                                          const repository::Repository& repository,
                                                          const std::string& id,
                                                          const SnapshotFilter& filter,
                                                          LatestOf latest_of = LatestOf::kAll);

// Tells the console, and with which exit code to end over them.
class UnreadableSnapshots : public engine::UnreadableSnapshots {
 public:
  explicit UnreadableSnapshots(Console& console)
      : engine::UnreadableSnapshots(ListenerOf(console)) {}

  ExitCode code() const { return any() ? ExitCode::kIncomplete : ExitCode::kOk; }
};

// Those that are named, as ChooseSnapshot() finds them; none named: all that match.
absl::StatusOr<std::vector<repository::StoredSnapshot>> ChooseSnapshots(
    const CallContext& ctx, Console& console, const repository::Repository& repository,
    const std::vector<std::string>& ids, const SnapshotFilter& filter,
    UnreadableSnapshots& unreadable);

// Of a volume: its size as the snapshot's summary has it; 0 when it does not say.
int64_t SummaryBytes(const repository::RepoSnapshot& snapshot);

// A snapshot as restic prints it: its file's members, then id and short_id.
std::string SnapshotJsonText(const repository::StoredSnapshot& stored);

}  // namespace csidelta::cli
