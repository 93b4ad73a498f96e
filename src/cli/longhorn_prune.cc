#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/keep_rules.h"
#include "base/status_macros.h"
#include "cli/cluster_verb.h"
#include "cli/command.h"
#include "cli/keep_flags.h"
#include "cli/longhorn_needs.h"
#include "cli/longhorn_text.h"
#include "cli/snapshot_text.h"
#include "cli/text.h"
#include "longhorn/snapshot_deletion.h"
#include "longhorn/snapshot_inventory.h"
#include "longhorn/snapshot_prune.h"

namespace csidelta::cli {
namespace {

// Deletions that take longer are announced with how long.
constexpr absl::Duration kSilentDeletionsMax = absl::Seconds(10);

// One that is selected, and how it ended.
struct LonghornItem {
  longhorn::PruneDecision decision;
  enum class End { kNotAsked, kDeleted, kFailed } end = End::kNotAsked;
  std::string error = {};  // of kFailed

  bool goes() const { return decision.verdict == longhorn::PruneVerdict::kRemoved; }
};

// What a run comes to.
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
    counts.kept += item.decision.verdict == longhorn::PruneVerdict::kKept ? 1 : 0;
    counts.held += item.decision.verdict == longhorn::PruneVerdict::kHeld ? 1 : 0;
    counts.deleted += item.end == LonghornItem::End::kDeleted ? 1 : 0;
    counts.failed += item.end == LonghornItem::End::kFailed ? 1 : 0;
  }
  return counts;
}

const char* DecisionText(const longhorn::PruneDecision& decision, bool dry_run) {
  switch (decision.verdict) {
    case longhorn::PruneVerdict::kKept:
      return "keep";
    case longhorn::PruneVerdict::kHeld:
      return "hold back";
    case longhorn::PruneVerdict::kRemoved:
      break;
  }
  return dry_run ? "would delete" : "delete";
}

class LonghornPruneCommand : public Command {
 public:
  VerbSyntax Declare() override;
  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override;

 private:
  std::vector<LonghornItem> Decide(const longhorn::Inventory& inventory,
                                   const longhorn::Selection& selection, absl::Time now) const;
  absl::Status CarryOut(const CallContext& ctx, k8s::ApiClient& api, Console& console,
                        const longhorn::Inventory& inventory,
                        std::vector<LonghornItem>& items) const;
  void Announce(Session& session, const longhorn::Inventory& inventory,
                const std::vector<LonghornItem>& items) const;
  void Tell(Session& session, const longhorn::Inventory& inventory,
            const std::vector<LonghornItem>& items) const;
  ClusterList ListOf(const longhorn::Inventory& inventory,
                     const std::vector<LonghornItem>& items) const;

  LonghornFlags flags_;
  KeepRules rules_;
  bool also_detached_ = false;
  bool yes_ = false;
};

VerbSyntax LonghornPruneCommand::Declare() {
  ArgumentTable table;
  flags_.Declare(table);
  DeclareKeepFlags(table, rules_, /*with_letters=*/false);
  table.Add("--also-detached",
            "also those of volumes that are not attached; Longhorn deletes them when they are",
            also_detached_);
  table.Add("--yes", "do it; else only print what would be deleted", yes_);
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
      .table = std::move(table),
      .family = VerbFamily::kCluster};
}

std::vector<LonghornItem> LonghornPruneCommand::Decide(const longhorn::Inventory& inventory,
                                                       const longhorn::Selection& selection,
                                                       absl::Time now) const {
  longhorn::PruneRequest request{
      .selection = selection, .rules = rules_, .also_detached = also_detached_, .now = now};
  request.rules.zone = absl::LocalTimeZone();
  std::vector<LonghornItem> items;
  for (longhorn::PruneDecision& decision : longhorn::DecidePrune(inventory, request)) {
    items.push_back({.decision = std::move(decision)});
  }
  return items;
}

absl::Status LonghornPruneCommand::CarryOut(const CallContext& ctx, k8s::ApiClient& api,
                                            Console& console, const longhorn::Inventory& inventory,
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
    console.Note(absl::StrCat("at ", longhorn::kDeletionsPerSecond, " a second this takes ",
                              FormatElapsed(time), "; run the command again if it is ended"));
  }
  return longhorn::DeleteSnapshots(
      ctx, api, inventory.namespace_name, going, [&](std::size_t i, const absl::Status& end) {
        going_items[i]->end = end.ok() ? LonghornItem::End::kDeleted : LonghornItem::End::kFailed;
        if (!end.ok()) {
          going_items[i]->error = NotDeletedText(end);
          console.Warn(Printable(absl::StrCat(going[i]->name, " ", going_items[i]->error)));
        }
      });
}

ClusterList LonghornPruneCommand::ListOf(const longhorn::Inventory& inventory,
                                         const std::vector<LonghornItem>& items) const {
  const auto entry_at = [&](std::size_t i) -> const longhorn::SnapshotEntry& {
    return inventory.snapshots[items[i].decision.entry];
  };
  return {
      .count = items.size(),
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
                                            items[i].decision.message};
          },
      .value =
          [&, entry_at](std::size_t i) {
            Json json = longhorn::ToJson(inventory, entry_at(i));
            json["decision"] = items[i].goes() ? "delete" : DecisionText(items[i].decision, !yes_);
            json["reason"] = std::string(longhorn::ToString(items[i].decision.reason));
            json["message"] = items[i].decision.message;
            json["deleted"] = items[i].end == LonghornItem::End::kDeleted;
            json["failure"] = items[i].error;
            return json;
          },
      .name =
          [&, entry_at](std::size_t i) {
            const bool is_named =
                yes_ ? items[i].end == LonghornItem::End::kDeleted : items[i].goes();
            return is_named ? std::optional(LonghornSnapshotName(entry_at(i).name)) : std::nullopt;
          },
      .member = "snapshots"};
}

void LonghornPruneCommand::Announce(Session& session, const longhorn::Inventory& inventory,
                                    const std::vector<LonghornItem>& items) const {
  if (AsksForTable(session)) {
    PrintClusterList(session, ListOf(inventory, items));
  }
}

void LonghornPruneCommand::Tell(Session& session, const longhorn::Inventory& inventory,
                                const std::vector<LonghornItem>& items) const {
  const LonghornCounts counts = CountOf(inventory, items);
  if (!AsksForTable(session)) {
    ClusterList list = ListOf(inventory, items);
    list.head = {{"dry_run", !yes_},          {"volumes", counts.volumes},
                 {"to_delete", counts.goes},  {"to_delete_bytes", counts.goes_bytes},
                 {"deleted", counts.deleted}, {"kept", counts.kept},
                 {"held", counts.held},       {"failed", counts.failed}};
    PrintClusterList(session, list);
    return;
  }
  const std::string rest = absl::StrCat(", kept ", counts.kept, ", held back ", counts.held);
  const std::string of = absl::StrCat(" of ", Counted(counts.volumes, "volume"), " (",
                                      FormatBytes(counts.goes_bytes), " in their files)");
  session.console().Print(
      yes_ ? absl::StrCat("deleted ", Counted(counts.deleted, "Snapshot"), rest,
                          counts.deleted == counts.goes
                              ? ""
                              : absl::StrCat(", not deleted ", counts.goes - counts.deleted),
                          "\n")
           : absl::StrCat("would delete ", Counted(counts.goes, "Snapshot"), of, rest,
                          counts.goes == 0 ? "" : "; --yes deletes them", "\n"));
}

absl::StatusOr<ExitCode> LonghornPruneCommand::Run(const CallContext& ctx, Session& session) {
  const ClusterOptions& cluster = session.options().cluster;
  ASSIGN_OR_RETURN(const std::string space, LonghornNamespace(cluster, "longhorn prune"));
  const absl::Time now = ctx.clock->Now();
  ASSIGN_OR_RETURN(const longhorn::Selection selection, flags_.Select(now));
  if (rules_.IsEmpty() && !selection.of_gone_jobs && !selection.before.has_value()) {
    return absl::InvalidArgumentError(
        "nothing says which Snapshots may go; give --of-gone-jobs, --older-than 30d, --keep-last N "
        "or another keep rule of --help");
  }
  const std::unique_ptr<k8s::ApiClient> api = cluster.access.MakeClient();
  const absl::StatusOr<longhorn::Inventory> inventory = ReadLonghorn(
      ctx, *api, {.namespace_name = space, .volume = selection.volume, .requires_all = true});
  RETURN_IF_ERROR(Annotate(inventory.status(), "nothing was deleted"));
  std::vector<LonghornItem> items = Decide(*inventory, selection, now);
  Announce(session, *inventory, items);
  absl::Status done = absl::OkStatus();
  if (yes_) {
    done = CarryOut(ctx, *api, session.console(), *inventory, items);
  }
  Tell(session, *inventory, items);  // Also when it was ended: what is requested is requested.
  RETURN_IF_ERROR(ctx.Check());
  const LonghornCounts counts = CountOf(*inventory, items);
  if (yes_ && counts.deleted < counts.goes) {
    session.console().Fail(
        static_cast<int>(ExitCode::kIncomplete),
        absl::StrCat(Counted(counts.goes - counts.deleted, "Snapshot"), " not deleted",
                     done.ok() ? "" : absl::StrCat(": ", done.message())));
    return ExitCode::kIncomplete;
  }
  return ExitCode::kOk;
}

}  // namespace

std::unique_ptr<Command> MakeLonghornPruneCommand() {
  return std::make_unique<LonghornPruneCommand>();
}

}  // namespace csidelta::cli
