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

// Volume groups as the repository snapshots of their members tell of them. Pure functions; what
// tags say may come from anybody who writes to a repository, and is believed of that group alone.
namespace csidelta::cli {

// A repository snapshot of a volume that was taken with others.
struct GroupMember {
  incremental::VolumeGroupTags tags;
  std::string cluster;  // the repository snapshot's host
  std::string claim;    // "/namespace/claim": its paths
  repository::Id id;
  absl::Time time;  // of the repository snapshot
  int64_t size_bytes = 0;
  std::string repository;  // its place, as --repo takes it
  bool chosen = true;      // by the filter of who asks

  // In memory, about; what a caller has many of is to be bounded.
  int64_t MemoryBytes() const;
};

// Nothing where `stored` is of no group.
std::optional<GroupMember> MemberOf(const repository::StoredSnapshot& stored,
                                    const std::string& repository);

// What was taken together.
struct VolumeGroup {
  enum class State {
    kComplete,    // all members are there
    kIncomplete,  // some are not, or not yet
    kUnknown,     // how many there were is not said, or more are there than were, or what they are
                  // of has no name
  };

  std::string name;      // "namespace/label value"
  std::string snapshot;  // the VolumeGroupSnapshot; "" where no tag names it
  std::string cluster;
  std::optional<absl::Time> snapshot_taken_at =
      {};                                 // the earliest that a member says; a time, if one does
  int64_t members_expected = 0;           // the most that a member says; 0: none does
  std::vector<GroupMember> members = {};  // by claim, each once: its newest repository snapshot
  State state = State::kUnknown;

  // Of the members; where none has a namespace, that of the name.
  std::set<std::string> Namespaces() const;
  // The cut; where that is not known, the first member's repository snapshot.
  absl::Time OrderedBy() const;
};

// "complete", "incomplete", "unknown".
absl::string_view StateName(VolumeGroup::State state);

// Groups, the oldest first. Members belong together that are of one cluster, group and
// VolumeGroupSnapshot; where that is not named, of one cut; where that is not either, each is
// alone.
std::vector<VolumeGroup> SortIntoGroups(std::vector<GroupMember> members);

// Whether `name` is that of the group, its label value alone, or its VolumeGroupSnapshot.
bool IsCalled(const incremental::VolumeGroupTags& tags, absl::string_view name);

// Leaves the `count` newest of each cluster and name.
void KeepNewest(std::vector<VolumeGroup>& groups, int64_t count);

// Text for people: a block of lines.
std::string DescribeGroup(const VolumeGroup& group);
// One JSON object.
std::string GroupJsonText(const VolumeGroup& group);

}  // namespace csidelta::cli
