#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
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
using engine::SnapshotFilter;
using engine::SplitTags;
using engine::VolumeName;

// The text of an argument ID that a filter, or --upload, may stand for.
inline constexpr char kOneSnapshot[] =
    "the snapshot, by the beginning of its id, or \"latest\"; else that of --backup, --until or "
    "--upload";

// `host_names`: the names of --host, for a verb with another meaning of -H.
void DeclareFilterFlags(ArgumentTable& table, SnapshotFilter& filter,
                        absl::string_view host_names = "-H,--host");

// Warns of unreadable snapshots on the console, and holds the exit code for them.
class UnreadableSnapshots : public engine::UnreadableSnapshots {
 public:
  explicit UnreadableSnapshots(Console& console)
      : engine::UnreadableSnapshots(ListenerOf(console)) {}

  ExitCode code() const { return any() ? ExitCode::kIncomplete : ExitCode::kOk; }
};

// The snapshots of `ids`, as engine::ChooseSnapshot() finds them; without ids all that match the
// filter.
absl::StatusOr<std::vector<repository::StoredSnapshot>> ChooseSnapshots(
    const CallContext& ctx, Console& console, const repository::Repository& repository,
    const std::vector<std::string>& ids, const SnapshotFilter& filter,
    UnreadableSnapshots& unreadable);

// The flags of DeclareFilterFlags(), for messages.
inline constexpr char kFilterFlags[] = "--host, --path, --tag, --backup and --until";

// Warns that a filter, which is not empty, lets no snapshot through.
void WarnOfNoMatch(Console& console);

// The size of a volume, from the snapshot's summary; 0 if unknown.
int64_t SummaryBytes(const repository::RepoSnapshot& snapshot);

// A snapshot as restic prints it: its file's members, then id and short_id; and verified_at, if all
// of it is verified as of some time.
std::string SnapshotJsonText(const repository::StoredSnapshot& stored,
                             std::optional<absl::Time> verified_at = std::nullopt);

}  // namespace csidelta::cli
