#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/keep_flags.h"
#include "cli/progress.h"
#include "cli/repository/prune.h"
#include "cli/repository/snapshot_filter.h"
#include "cli/text.h"
#include "engine/forget.h"

namespace csidelta::cli {
namespace {

using repository::ForgetGroup;
using repository::KeptSnapshot;
using repository::StoredSnapshot;

std::string GroupText(const ForgetGroup& group, bool dry_run) {
  std::vector<std::vector<std::string>> rows;
  for (const KeptSnapshot& kept : group.keep) {
    rows.push_back({"  keep", kept.snapshot.id.ShortHex(),
                    FormatMoment(kept.snapshot.snapshot.time), absl::StrJoin(kept.reasons, ", ")});
  }
  for (const StoredSnapshot& stored : group.remove) {
    const bool is_readable = !stored.snapshot.tree.IsNull();
    rows.push_back({dry_run ? "  would remove" : "  remove", stored.id.ShortHex(),
                    is_readable ? FormatMoment(stored.snapshot.time) : "cannot be read",
                    is_readable && group.paths.empty() ? VolumeName(stored.snapshot) : ""});
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

class ForgetCommand : public RepositoryCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override;
  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override;

 private:
  absl::StatusOr<engine::ForgetJob> Job() const;
  void Report(Session& session, const engine::ForgetOutcome& outcome) const;

  engine::ForgetJob job_;  // what the flags fill in as it stands
  std::vector<std::string> keep_tags_;
  std::string group_by_ = "host,paths";
  PruneFlags prune_flags_;
};

VerbSyntax ForgetCommand::Describe(ArgumentTable& table) {
  table.AddPositionals("ID", "snapshots to remove, by the beginnings of their ids; none: by rules",
                       0, kSnapshotIdsMax, job_.ids);
  DeclareKeepFlags(table, job_.rules, /*with_letters=*/true);
  table.AddList("--keep-tag", "TAG[,TAG]",
                "keep those with all of these tags; given again: or with all of those", keep_tags_);
  table.Add("-g,--group-by", "LIST",
            "apply the rules to each group of snapshots with the same host, paths or tags; \"\": "
            "to all together",
            group_by_);
  DeclareFilterFlags(table, job_.filter, "--host");
  table.Add("--ignore-missing",
            "an ID that does not exist, or \"latest\" of nothing, counts as removed",
            job_.ignore_missing);
  table.Add("-n,--dry-run", "only print what would be done", job_.is_dry_run);
  table.Add("--prune", "free the space too, if something was removed", job_.frees_space);
  table.Add("--spare-unfinished",
            "keep unused data while an interrupted backup may be resumed, since its data would be "
            "removed, too",
            job_.spares_unfinished);
  DeclarePruneFlags(table, prune_flags_);
  return {
      .name = "forget",
      .summary = "Remove snapshots, by rules or by their ids",
      .details = "A snapshot stays when any rule keeps it. The space is freed by prune.",
      .examples = {"forget --keep-daily 7 --keep-weekly 5 --dry-run", "forget 8ab6fc6f --prune"}};
}

void ForgetCommand::Report(Session& session, const engine::ForgetOutcome& outcome) const {
  const auto& [groups, removed, locked, refused] = outcome;
  if (groups.empty() && !job_.filter.IsEmpty()) {
    WarnOfNoMatch(session.console());
  }
  Json list = Json::array();
  std::string text;
  for (const ForgetGroup& group : groups) {
    list.push_back(GroupJson(group));
    absl::StrAppend(&text, GroupText(group, job_.is_dry_run));
  }
  const bool leaves_space = removed > 0 && !job_.is_dry_run && !job_.frees_space;
  absl::StrAppend(&text, job_.is_dry_run ? "would remove " : "removed ",
                  Counted(removed, "snapshot"),
                  leaves_space ? "; csi-delta prune frees their space\n" : "\n");
  if (const std::string waits = engine::TextOf(locked, "files of snapshots"); !waits.empty()) {
    absl::StrAppend(&text, waits, "\n");
  }
  session.console().PrintResult({{"message_type", "result"},
                                 {"dry_run", job_.is_dry_run},
                                 {"removed", removed},
                                 {"not_deleted", refused.count},
                                 {"files_locked", locked.locked},
                                 {"locked_until", LockedUntil(locked)},
                                 {"groups", std::move(list)}},
                                text);
}

absl::StatusOr<engine::ForgetJob> ForgetCommand::Job() const {
  engine::ForgetJob job = job_;
  ASSIGN_OR_RETURN(job.prune, ReadPruneFlags(prune_flags_));
  job.rules.zone = absl::LocalTimeZone();
  for (const std::string& list : keep_tags_) {
    job.rules.tags.push_back(SplitTags({list}));
  }
  if (job.ids.empty()) {
    ASSIGN_OR_RETURN(job.grouping, repository::ParseGrouping(group_by_));
  }
  return job;
}

absl::StatusOr<ExitCode> ForgetCommand::Run(const CallContext& ctx, Session& session) {
  ASSIGN_OR_RETURN(const engine::ForgetJob job, Job());
  if (session.options().in_cluster.are_given() && job.ids.empty()) {
    return absl::InvalidArgumentError(
        "Velero's Backups need these snapshots; delete a Backup by velero backup delete, or name a "
        "snapshot that no Backup needs by its id");
  }
  engine::ForgetOutcome outcome;
  {
    ProgressMeter meter(session.console(), *ctx.clock, session.Opening());
    ASSIGN_OR_RETURN(outcome, engine::RunForget(ctx, session.engine(), job, CountsOf(meter)));
  }
  Report(session, outcome);
  ProgressMeter meter(session.console(), *ctx.clock);
  ASSIGN_OR_RETURN(const std::optional<engine::PruneOutcome> pruned,
                   engine::FreeSpace(ctx, session.engine(), job, outcome, CountsOf(meter)));
  if (pruned.has_value()) {
    PrintPruned(session.console(), *pruned, /*dry_run=*/false);
  }
  return WarnOfRefused(session.console(),
                       pruned.has_value() ? pruned->done.refused : outcome.refused);
}

}  // namespace

void AddForgetCommand(Commands& all) { AddEach<ForgetCommand>(all); }

}  // namespace csidelta::cli
