#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "repository/repo_snapshot.h"

// What the repository's snapshots say of the backups that made them. Pure functions.
namespace csidelta::cli {

// A terminal with so many columns gets the wide table.
inline constexpr int kWideTableColumns = 120;

// "full", "incremental", or "" for a snapshot of another program. By the tag kind= where the
// snapshot is of a version that did not write more.
std::string ModeOf(const repository::RepoSnapshot& snapshot);

// What a backup took, by the snapshot's summary; nothing where that does not say.
std::optional<absl::Duration> DurationOf(const repository::RepoSnapshot& snapshot);

// The tags that a person gave.
std::vector<std::string> GivenTags(const repository::RepoSnapshot& snapshot);

// Tables of the snapshots, one per volume, oldest first, each under a line with host and paths, and
// their count. With fewer than kWideTableColumns columns a row has at most 80 characters. "-": not
// known.
std::string SnapshotTables(absl::Span<const repository::StoredSnapshot> snapshots, int columns);

}  // namespace csidelta::cli
