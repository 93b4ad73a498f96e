#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/keep_rules.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/repository/group_listing.h"
#include "cli/repository/snapshot_filter.h"
#include "cli/repository/snapshot_info.h"
#include "repository/verified_packs.h"

namespace csidelta::cli {
namespace {

using repository::StoredSnapshot;

class SnapshotsCommand : public RepositoryCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override;
  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override;

 private:
  static bool IsNamedBy(const StoredSnapshot& stored, const std::string& id) {
    return stored.id.Hex().compare(0, id.size(), id) == 0;
  }

  // Leaves those that are to be listed. Returns the ids that name none of them.
  std::vector<std::string> Choose(std::vector<StoredSnapshot>& snapshots, absl::Time now) const;
  void KeepNewest(std::vector<StoredSnapshot>& snapshots) const;

  std::vector<std::string> ids_;
  SnapshotFilter filter_;
  int64_t latest_ = 0;
  bool group_ = false;
  std::string output_ = "table";
};

VerbSyntax SnapshotsCommand::Describe(ArgumentTable& table) {
  table.AddPositionals("ID",
                       "the snapshots to list, by the beginnings of their ids; with --group, the "
                       "groups, by NAMESPACE/NAME, NAME or VolumeGroupSnapshot; none: all",
                       0, kSnapshotIdsMax, ids_);
  DeclareFilterFlags(table, filter_);
  table.AddNumber("--latest", "N",
                  "only the N newest of each host and paths; with --group, of each group", 0,
                  1'000'000, latest_);
  table.Add("--group",
            "list volume groups, complete and incomplete: --repo names a folder, up to three "
            "folders below which the volumes' repositories are",
            group_);
  table.AddChoice("--output", {"table", "id"},
                  "\"id\" prints whole ids alone, one a line: what a list names as its base",
                  output_);
  return {
      .name = "snapshots",
      .summary = "List the snapshots",
      .details =
          "One table per volume. Mode and reason say whether a backup was incremental, or why it "
          "was full. Changed is what its list of changed blocks named, Added what it stored in the "
          "repository, Took its duration; \"-\" is what the snapshot does not record. With 120 "
          "columns or more, also size, parent, tags, and Verified: how long ago a check has read "
          "the part of it that was read the longest ago; \"-\" if not all of it was read, or if "
          "packs were removed since the last check. csi-delta show prints the rest.\n\nWith "
          "--json: one array, oldest first, with restic's members and verified_at.\n\nWith "
          "--group, --repo is "
          ".../plugins/csi-delta of a location, or a folder in it. No lock is taken. A group is "
          "shown as a whole if the filters match one of its members. A repository that cannot be "
          "read is named, and the exit code is 3.\n\nAn ID that names nothing in the list is named "
          "on stderr, and the exit code is 3, or 1 when the list is empty; restic ends with 0.",
      .examples = {"snapshots --path /orders --latest 3", "snapshots --json"}};
}

absl::StatusOr<ExitCode> SnapshotsCommand::Run(const CallContext& ctx, Session& session) {
  if (group_) {
    return ListVolumeGroups(ctx, session, {.names = ids_, .filter = filter_, .latest = latest_});
  }
  ASSIGN_OR_RETURN(const repository::Repository* repository, session.Open(ctx, LockKind::kRead));
  UnreadableSnapshots unreadable(session.console());
  ASSIGN_OR_RETURN(std::vector<StoredSnapshot> snapshots,
                   repository->ListSnapshots(ctx, unreadable.DamagedSink()));
  const absl::Time now = ctx.clock->Now();
  const std::vector<std::string> unknown = Choose(snapshots, now);
  for (const StoredSnapshot& stored : snapshots) {
    if (IsOfTheFuture(stored.snapshot.time, now)) {
      session.console().Warn(absl::StrCat(
          FutureText(stored), ": a clock was wrong when it was made, or this one is now"));
    }
  }
  std::map<repository::Id, absl::Time> verified;
  if (output_ != "id") {  // Not known where it cannot be read.
    verified = repository::ReadVerifiedSnapshots(ctx, *repository, snapshots).value_or(verified);
  }
  if (session.options().json) {
    const auto add = [&verified](std::string* out, const StoredSnapshot& stored) {
      const auto at = verified.find(stored.id);
      out->append(SnapshotJsonText(
          stored, at == verified.end() ? std::nullopt : std::optional(at->second)));
    };
    session.console().Print(absl::StrCat("[", absl::StrJoin(snapshots, ",", add), "]\n"));
  } else if (output_ == "id") {
    session.console().Print(absl::StrJoin(snapshots, "", [](auto* out, const auto& stored) {
      absl::StrAppend(out, stored.id.Hex(), "\n");
    }));
  } else {
    session.console().Print(
        SnapshotTables(snapshots, session.environment().table_columns, verified, now));
  }
  if (snapshots.empty() && unknown.empty() && !filter_.IsEmpty()) {
    WarnOfNoMatch(session.console());
  }
  if (unknown.empty()) {
    return unreadable.code();
  }
  // restic 0.14 ends with 0. This verb fails as others do, or is incomplete if other ids matched.
  const std::string text =
      absl::StrCat("no snapshot matches ", absl::StrJoin(unknown, ", "),
                   filter_.IsEmpty() ? "" : absl::StrCat(" and ", kFilterFlags),
                   "; csi-delta snapshots without an id lists all");
  if (snapshots.empty()) {
    return absl::NotFoundError(text);
  }
  session.console().Warn(text);
  return ExitCode::kIncomplete;
}

std::vector<std::string> SnapshotsCommand::Choose(std::vector<StoredSnapshot>& snapshots,
                                                  absl::Time now) const {
  const bool only_latest = ids_.size() == 1 && ids_.front() == "latest";
  const auto matches = [&](const repository::RepoSnapshot& snapshot) {
    return filter_.Matches(snapshot);
  };
  const StoredSnapshot* newest =
      only_latest ? repository::NewestOf(snapshots, matches, now) : nullptr;
  const repository::Id latest = newest == nullptr ? repository::Id() : newest->id;
  std::erase_if(snapshots, [&](const StoredSnapshot& stored) {
    const bool is_named = ids_.empty() || absl::c_any_of(ids_, [&](const std::string& id) {
                            return IsNamedBy(stored, id);
                          });
    return only_latest ? stored.id != latest : !is_named || !filter_.Matches(stored.snapshot);
  });
  std::vector<std::string> unknown;
  for (const std::string& id : ids_) {
    const bool is_known =
        only_latest
            ? !snapshots.empty()
            : absl::c_any_of(snapshots, [&](const auto& stored) { return IsNamedBy(stored, id); });
    if (!is_known) {
      unknown.push_back(id);
    }
  }
  if (latest_ > 0) {
    KeepNewest(snapshots);
  }
  return unknown;
}

void SnapshotsCommand::KeepNewest(std::vector<StoredSnapshot>& snapshots) const {
  std::vector<StoredSnapshot> kept;
  for (auto stored = snapshots.rbegin(); stored != snapshots.rend(); ++stored) {
    const auto same = std::count_if(kept.begin(), kept.end(), [&](const StoredSnapshot& other) {
      return other.snapshot.hostname == stored->snapshot.hostname &&
             other.snapshot.paths == stored->snapshot.paths;
    });
    if (same < latest_) {
      kept.push_back(*stored);
    }
  }
  std::reverse(kept.begin(), kept.end());
  snapshots = std::move(kept);
}

}  // namespace

void AddSnapshotsCommand(Commands& all) { AddEach<SnapshotsCommand>(all); }

}  // namespace csidelta::cli
