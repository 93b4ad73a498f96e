#include "repository/forget.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "storage/object_store.h"

namespace csidelta::repository {
namespace {

void DecideGroup(absl::Span<const StoredSnapshot* const> newest_first, const KeepRules& rules,
                 absl::Time now, ForgetGroup& group) {
  std::vector<DatedItem> items;
  items.reserve(newest_first.size());
  for (const StoredSnapshot* stored : newest_first) {
    items.push_back({.time = stored->snapshot.time, .tags = stored->snapshot.tags});
  }
  std::vector<std::vector<std::string>> reasons = DecideKeep(items, rules, now);
  for (std::size_t i = 0; i < newest_first.size(); ++i) {
    if (reasons[i].empty()) {
      group.remove.push_back(*newest_first[i]);
    } else {
      group.keep.push_back({.snapshot = *newest_first[i], .reasons = std::move(reasons[i])});
    }
  }
}

using GroupKey = std::tuple<std::string, std::vector<std::string>, std::vector<std::string>>;

GroupKey KeyOf(const RepoSnapshot& snapshot, const SnapshotGrouping& grouping) {
  GroupKey key;
  if (grouping.by_host) {
    std::get<0>(key) = snapshot.hostname;
  }
  if (grouping.by_paths) {
    std::get<1>(key) = snapshot.paths;
    std::sort(std::get<1>(key).begin(), std::get<1>(key).end());
  }
  if (grouping.by_tags) {
    std::get<2>(key) = snapshot.tags;
    std::sort(std::get<2>(key).begin(), std::get<2>(key).end());
  }
  return key;
}

std::string DescribeGroup(const ForgetGroup& group) {
  return absl::StrCat("host \"", group.hostname, "\", paths ", absl::StrJoin(group.paths, ", "));
}

}  // namespace

absl::StatusOr<SnapshotGrouping> ParseGrouping(absl::string_view text) {
  SnapshotGrouping grouping = {.by_host = false, .by_paths = false, .by_tags = false};
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    if (part == "host") {
      grouping.by_host = true;
    } else if (part == "path" || part == "paths") {
      grouping.by_paths = true;
    } else if (part == "tag" || part == "tags") {
      grouping.by_tags = true;
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot group by \"", part, "\": use host, paths, tags"));
    }
  }
  return grouping;
}

absl::StatusOr<std::vector<ForgetGroup>> DecideForget(absl::Span<const StoredSnapshot> snapshots,
                                                      const KeepRules& rules,
                                                      const SnapshotGrouping& grouping,
                                                      absl::Time now) {
  if (rules.IsEmpty()) {
    return absl::FailedPreconditionError(
        "no rule says what to keep: give at least one, such as --keep-daily 7");
  }
  std::map<GroupKey, std::vector<const StoredSnapshot*>> members;
  for (const StoredSnapshot& snapshot : snapshots) {
    members[KeyOf(snapshot.snapshot, grouping)].push_back(&snapshot);
  }
  std::vector<ForgetGroup> groups;
  for (auto& [key, list] : members) {
    std::sort(list.begin(), list.end(), [](const auto* left, const auto* right) {
      return std::tie(left->snapshot.time, left->id) > std::tie(right->snapshot.time, right->id);
    });
    ForgetGroup group;
    std::tie(group.hostname, group.paths, group.tags) = key;
    DecideGroup(list, rules, now, group);
    if (group.keep.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("these rules would remove every snapshot of ", DescribeGroup(group),
                       ": add a rule that keeps one, or remove them by id"));
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

absl::Status RemoveSnapshots(const CallContext& ctx, Repository& repository, Lock& lock,
                             absl::Span<const Id> ids, const ProgressReporter& progress) {
  CSIDELTA_CHECK(lock.is_exclusive());
  int64_t done = 0;
  std::set<Id> refused;
  RETURN_IF_ERROR(lock.Fence(ctx));
  RETURN_IF_ERROR(repository.RemoveFiles(
      ctx, lock, FileKind::kSnapshot, ids,
      [&] { Report(progress, "snapshots", std::min(++done, std::ssize(ids)), std::ssize(ids)); },
      &refused));
  // Only caches: one that stays behind goes with the next prune.
  std::vector<std::string> sidecars;
  for (const Id& id : ids) {
    if (!refused.contains(id)) {
      sidecars.push_back(SidecarKey(id));
    }
  }
  return storage::DeleteObjects(ctx, repository.store(), sidecars,
                                [](std::size_t, const absl::Status&) { return absl::OkStatus(); });
}

}  // namespace csidelta::repository
