#pragma once

#include <optional>
#include <string>
#include <vector>

#include "repository/repo_snapshot.h"

// What the repository snapshot of a volume says of the group that its volume snapshot was taken
// with: up to four tags, which stock restic lists and filters by, too.
namespace csidelta::incremental {

struct VolumeGroupTags {
  std::string group;     // "<namespace>/<label value>"
  std::string snapshot;  // the VolumeGroupSnapshot: the same for all that were taken together
  std::string snapshot_taken_at;  // RFC 3339; "" where the driver did not say
  int members = 0;                // that were taken together; 0: not known

  bool operator==(const VolumeGroupTags&) const = default;
};

// "volume-group=shop/db", "volume-group-snapshot=velero-db-0123", "volume-group-cut=2026-...",
// "volume-group-members=3". Pure.
std::vector<std::string> FormatGroupTags(const VolumeGroupTags& tags);

// Nothing where no tag names a group. Pure.
std::optional<VolumeGroupTags> ParseGroupTags(const repository::RepoSnapshot& snapshot);

}  // namespace csidelta::incremental
