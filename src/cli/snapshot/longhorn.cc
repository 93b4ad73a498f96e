#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/keep_rules.h"
#include "base/status_macros.h"
#include "cli/cluster_verb.h"
#include "cli/command.h"
#include "cli/keep_flags.h"
#include "cli/snapshot/snapshot_text.h"
#include "cli/text.h"
#include "longhorn/snapshot_inventory.h"
#include "longhorn/snapshot_prune.h"
#include "longhorn/types.h"

// `csi-delta longhorn list` and `longhorn prune`.
namespace csidelta::cli {
namespace {

// Deletions that take longer are announced with how long.
constexpr absl::Duration kSilentDeletionsMax = absl::Seconds(10);

// Which Snapshots a verb is for.
struct LonghornFlags {
  std::string volume;
  std::string pvc;
  std::string job;
  bool of_gone_jobs = false;
  CalendarSpan older_than;

  void Declare(ArgumentTable& table);
  // INVALID_ARGUMENT for a PVC without its namespace.
  absl::StatusOr<longhorn::Selection> Select(absl::Time now) const;
};

void LonghornFlags::Declare(ArgumentTable& table) {
  table.Add("--volume", "VOLUME", "only those of this Volume of Longhorn", volume);
  table.Add("--pvc", "NS/PVC", "only those of the volume of this PVC, also when that is gone", pvc);
  table.Add("--job", "JOB", "only those that this RecurringJob took", job);
  table.Add("--of-gone-jobs",
            "only those of a RecurringJob that is gone, or does not apply to their volume any more",
            of_gone_jobs);
  table.AddParsed("--older-than", "SPAN", "only those that were taken longer ago: \"1y6m30d12h\"",
                  [this](const std::string& value) -> absl::Status {
                    ASSIGN_OR_RETURN(older_than, ParseCalendarSpan(value));
                    return absl::OkStatus();
                  });
}

absl::StatusOr<longhorn::Selection> LonghornFlags::Select(absl::Time now) const {
  longhorn::Selection selection{.volume = volume, .job = job, .of_gone_jobs = of_gone_jobs};
  if (!pvc.empty()) {
    const std::vector<std::string> parts = absl::StrSplit(pvc, '/');
    if (parts.size() != 2 || parts[0].empty() || parts[1].empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", pvc, "\" does not name a PVC; write it as NAMESPACE/NAME"));
    }
    selection.pvc_namespace = parts[0];
    selection.pvc_name = parts[1];
  }
  if (!older_than.IsZero()) {
    selection.before = GoBack(now, older_than, absl::LocalTimeZone());
  }
  return selection;
}

// Longhorn's namespace: -n, else the default one. INVALID_ARGUMENT for -A, and for -l, by which
// `verb` chooses nothing.
absl::StatusOr<std::string> LonghornNamespace(const ClusterOptions& cluster,
                                              absl::string_view verb) {
  if (cluster.all_namespaces) {
    return absl::InvalidArgumentError(
        absl::StrCat(verb, " works in Longhorn's namespace: leave out -A; name it with -n"));
  }
  if (!cluster.selector.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(verb, " chooses nothing by labels: leave out -l; give --volume, --pvc, --job ",
                     "or another of --help"));
  }
  return cluster.namespace_name.empty() ? longhorn::kDefaultNamespace : cluster.namespace_name;
}

// PERMISSION_DENIED when the selection needs what could not be read.
absl::Status CheckSelection(const longhorn::Inventory& inventory,
                            const longhorn::Selection& selection) {
  if (selection.of_gone_jobs && !inventory.are_jobs_known) {
    return absl::PermissionDeniedError(
        absl::StrCat("it is not known which RecurringJobs are gone: ",
                     absl::StrJoin(inventory.not_checked, "; ")));
  }
  return absl::OkStatus();
}

std::string LonghornSnapshotName(absl::string_view name) {
  return absl::StrCat("snapshot.", longhorn::kGroup, "/", name);
}

// "nightly", "nightly (gone)", "nightly (not of the volume)".
std::string JobText(const longhorn::SnapshotEntry& entry) {
  return absl::StrCat(entry.job, entry.job_state == longhorn::JobState::kGone ? " (gone)"
                                 : entry.job_state == longhorn::JobState::kNotOfVolume
                                     ? " (not of the volume)"
                                     : "");
}

// One object for a Snapshot. Longhorn's fields keep Longhorn's names.
Json ToJson(const longhorn::Inventory& inventory, const longhorn::SnapshotEntry& entry) {
  const longhorn::VolumeEntry& volume = inventory.volumes[entry.volume];
  return {{"name", entry.name},
          {"namespace", inventory.namespace_name},
          {"uid", entry.uid},
          {"volume", volume.name},
          {"pvc", longhorn::PvcText(volume)},
          {"job", entry.job},
          {"job_state", std::string(longhorn::ToString(entry.job_state))},
          {"state", std::string(longhorn::ToString(entry.state))},
          {"kept_for", ProtectionsJson(entry.kept_for)},
          {"parent", entry.parent},
          {"children", entry.children},
          {"markRemoved", entry.is_marked_removed},
          {"userCreated", entry.is_user_created},
          {"createSnapshot", entry.is_to_be_taken},
          {"ready", entry.is_ready},
          {"error", entry.error},
          {"size", entry.size_bytes},
          {"restoreSize", entry.restore_size_bytes},
          {"creationTime", OrNull(entry.taken_at)},
          {"requestedTime", OrNull(entry.requested_at)}};
}

std::vector<std::string> LonghornColumns(bool is_wide) {
  std::vector<std::string> columns = {"VOLUME", "PVC", "NAME",  "TAKEN",
                                      "SIZE",   "JOB", "STATE", "KEPT FOR"};
  if (is_wide) {
    columns.insert(columns.end(), {"PARENT", "CHILDREN", "REMOVED", "USER", "CREATE", "READY",
                                   "RESTORE SIZE", "REQUESTED", "ERROR"});
  }
  return columns;
}

std::vector<std::string> LonghornRow(const longhorn::Inventory& inventory,
                                     const longhorn::SnapshotEntry& entry, bool is_wide) {
  const longhorn::VolumeEntry& volume = inventory.volumes[entry.volume];
  const auto yes_or_no = [](bool value) { return std::string(value ? "yes" : "no"); };
  std::vector<std::string> row = {volume.name,
                                  longhorn::PvcText(volume),
                                  entry.name,
                                  SnapshotTimeText(entry.taken_at),
                                  FormatBytes(entry.size_bytes),
                                  JobText(entry),
                                  std::string(longhorn::ToString(entry.state)),
                                  CodesText(entry.kept_for)};
  if (is_wide) {
    row.insert(row.end(), {entry.parent, absl::StrJoin(entry.children, ","),
                           yes_or_no(entry.is_marked_removed), yes_or_no(entry.is_user_created),
                           yes_or_no(entry.is_to_be_taken), yes_or_no(entry.is_ready),
                           FormatBytes(entry.restore_size_bytes),
                           SnapshotTimeText(entry.requested_at), entry.error});
  }
  return row;
}

class LonghornListCommand : public ClusterCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override {
    flags_.Declare(table);
    return {.name = "longhorn list",
            .summary = "List Longhorn's Snapshots, the jobs that took them, and what keeps them",
            .details =
                "Works in Longhorn's namespace: longhorn-system, or that of -n. Uses your own "
                "rights: what they do not allow to read is named on stderr and left empty. The "
                "oldest of a volume comes first.",
            .examples = {"longhorn list --pvc shop/data", "longhorn list --of-gone-jobs -o wide"}};
  }

  absl::StatusOr<ExitCode> Work() override {
    ASSIGN_OR_RETURN(const std::string space, LonghornNamespace(cluster(), "longhorn list"));
    ASSIGN_OR_RETURN(const longhorn::Selection selection, flags_.Select(ctx().clock->Now()));
    ASSIGN_OR_RETURN(
        const longhorn::Inventory inventory,
        longhorn::ReadInventory(
            ctx(), api(),
            {.namespace_name = space, .volume = selection.volume, .now = ctx().clock->Now()}));
    RETURN_IF_ERROR(CheckSelection(inventory, selection));
    std::vector<const longhorn::SnapshotEntry*> chosen;
    for (const longhorn::SnapshotEntry& entry : inventory.snapshots) {
      if (longhorn::IsSelected(inventory, entry, selection)) {
        chosen.push_back(&entry);
      }
    }
    console().InfoAll(inventory.not_checked);
    Print(inventory, chosen);
    return ExitCode::kOk;
  }

 private:
  void Print(const longhorn::Inventory& inventory,
             const std::vector<const longhorn::SnapshotEntry*>& chosen) const {
    const bool is_wide = OutputForm(session()) == "wide";
    if (chosen.empty() && AsksForTable(session())) {
      console().Info(
          absl::StrCat("no Snapshots of Longhorn found in namespace ", inventory.namespace_name));
    }
    PrintClusterList(
        session(),
        {.count = chosen.size(),
         .columns = LonghornColumns(is_wide),
         .row = [&](std::size_t i) { return LonghornRow(inventory, *chosen[i], is_wide); },
         .value = [&](std::size_t i) { return ToJson(inventory, *chosen[i]); },
         .name = [&](std::size_t i) { return LonghornSnapshotName(chosen[i]->name); }});
  }

  LonghornFlags flags_;
};

// A selected Snapshot with its decision and the result.
struct LonghornItem {
  PruneDecision decision;
  bool is_deleted = false;   // the API server took the deletion, or it was gone
  std::string failure = {};  // why it was not deleted, though that was requested

  bool goes() const { return decision.verdict == PruneVerdict::kRemoved; }
};

std::string LonghornWhyText(const PruneDecision& decision) {
  return absl::StrJoin(decision.messages, decision.protections.empty() ? ", " : "; ");
}

// The totals of a run.
struct LonghornCounts {
  int64_t goes = 0;
  int64_t goes_bytes = 0;  // in their files
  int64_t kept = 0;
  int64_t held = 0;
  int64_t deleted = 0;
  int64_t failed = 0;
  int64_t volumes = 0;  // that some go of
};

LonghornCounts CountOf(const longhorn::Inventory& inventory,
                       const std::vector<LonghornItem>& items) {
  LonghornCounts counts;
  std::optional<std::size_t> volume;
  for (const LonghornItem& item : items) {
    const longhorn::SnapshotEntry& entry = inventory.snapshots[item.decision.entry];
    if (item.goes() && volume != entry.volume) {
      ++counts.volumes;
      volume = entry.volume;
    }
    counts.goes += item.goes() ? 1 : 0;
    counts.goes_bytes += item.goes() ? entry.size_bytes : 0;
    counts.kept += item.decision.verdict == PruneVerdict::kKept ? 1 : 0;
    counts.held += item.decision.verdict == PruneVerdict::kHeld ? 1 : 0;
    counts.deleted += item.is_deleted ? 1 : 0;
    counts.failed += item.failure.empty() ? 0 : 1;
  }
  return counts;
}

class LonghornPruneCommand : public ClusterCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override;
  absl::StatusOr<ExitCode> Work() override;

 private:
  std::vector<LonghornItem> Decide(const longhorn::Inventory& inventory,
                                   const longhorn::Selection& selection, absl::Time now) const;
  absl::Status CarryOut(const longhorn::Inventory& inventory,
                        std::vector<LonghornItem>& items) const;
  void Report(const longhorn::Inventory& inventory, const std::vector<LonghornItem>& items) const;
  ClusterList ListOf(const longhorn::Inventory& inventory,
                     const std::vector<LonghornItem>& items) const;

  LonghornFlags flags_;
  KeepRules rules_;
  bool also_detached_ = false;
  bool yes_ = false;
};

VerbSyntax LonghornPruneCommand::Describe(ArgumentTable& table) {
  flags_.Declare(table);
  DeclareKeepFlags(table, rules_, /*with_letters=*/false);
  table.Add("--also-detached",
            "also those of volumes that are not attached; Longhorn deletes them when they are",
            also_detached_);
  table.Add("--yes", "do it (default: only print what would be deleted)", yes_);
  return {
      .name = "longhorn prune",
      .summary =
          "Delete Snapshots of Longhorn: of jobs that are gone, old ones, those that no "
          "keep rule keeps",
      .details =
          "Works in Longhorn's namespace: longhorn-system, or what -n says. The rules are those "
          "of forget, for each volume by itself, and count what is selected and Ready. Kept is "
          "what is needed: by a VolumeSnapshot, a PVC that is being filled, a clone, a Backup "
          "of Longhorn that is being made or that the next one is compared with, a backup that "
          "made it; the newest of a volume; one whose name Longhorn cannot delete; one younger "
          "than 5 minutes. Longhorn's own, of a rebuild or an expansion, go with the next "
          "purge that a deletion brings. Nothing is deleted unless Volumes, RecurringJobs and "
          "Backups of Longhorn, VolumeSnapshotContents, PVCs and Velero's Backups can be "
          "listed. Deletes 5 a second and waits for none; a second run goes on where one was "
          "ended. Ends with exit code 3 when one could not be deleted.",
      .examples = {"longhorn prune --pvc shop/data --keep-last 3  # prints what would go",
                   "longhorn prune --older-than 30d --yes"}};
}

std::vector<LonghornItem> LonghornPruneCommand::Decide(const longhorn::Inventory& inventory,
                                                       const longhorn::Selection& selection,
                                                       absl::Time now) const {
  longhorn::PruneRequest request{
      .selection = selection, .rules = rules_, .also_detached = also_detached_, .now = now};
  request.rules.zone = absl::LocalTimeZone();
  std::vector<LonghornItem> items;
  for (PruneDecision& decision : longhorn::DecidePrune(inventory, request)) {
    items.push_back({.decision = std::move(decision)});
  }
  return items;
}

absl::Status LonghornPruneCommand::CarryOut(const longhorn::Inventory& inventory,
                                            std::vector<LonghornItem>& items) const {
  std::vector<const longhorn::SnapshotEntry*> going;
  std::vector<LonghornItem*> going_items;
  for (LonghornItem& item : items) {
    if (item.goes()) {
      going.push_back(&inventory.snapshots[item.decision.entry]);
      going_items.push_back(&item);
    }
  }
  const absl::Duration time =
      absl::Seconds(static_cast<double>(going.size()) / longhorn::kDeletionsPerSecond);
  if (time > kSilentDeletionsMax) {
    console().Info(absl::StrCat("at ", longhorn::kDeletionsPerSecond, " a second this takes ",
                                FormatElapsed(time), "; run the command again if it is ended"));
  }
  return longhorn::DeleteSnapshots(
      ctx(), api(), inventory.namespace_name, going, [&](std::size_t i, const absl::Status& end) {
        going_items[i]->is_deleted = end.ok();
        if (!end.ok()) {
          going_items[i]->failure = NotDeletedText(end);
          console().Warn(Printable(absl::StrCat(going[i]->name, " ", going_items[i]->failure)));
        }
      });
}

ClusterList LonghornPruneCommand::ListOf(const longhorn::Inventory& inventory,
                                         const std::vector<LonghornItem>& items) const {
  const auto entry_at = [&](std::size_t i) -> const longhorn::SnapshotEntry& {
    return inventory.snapshots[items[i].decision.entry];
  };
  return {.count = items.size(),
          .columns = {"", "VOLUME", "PVC", "NAME", "TAKEN", "SIZE", "JOB", "WHY"},
          .row =
              [&, entry_at](std::size_t i) {
                const longhorn::SnapshotEntry& entry = entry_at(i);
                const longhorn::VolumeEntry& volume = inventory.volumes[entry.volume];
                return std::vector<std::string>{DecisionText(items[i].decision, !yes_),
                                                volume.name,
                                                longhorn::PvcText(volume),
                                                entry.name,
                                                SnapshotTimeText(longhorn::DateOf(entry)),
                                                FormatBytes(entry.size_bytes),
                                                JobText(entry),
                                                LonghornWhyText(items[i].decision)};
              },
          .value =
              [&, entry_at](std::size_t i) {
                Json json = ToJson(inventory, entry_at(i));
                json["decision"] = DecisionText(items[i].decision, /*dry_run=*/false);
                json["reason"] = std::string(items[i].decision.code);
                json["message"] = LonghornWhyText(items[i].decision);
                json["deleted"] = items[i].is_deleted;
                json["failure"] = items[i].failure;
                return json;
              },
          .name =
              [&, entry_at](std::size_t i) {
                const bool is_named = yes_ ? items[i].is_deleted : items[i].goes();
                return is_named ? std::optional(LonghornSnapshotName(entry_at(i).name))
                                : std::nullopt;
              },
          .member = "snapshots"};
}

void LonghornPruneCommand::Report(const longhorn::Inventory& inventory,
                                  const std::vector<LonghornItem>& items) const {
  const LonghornCounts counts = CountOf(inventory, items);
  if (!AsksForTable(session())) {
    ClusterList list = ListOf(inventory, items);
    list.head = {{"dry_run", !yes_},          {"volumes", counts.volumes},
                 {"to_delete", counts.goes},  {"to_delete_bytes", counts.goes_bytes},
                 {"deleted", counts.deleted}, {"kept", counts.kept},
                 {"held", counts.held},       {"failed", counts.failed}};
    PrintClusterList(session(), list);
    return;
  }
  const std::string rest = absl::StrCat(", kept ", counts.kept, ", held back ", counts.held);
  const std::string of = absl::StrCat(" of ", Counted(counts.volumes, "volume"), " (",
                                      FormatBytes(counts.goes_bytes), " in their files)");
  console().Print(
      yes_ ? absl::StrCat("deleted ", Counted(counts.deleted, "Snapshot"), rest,
                          counts.deleted == counts.goes
                              ? ""
                              : absl::StrCat(", not deleted ", counts.goes - counts.deleted),
                          "\n")
           : absl::StrCat("would delete ", Counted(counts.goes, "Snapshot"), of, rest,
                          counts.goes == 0 ? "" : "; --yes deletes them", "\n"));
}

absl::StatusOr<ExitCode> LonghornPruneCommand::Work() {
  ASSIGN_OR_RETURN(const std::string space, LonghornNamespace(cluster(), "longhorn prune"));
  const absl::Time now = ctx().clock->Now();
  ASSIGN_OR_RETURN(const longhorn::Selection selection, flags_.Select(now));
  if (rules_.IsEmpty() && !selection.of_gone_jobs && !selection.before.has_value()) {
    return absl::InvalidArgumentError(
        "no rule chooses Snapshots to delete; give --of-gone-jobs, --older-than 30d, --keep-last N "
        "or another keep rule of --help");
  }
  ASSIGN_OR_RETURN(const longhorn::Inventory inventory,
                   Annotate(longhorn::ReadInventory(ctx(), api(),
                                                    {.namespace_name = space,
                                                     .volume = selection.volume,
                                                     .requires_all = true,
                                                     .now = now}),
                            "nothing was deleted"));
  std::vector<LonghornItem> items = Decide(inventory, selection, now);
  if (AsksForTable(session())) {
    PrintClusterList(session(), ListOf(inventory, items));
  }
  const absl::Status done = yes_ ? CarryOut(inventory, items) : absl::OkStatus();
  Report(inventory, items);  // Also when it was ended: what is requested is requested.
  RETURN_IF_ERROR(ctx().Check());
  const LonghornCounts counts = CountOf(inventory, items);
  if (yes_ && counts.deleted < counts.goes) {
    return console().Fail(
        ExitCode::kIncomplete,
        absl::StrCat(Counted(counts.goes - counts.deleted, "Snapshot"), " not deleted",
                     done.ok() ? "" : absl::StrCat(": ", done.message())));
  }
  return ExitCode::kOk;
}

}  // namespace

void AddLonghornCommands(Commands& all) { AddEach<LonghornListCommand, LonghornPruneCommand>(all); }

}  // namespace csidelta::cli
