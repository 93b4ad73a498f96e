#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/keep_rules.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/keep_flags.h"
#include "cli/progress.h"
#include "cli/prune_verb.h"
#include "cli/resume.h"
#include "cli/snapshot_filter.h"
#include "cli/text.h"
#include "repository/forget.h"

namespace csidelta::cli {
namespace {

using repository::ForgetGroup;
using repository::Id;
using repository::KeptSnapshot;
using repository::Repository;
using repository::StoredSnapshot;

std::string GroupText(const ForgetGroup& group, bool dry_run) {
  std::vector<std::vector<std::string>> rows;
  const auto time_of = [](const StoredSnapshot& stored) {
    return absl::FormatTime("%Y-%m-%d %H:%M:%S", stored.snapshot.time, absl::LocalTimeZone());
  };
  for (const KeptSnapshot& kept : group.keep) {
    rows.push_back({"  keep", kept.snapshot.id.ShortHex(), time_of(kept.snapshot),
                    absl::StrJoin(kept.reasons, ", ")});
  }
  for (const StoredSnapshot& stored : group.remove) {
    rows.push_back({dry_run ? "  would remove" : "  remove", stored.id.ShortHex(),
                    stored.snapshot.tree.IsNull() ? "does not read" : time_of(stored), ""});
  }
  std::vector<std::string> names;  // Snapshots that were named by their ids have none in common.
  for (std::string name :
       {group.hostname, absl::StrJoin(group.paths, ", "), absl::StrJoin(group.tags, ",")}) {
    if (!name.empty()) {
      names.push_back(std::move(name));
    }
  }
  return absl::StrCat(names.empty() ? "snapshots" : "snapshots of ", absl::StrJoin(names, " "),
                      "\n", FormatTable(rows));
}

// One snapshot as it was printed, as a value.
Json SnapshotJson(const StoredSnapshot& stored) {
  return ParseJson(SnapshotJsonText(stored)).value_or(Json());
}

Json GroupJson(const ForgetGroup& group) {
  Json keep = Json::array();
  Json reasons = Json::array();
  for (const KeptSnapshot& kept : group.keep) {
    keep.push_back(SnapshotJson(kept.snapshot));
    reasons.push_back({{"snapshot", SnapshotJson(kept.snapshot)}, {"matches", kept.reasons}});
  }
  Json remove = Json::array();
  for (const StoredSnapshot& stored : group.remove) {
    remove.push_back(SnapshotJson(stored));
  }
  return {{"host", group.hostname},      {"paths", group.paths},
          {"tags", group.tags},          {"keep", std::move(keep)},
          {"remove", std::move(remove)}, {"reasons", std::move(reasons)}};
}

class ForgetCommand : public Command {
 public:
  VerbSyntax Declare() override;
  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override;

 private:
  absl::StatusOr<std::vector<ForgetGroup>> Decide(const CallContext& ctx, Console& console,
                                                  const Repository& repository) const;
  absl::StatusOr<ForgetGroup> Named(const CallContext& ctx, Console& console,
                                    const Repository& repository) const;
  void Tell(Session& session, const std::vector<ForgetGroup>& groups, std::size_t removed) const;
  bool CountsAsRemoved() const;
  absl::StatusOr<bool> SparesUnfinished(const CallContext& ctx, const Repository& repository) const;

  std::vector<std::string> ids_;
  KeepRules rules_;
  std::vector<std::string> keep_tags_;
  std::string group_by_ = "host,paths";
  SnapshotFilter filter_;
  bool ignore_missing_ = false;
  bool dry_run_ = false;
  bool prune_ = false;
  bool spare_unfinished_ = false;
  PruneFlags prune_flags_;
};

VerbSyntax ForgetCommand::Declare() {
  ArgumentTable table;
  table.AddWords("ID", "snapshots to remove, by the beginnings of their ids; else by rules", 0,
                 kSnapshotIdsMax, ids_);
  DeclareKeepFlags(table, rules_, /*with_letters=*/true);
  table.AddList("--keep-tag", "TAG[,TAG]",
                "keep those with all of these tags; given again: or with all of those", keep_tags_);
  table.Add("-g,--group-by", "LIST",
            "which snapshots compete: \"host,paths\" (the default), with tags too, or \"\"",
            group_by_);
  DeclareFilterFlags(table, filter_, "--host");
  table.Add("--ignore-missing",
            "an ID that is not there counts as removed, and \"latest\" as nothing",
            ignore_missing_);
  table.Add("-n,--dry-run", "only say what would be done", dry_run_);
  table.Add("--prune", "free the space too, if something was removed", prune_);
  table.Add("--spare-unfinished",
            "leave the space for later while a backup that did not come to its end may go on: what "
            "it stored would go, too",
            spare_unfinished_);
  DeclarePruneFlags(table, prune_flags_);
  return {.name = "forget",
          .summary = "Remove snapshots, by rules or by their ids",
          .details = "A snapshot stays when any rule keeps it. The space is freed by prune.",
          .table = std::move(table),
          .family = VerbFamily::kRepository};
}

// A file that does not read goes when it is named by all of its id: then there is no doubt which.
absl::StatusOr<ForgetGroup> ForgetCommand::Named(const CallContext& ctx, Console& console,
                                                 const Repository& repository) const {
  ForgetGroup group;
  for (const std::string& id : ids_) {
    absl::StatusOr<StoredSnapshot> stored =
        ChooseSnapshot(ctx, console, repository, id, filter_, LatestOf::kOneVolume);
    if (ignore_missing_ && absl::IsNotFound(stored.status())) {
      continue;
    }
    const absl::StatusOr<Id> whole = Id::Parse(id);
    if (absl::IsDataLoss(stored.status()) && whole.ok()) {
      console.Warn(absl::StrCat("the file snapshots/", id, " does not read: it goes unseen"));
      group.remove.push_back({.id = *whole, .snapshot = {}});
      continue;
    }
    if (absl::IsDataLoss(stored.status()) && id != "latest") {
      return absl::DataLossError(absl::StrCat(stored.status().message(),
                                              "; to remove a file that does not read, name it by "
                                              "its whole id, which csi-delta snapshots says"));
    }
    RETURN_IF_ERROR(stored.status());
    group.remove.push_back(*std::move(stored));
  }
  return group;
}

absl::StatusOr<std::vector<ForgetGroup>> ForgetCommand::Decide(const CallContext& ctx,
                                                               Console& console,
                                                               const Repository& repository) const {
  if (!ids_.empty()) {
    if (!rules_.IsEmpty() || !keep_tags_.empty()) {
      return absl::InvalidArgumentError(
          "snapshots are named both by id and by rules; leave one of them out");
    }
    ASSIGN_OR_RETURN(ForgetGroup group, Named(ctx, console, repository));
    return std::vector<ForgetGroup>{std::move(group)};
  }
  KeepRules rules = rules_;
  rules.zone = absl::LocalTimeZone();
  for (const std::string& list : keep_tags_) {
    rules.tags.push_back(SplitTags({list}));
  }
  ASSIGN_OR_RETURN(const repository::SnapshotGrouping grouping,
                   repository::ParseGrouping(group_by_));
  ASSIGN_OR_RETURN(std::vector<StoredSnapshot> snapshots, repository.ListSnapshots(ctx));
  std::erase_if(snapshots,
                [&](const StoredSnapshot& stored) { return !filter_.Matches(stored.snapshot); });
  for (const StoredSnapshot& stored : snapshots) {
    if (IsOfTheFuture(stored.snapshot.time, ctx.clock->Now())) {
      console.Warn(absl::StrCat(SayFuture(stored),
                                ": a clock was wrong when it was made, or this one is now; beside "
                                "others it stays, and no rule counts it, until it is forgotten by "
                                "its id"));
    }
  }
  return repository::DecideForget(snapshots, rules, grouping, ctx.clock->Now());
}

void ForgetCommand::Tell(Session& session, const std::vector<ForgetGroup>& groups,
                         std::size_t removed) const {
  if (groups.empty() && !filter_.IsEmpty()) {
    session.console().Warn("no snapshot matches --host, --path and --tag as they are given");
  }
  Json list = Json::array();
  std::string text;
  for (const ForgetGroup& group : groups) {
    list.push_back(GroupJson(group));
    absl::StrAppend(&text, GroupText(group, dry_run_));
  }
  absl::StrAppend(&text, dry_run_ ? "would remove " : "removed ", Counted(removed, "snapshot"),
                  "\n");
  session.console().PrintResult({{"message_type", "result"},
                                 {"dry_run", dry_run_},
                                 {"removed", removed},
                                 {"groups", std::move(list)}},
                                text);
}

// Who names an id knows that it was there: an attempt before this one may have come no further.
bool ForgetCommand::CountsAsRemoved() const {
  return ignore_missing_ && std::any_of(ids_.begin(), ids_.end(),
                                        [](const std::string& id) { return id != "latest"; });
}

// Who has no snapshot left has nothing to go on with, either.
absl::StatusOr<bool> ForgetCommand::SparesUnfinished(const CallContext& ctx,
                                                     const Repository& repository) const {
  if (!spare_unfinished_ || !IsUnfinished(ctx, repository)) {
    return false;
  }
  ASSIGN_OR_RETURN(const std::vector<repository::FileInfo> snapshots,
                   repository.ListFiles(ctx, repository::FileKind::kSnapshot));
  return !snapshots.empty();
}

absl::StatusOr<ExitCode> ForgetCommand::Run(const CallContext& ctx, Session& session) {
  RETURN_IF_ERROR(ReadPruneFlags(prune_flags_, session).status());
  ASSIGN_OR_RETURN(Repository * repository, session.Open(ctx, LockKind::kExclusive));
  ASSIGN_OR_RETURN(const std::vector<ForgetGroup> groups,
                   Decide(ctx, session.console(), *repository));
  std::vector<Id> ids;
  for (const ForgetGroup& group : groups) {
    for (const StoredSnapshot& stored : group.remove) {
      ids.push_back(stored.id);
    }
  }
  if (!dry_run_) {
    ProgressMeter meter(session.console(), *ctx.clock);
    RETURN_IF_ERROR(
        repository::RemoveSnapshots(ctx, *repository, *session.lock(), ids,
                                    [&meter](absl::string_view stage, int64_t done, int64_t total) {
                                      meter.ReportCount(stage, done, total);
                                    }));
  }
  Tell(session, groups, ids.size());
  if (prune_ && !dry_run_ && (!ids.empty() || CountsAsRemoved())) {
    ASSIGN_OR_RETURN(const bool spare, SparesUnfinished(ctx, *repository));
    if (spare) {
      session.console().Note("a backup did not come to its end and may go on: no space is freed");
      return ExitCode::kOk;
    }
    ASSIGN_OR_RETURN(repository::PruneOptions options, ReadPruneFlags(prune_flags_, session));
    RETURN_IF_ERROR(PlanAndPrune(ctx, session, *repository, std::move(options), false));
  }
  return ExitCode::kOk;
}

}  // namespace

std::unique_ptr<Command> MakeForgetCommand() { return std::make_unique<ForgetCommand>(); }

}  // namespace csidelta::cli
