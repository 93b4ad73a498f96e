#include "cli/repository/volume_groups.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/json.h"
#include "base/rfc3339.h"
#include "cli/repository/snapshot_filter.h"
#include "cli/text.h"

namespace csidelta::cli {
namespace {

using incremental::VolumeGroupTags;
using State = VolumeGroup::State;

// The common properties of members that were taken together.
using GroupKey = std::tuple<std::string, std::string, std::string, std::string>;

GroupKey KeyOf(const GroupMember& member) {
  const VolumeGroupTags& tags = member.tags;
  const std::string taken_at = !tags.snapshot.empty()           ? ""
                               : tags.snapshot_taken_at.empty() ? member.id.Hex()
                                                                : tags.snapshot_taken_at;
  return {member.cluster, tags.group, tags.snapshot, taken_at};
}

absl::string_view NamespaceOf(absl::string_view path) {
  absl::ConsumePrefix(&path, "/");
  return path.substr(0, path.find('/'));
}

State StateOf(const VolumeGroup& group) {
  const int64_t present = std::ssize(group.members);
  if (group.snapshot.empty() || group.members_expected < present) {
    return State::kUnknown;
  }
  return present == group.members_expected ? State::kComplete : State::kIncomplete;
}

// Keeps the newest repository snapshot of each claim.
std::vector<GroupMember> EachClaimOnce(std::vector<GroupMember> members) {
  std::sort(members.begin(), members.end(), [](const GroupMember& a, const GroupMember& b) {
    return std::tie(a.claim, b.time, b.id) < std::tie(b.claim, a.time, a.id);
  });
  const auto end =
      std::unique(members.begin(), members.end(), [](const GroupMember& a, const GroupMember& b) {
        return a.claim == b.claim && !a.claim.empty();
      });
  members.erase(end, members.end());
  return members;
}

VolumeGroup MakeGroup(std::vector<GroupMember> members) {
  CSIDELTA_CHECK(!members.empty());  // a key of the map comes from a member
  VolumeGroup group = {.name = members.front().tags.group,
                       .snapshot = members.front().tags.snapshot,
                       .cluster = members.front().cluster};
  for (const GroupMember& member : members) {
    group.members_expected = std::max<int64_t>(group.members_expected, member.tags.members);
    if (const std::optional<absl::Time> taken_at = ParseRfc3339(member.tags.snapshot_taken_at);
        taken_at.has_value()) {
      group.snapshot_taken_at = group.snapshot_taken_at.has_value()
                                    ? std::min(*group.snapshot_taken_at, *taken_at)
                                    : *taken_at;
    }
  }
  group.members = EachClaimOnce(std::move(members));
  group.state = StateOf(group);
  return group;
}

std::string Headline(const VolumeGroup& group) {
  const std::string taken_at = group.snapshot_taken_at.has_value()
                                   ? absl::FormatTime("%Y-%m-%d %H:%M:%E*S UTC",
                                                      *group.snapshot_taken_at, absl::UTCTimeZone())
                                   : "at an unknown time";
  const auto present = std::ssize(group.members);
  std::string members = absl::StrCat(present, " of ", group.members_expected, " members");
  if (group.state == State::kIncomplete) {
    absl::StrAppend(&members, ", ", group.members_expected - present, " missing");
  } else if (group.members_expected == 0) {
    members = absl::StrCat(present, " members of an unknown number");
  }
  const std::string snapshot = group.snapshot.empty() ? "" : absl::StrCat(" as ", group.snapshot);
  return absl::StrCat("group ", Printable(group.name), ", taken ", taken_at, Printable(snapshot),
                      ": ", StateName(group.state), ", ", members, "\n");
}

}  // namespace

int64_t GroupMember::MemoryBytes() const {
  return static_cast<int64_t>(sizeof(*this) + tags.group.size() + tags.snapshot.size() +
                              tags.snapshot_taken_at.size() + cluster.size() + claim.size() +
                              repository.size());
}

std::optional<GroupMember> MemberOf(const repository::StoredSnapshot& stored,
                                    const std::string& repository) {
  std::optional<VolumeGroupTags> tags = incremental::ParseGroupTags(stored.snapshot);
  if (!tags.has_value()) {
    return std::nullopt;
  }
  return GroupMember{.tags = *std::move(tags),
                     .cluster = stored.snapshot.hostname,
                     .claim = absl::StrJoin(stored.snapshot.paths, ","),
                     .id = stored.id,
                     .time = stored.snapshot.time,
                     .size_bytes = SummaryBytes(stored.snapshot),
                     .repository = repository};
}

std::set<std::string> VolumeGroup::Namespaces() const {
  std::set<std::string> namespaces;
  for (const GroupMember& member : members) {
    namespaces.emplace(NamespaceOf(member.claim));
  }
  namespaces.erase("");
  return namespaces.empty() ? std::set<std::string>{std::string(NamespaceOf(name))} : namespaces;
}

absl::Time VolumeGroup::OrderedBy() const {
  if (snapshot_taken_at.has_value()) {
    return *snapshot_taken_at;
  }
  absl::Time first = absl::InfiniteFuture();
  for (const GroupMember& member : members) {
    first = std::min(first, member.time);
  }
  return first;
}

std::string StateName(State state) {
  constexpr EnumNames<State, 3> kNames = {{{State::kComplete, "complete"},
                                           {State::kIncomplete, "incomplete"},
                                           {State::kUnknown, "unknown"}}};
  return EnumName(kNames, state);
}

std::vector<VolumeGroup> SortIntoGroups(std::vector<GroupMember> members) {
  std::map<GroupKey, std::vector<GroupMember>> together;
  for (GroupMember& member : members) {
    together[KeyOf(member)].push_back(std::move(member));
  }
  std::vector<VolumeGroup> groups;
  groups.reserve(together.size());
  for (auto& [key, of_one] : together) {
    groups.push_back(MakeGroup(std::move(of_one)));
  }
  std::stable_sort(groups.begin(), groups.end(), [](const VolumeGroup& a, const VolumeGroup& b) {
    return a.OrderedBy() < b.OrderedBy();
  });
  return groups;
}

bool IsCalled(const VolumeGroupTags& tags, absl::string_view name) {
  return name == tags.group || name == tags.snapshot ||
         (!absl::StrContains(name, "/") && absl::EndsWith(tags.group, absl::StrCat("/", name)));
}

void KeepNewest(std::vector<VolumeGroup>& groups, int64_t count) {
  std::map<std::pair<std::string, std::string>, int64_t> seen;
  std::reverse(groups.begin(), groups.end());
  std::erase_if(groups, [&](const VolumeGroup& group) {
    return seen[{group.cluster, group.name}]++ >= count;
  });
  std::reverse(groups.begin(), groups.end());
}

std::string DescribeGroup(const VolumeGroup& group) {
  std::vector<std::vector<std::string>> rows;
  for (const GroupMember& member : group.members) {
    rows.push_back({absl::StrCat("  ", member.id.ShortHex()), member.claim,
                    member.size_bytes == 0 ? "" : FormatBytes(member.size_bytes),
                    member.repository});
  }
  return absl::StrCat(Headline(group), FormatTable(rows));
}

std::string GroupJsonText(const VolumeGroup& group) {
  Json snapshots = Json::array();
  for (const GroupMember& member : group.members) {
    snapshots.push_back({{"claim", member.claim},
                         {"id", member.id.Hex()},
                         {"short_id", member.id.ShortHex()},
                         {"time", FormatRfc3339(member.time)},
                         {"size_bytes", member.size_bytes},
                         {"repository", member.repository}});
  }
  const bool says_number = group.members_expected > 0;
  return DumpJson({{"group", group.name},
                   {"namespaces", group.Namespaces()},
                   {"volume_group_snapshot", group.snapshot},
                   {"cluster", group.cluster},
                   {"cut_at", OrNull(group.snapshot_taken_at)},
                   {"state", StateName(group.state)},
                   {"members_present", std::ssize(group.members)},
                   {"members_expected", says_number ? Json(group.members_expected) : Json()},
                   {"snapshots", std::move(snapshots)}});
}

}  // namespace csidelta::cli
