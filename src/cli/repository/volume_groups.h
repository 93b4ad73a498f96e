#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "incremental/mover/volume_group_tags.h"
#include "repository/blob.h"
#include "repository/repo_snapshot.h"

// Volume groups, read from the tags of their members' repository snapshots. Pure functions. Tags
// are untrusted: everybody who writes to a repository can set them. They affect their own group
// only.
namespace csidelta::cli {

// The repository snapshot of a volume that was taken together with others.
struct GroupMember {
  incremental::VolumeGroupTags tags;
  std::string cluster;  // the repository snapshot's host
  std::string claim;    // "/namespace/claim": its paths
  repository::Id id;
  absl::Time time;  // of the repository snapshot
  int64_t size_bytes = 0;
  std::string repository;  // its address, as for --repo
  bool chosen = true;      // by the filter of the caller

  // Approximate size in memory, for a limit on many members.
  int64_t MemoryBytes() const;
};

// nullopt if `stored` is not in a group.
std::optional<GroupMember> MemberOf(const repository::StoredSnapshot& stored,
                                    const std::string& repository);

// Snapshots that were taken together.
struct VolumeGroup {
  enum class State {
    kComplete,    // all members are there
    kIncomplete,  // some are not, or not yet
    kUnknown,     // the expected count is unknown or too low, or the VolumeGroupSnapshot has no
                  // name
  };

  std::string name;      // "namespace/label value"
  std::string snapshot;  // the VolumeGroupSnapshot; "" if no tag names it
  std::string cluster;
  std::optional<absl::Time> snapshot_taken_at = {};  // the earliest in the tags of a member
  int64_t members_expected = 0;           // the highest in the tags of a member; 0: unknown
  std::vector<GroupMember> members = {};  // by claim; for each claim its newest repository snapshot
  State state = State::kUnknown;

  // The namespaces of the members; if none has one, that of the name.
  std::set<std::string> Namespaces() const;
  // The time when it was taken; if unknown, that of the first member's repository snapshot.
  absl::Time OrderedBy() const;
};

// "complete", "incomplete", "unknown".
std::string StateName(VolumeGroup::State state);

// Groups, the oldest first. Members of one cluster, group and VolumeGroupSnapshot belong together.
// Without a VolumeGroupSnapshot the time when it was taken decides; without both, each member is
// alone.
std::vector<VolumeGroup> SortIntoGroups(std::vector<GroupMember> members);

// True if `name` is that of the group, its label value alone, or its VolumeGroupSnapshot.
bool IsCalled(const incremental::VolumeGroupTags& tags, absl::string_view name);

// Keeps the `count` newest of each cluster and name.
void KeepNewest(std::vector<VolumeGroup>& groups, int64_t count);

// A block of lines for people.
std::string DescribeGroup(const VolumeGroup& group);
// One JSON object.
std::string GroupJsonText(const VolumeGroup& group);

}  // namespace csidelta::cli
