#include "engine/snapshot_choice.h"

#include <algorithm>
#include <map>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/human_text.h"
#include "base/keep_rules.h"
#include "base/status_macros.h"

namespace csidelta::engine {
namespace {

using repository::Repository;
using repository::RepoSnapshot;
using repository::StoredSnapshot;

constexpr std::size_t kVolumesNamedMax = 8;
constexpr int64_t kUnreadableNamedMax = 8;

// FAILED_PRECONDITION when snapshots of several volumes match.
absl::Status RefuseSeveral(const std::vector<StoredSnapshot>& all, const SnapshotFilter& filter) {
  std::map<std::pair<std::string, std::vector<std::string>>, const StoredSnapshot*> volumes;
  for (const StoredSnapshot& stored : all) {  // Oldest first.
    if (filter.Matches(stored.snapshot)) {
      volumes[{stored.snapshot.hostname, stored.snapshot.paths}] = &stored;
    }
  }
  if (volumes.size() <= 1) {
    return absl::OkStatus();
  }
  std::vector<std::string> names;
  for (const auto& [volume, newest] : volumes) {
    if (names.size() == kVolumesNamedMax) {
      names.push_back("...");
      break;
    }
    names.push_back(absl::StrCat(newest->id.ShortHex(), " of ", VolumeName(newest->snapshot), " (",
                                 FormatMoment(newest->snapshot.time), ")"));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "\"latest\" could be of ", volumes.size(), " volumes: ", absl::StrJoin(names, ", "),
      "; say which, by its id or with --host and --path"));
}

bool ContainsAll(const std::vector<std::string>& values, const std::vector<std::string>& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const std::string& value) {
    return absl::c_linear_search(values, value);
  });
}

}  // namespace

bool SnapshotFilter::Matches(const RepoSnapshot& snapshot) const {
  const bool tagged =
      tags.empty() || std::any_of(tags.begin(), tags.end(), [&](const std::string& list) {
        return ContainsAll(snapshot.tags, SplitTags({list}));
      });
  return tagged && (hosts.empty() || absl::c_linear_search(hosts, snapshot.hostname)) &&
         ContainsAll(snapshot.paths, paths) &&
         (backup.empty() ||
          absl::EndsWith(absl::StrCat("/", repository::TagValue(snapshot, repository::kBackupTag)),
                         absl::StrCat("/", backup))) &&
         (!until.has_value() || snapshot.time <= *until);
}

std::vector<std::string> SplitTags(const std::vector<std::string>& lists) {
  std::vector<std::string> tags;
  for (const std::string& list : lists) {
    for (const absl::string_view tag : absl::StrSplit(list, ',', absl::SkipEmpty())) {
      if (!absl::c_linear_search(tags, tag)) {
        tags.emplace_back(tag);
      }
    }
  }
  return tags;
}

std::string FutureText(const StoredSnapshot& stored) {
  return absl::StrCat("snapshot ", stored.id.ShortHex(), " is dated in the future, ",
                      FormatMoment(stored.snapshot.time));
}

repository::DamagedSnapshotSink UnreadableSnapshots::DamagedSink() {
  return [this, is_first = listings_++ == 0](const repository::Id& id, const absl::Status& why) {
    count_ += is_first ? 1 : 0;
    if (is_first && count_ <= kUnreadableNamedMax) {
      listener_.warn(absl::StrCat("the file snapshots/", id.Hex(),
                                  " cannot be read: ", why.message(), "; csi-delta forget ",
                                  id.Hex(), " removes this file"));
    }
  };
}

UnreadableSnapshots::~UnreadableSnapshots() {
  if (count_ > kUnreadableNamedMax) {
    listener_.warn(
        absl::StrCat(count_ - kUnreadableNamedMax,
                     " other files of snapshots/ cannot be read; csi-delta check lists them"));
  }
}

absl::StatusOr<StoredSnapshot> ChooseSnapshot(const CallContext& ctx, const Listener& listener,
                                              const Repository& repository, const std::string& id,
                                              const SnapshotFilter& filter, LatestOf latest_of,
                                              UnreadableSnapshots* unreadable) {
  constexpr absl::string_view kWay = "; csi-delta snapshots lists what there is";
  const absl::Time now = ctx.clock->Now();
  if (id == "latest") {
    UnreadableSnapshots own(listener);
    ASSIGN_OR_RETURN(
        const std::vector<StoredSnapshot> all,
        repository.ListSnapshots(ctx, (unreadable == nullptr ? own : *unreadable).DamagedSink()));
    if (latest_of == LatestOf::kOneVolume) {
      RETURN_IF_ERROR(RefuseSeveral(all, filter));
    }
    const auto matches = [&](const RepoSnapshot& snapshot) { return filter.Matches(snapshot); };
    const StoredSnapshot* newest = repository::NewestOf(all, matches, now);
    if (newest == nullptr) {
      return absl::NotFoundError(
          absl::StrCat(all.empty() ? "the repository has no snapshots" : "no snapshot matches",
                       filter.backup.empty() ? "" : absl::StrCat(" Backup ", filter.backup), kWay));
    }
    for (const StoredSnapshot& stored : all) {
      if (matches(stored.snapshot) && IsOfTheFuture(stored.snapshot.time, now)) {
        listener.warn(absl::StrCat(
            FutureText(stored),
            stored.id == newest->id
                ? ": it is taken for the latest; name another by its id if it is not"
                : absl::StrCat(": ", newest->id.ShortHex(), " is taken for the latest instead")));
      }
    }
    return *newest;
  }
  absl::StatusOr<StoredSnapshot> found = repository.FindSnapshot(ctx, id);
  if (absl::IsNotFound(found.status()) || absl::IsInvalidArgument(found.status())) {
    return absl::Status(found.status().code(), absl::StrCat(found.status().message(), kWay));
  }
  return found;
}

std::string VolumeName(const RepoSnapshot& snapshot) {
  return absl::StrCat(snapshot.hostname, ":", absl::StrJoin(snapshot.paths, ", "));
}

}  // namespace csidelta::engine
