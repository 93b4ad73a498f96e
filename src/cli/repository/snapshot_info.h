#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "repository/repo_snapshot.h"

// Figures of backups, read from their repository snapshots. Pure functions.
namespace csidelta::cli {

// Terminals with at least so many columns get the wide table.
inline constexpr int kWideTableColumns = 120;

// "full", "incremental", or "" for a snapshot of another program. Read from the tag kind= if the
// snapshot is from a version that recorded nothing else.
std::string ModeOf(const repository::RepoSnapshot& snapshot);

// The duration of a backup, from the snapshot's summary; nullopt if that lacks it.
std::optional<absl::Duration> DurationOf(const repository::RepoSnapshot& snapshot);

// The tags given by the user.
std::vector<std::string> GivenTags(const repository::RepoSnapshot& snapshot);

// Tables of the snapshots, one per volume, oldest first, each under a line with host and paths, and
// their count. With fewer than kWideTableColumns columns a row has at most 80 characters. "-" is an
// unknown value. `verified` is since when all of a snapshot is, where that is known.
std::string SnapshotTables(absl::Span<const repository::StoredSnapshot> snapshots, int columns,
                           const std::map<repository::Id, absl::Time>& verified, absl::Time now);

}  // namespace csidelta::cli
