#include "engine/forget.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "engine/resume.h"

namespace csidelta::engine {
namespace {

using repository::ForgetGroup;
using repository::Id;
using repository::Repository;
using repository::StoredSnapshot;

// Those of the job, and those that make siblings of the snapshots that are named by id.
std::set<std::string> TagsOf(const ForgetJob& job, const ForgetGroup& named) {
  std::set<std::string> tags(job.tags.begin(), job.tags.end());
  for (const StoredSnapshot& stored : named.remove) {
    for (const std::string& tag : stored.snapshot.tags) {
      if (!job.sibling_tag_prefix.empty() && absl::StartsWith(tag, job.sibling_tag_prefix)) {
        tags.insert(tag);
      }
    }
  }
  return tags;
}

// Adds the snapshots that are named by a tag, of those that read.
absl::Status AddTagged(const CallContext& ctx, UnreadableSnapshots& unreadable,
                       const Repository& repository, const ForgetJob& job, ForgetGroup& group) {
  const std::set<std::string> tags = TagsOf(job, group);
  if (tags.empty()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(std::vector<StoredSnapshot> all,
                   repository.ListSnapshots(ctx, unreadable.DamagedSink()));
  std::set<Id> known;
  for (const StoredSnapshot& stored : group.remove) {
    known.insert(stored.id);
  }
  for (StoredSnapshot& stored : all) {
    if (absl::c_any_of(stored.snapshot.tags,
                       [&tags](const std::string& tag) { return tags.contains(tag); }) &&
        known.insert(stored.id).second) {
      group.remove.push_back(std::move(stored));
    }
  }
  return absl::OkStatus();
}

// A file that does not read goes when it is named by all of its id: then there is no doubt which.
absl::StatusOr<ForgetGroup> Named(const CallContext& ctx, const Listener& listener,
                                  UnreadableSnapshots& unreadable, const Repository& repository,
                                  const ForgetJob& job) {
  ForgetGroup group;
  for (const std::string& id : job.ids) {
    absl::StatusOr<StoredSnapshot> stored = ChooseSnapshot(
        ctx, listener, repository, id, job.filter, LatestOf::kOneVolume, &unreadable);
    if (id == "latest" && unreadable.any()) {
      return absl::DataLossError(
          "a file of snapshots/ cannot be read, so the latest snapshot is not known; name the one "
          "to forget by its id");
    }
    if (job.ignore_missing && absl::IsNotFound(stored.status())) {
      continue;
    }
    const absl::StatusOr<Id> whole = Id::Parse(id);
    if (absl::IsDataLoss(stored.status()) && whole.ok()) {
      listener.warn(absl::StrCat("the file snapshots/", id, " cannot be read; it is removed"));
      group.remove.push_back({.id = *whole, .snapshot = {}});
      continue;
    }
    if (absl::IsDataLoss(stored.status())) {
      return absl::DataLossError(absl::StrCat(stored.status().message(),
                                              "; to remove a file that cannot be read, give its "
                                              "whole id, which csi-delta snapshots prints"));
    }
    RETURN_IF_ERROR(stored.status());
    group.remove.push_back(*std::move(stored));
  }
  RETURN_IF_ERROR(AddTagged(ctx, unreadable, repository, job, group));
  return group;
}

absl::StatusOr<std::vector<ForgetGroup>> Decide(const CallContext& ctx, const Listener& listener,
                                                const Repository& repository,
                                                const ForgetJob& job) {
  UnreadableSnapshots unreadable(listener);
  if (!job.ids.empty() || !job.tags.empty()) {
    if (!job.rules.IsEmpty()) {
      return absl::InvalidArgumentError(
          "snapshots are named both by id and by rules; leave one of them out");
    }
    ASSIGN_OR_RETURN(ForgetGroup group, Named(ctx, listener, unreadable, repository, job));
    return std::vector<ForgetGroup>{std::move(group)};
  }
  ASSIGN_OR_RETURN(std::vector<StoredSnapshot> snapshots,
                   repository.ListSnapshots(ctx, unreadable.DamagedSink()));
  std::erase_if(snapshots,
                [&](const StoredSnapshot& stored) { return !job.filter.Matches(stored.snapshot); });
  for (const StoredSnapshot& stored : snapshots) {
    if (IsOfTheFuture(stored.snapshot.time, ctx.clock->Now())) {
      listener.warn(absl::StrCat(FutureText(stored),
                                 ": a clock was wrong when it was made, or this one is now; it "
                                 "stays in addition to others, and no rule counts it, until it is "
                                 "forgotten by its id"));
    }
  }
  return repository::DecideForget(snapshots, job.rules, job.grouping, ctx.clock->Now());
}

// Who names an id knows that it was there: an attempt before this one may have come no further.
bool CountsAsRemoved(const ForgetJob& job) {
  return job.ignore_missing && std::any_of(job.ids.begin(), job.ids.end(),
                                           [](const std::string& id) { return id != "latest"; });
}

// Keys of the objects of their own that the first of these snapshots have.
std::vector<std::string> FirstKeys(const std::vector<Id>& ids) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < ids.size() && std::ssize(keys) < kLockedAskedMax; ++i) {
    keys.push_back(repository::FileKey(repository::FileKind::kSnapshot, ids[i]));
    keys.push_back(repository::SidecarKey(ids[i]));
  }
  return keys;
}

// Who has no snapshot left has nothing to go on with, either.
absl::StatusOr<bool> SparesUnfinished(const CallContext& ctx, const Repository& repository,
                                      const ForgetJob& job) {
  if (!job.spares_unfinished || !IsUnfinished(ctx, repository)) {
    return false;
  }
  ASSIGN_OR_RETURN(const std::vector<repository::FileInfo> snapshots,
                   repository.ListFiles(ctx, repository::FileKind::kSnapshot));
  return !snapshots.empty();
}

}  // namespace

absl::StatusOr<ForgetOutcome> RunForget(const CallContext& ctx, Session& session,
                                        const ForgetJob& job, const Progress& progress) {
  ASSIGN_OR_RETURN(Repository * repository, session.Open(ctx, LockKind::kExclusive));
  ForgetOutcome outcome;
  ASSIGN_OR_RETURN(outcome.groups, Decide(ctx, session.listener(), *repository, job));
  std::vector<Id> ids;
  for (const ForgetGroup& group : outcome.groups) {
    for (const StoredSnapshot& stored : group.remove) {
      ids.push_back(stored.id);
    }
  }
  outcome.removed = ids.size();
  if (!job.is_dry_run) {
    outcome.locked = CountLocked(ctx, repository->store(), FirstKeys(ids));
    RETURN_IF_ERROR(repository::RemoveSnapshots(ctx, *repository, *session.lock(), ids, progress));
    outcome.refused = session.lock()->refused();
    outcome.removed -= static_cast<std::size_t>(outcome.refused.count);
  }
  return outcome;
}

absl::StatusOr<std::optional<PruneOutcome>> FreeSpace(const CallContext& ctx, Session& session,
                                                      const ForgetJob& job,
                                                      const ForgetOutcome& outcome,
                                                      const Progress& progress) {
  if (!job.frees_space || job.is_dry_run || (outcome.removed == 0 && !CountsAsRemoved(job))) {
    return std::nullopt;
  }
  Repository& repository = *session.repository();
  ASSIGN_OR_RETURN(const bool spare, SparesUnfinished(ctx, repository, job));
  if (spare) {
    session.listener().note("a backup did not finish and may go on: no space is freed");
    return std::nullopt;
  }
  return PruneOpened(ctx, session, repository, job.prune, progress);
}

}  // namespace csidelta::engine
