#include "snapshots/snapshot_prune.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/keep_rules.h"
#include "base/status_macros.h"
#include "cli/cluster_verb.h"
#include "cli/command.h"
#include "cli/keep_flags.h"
#include "cli/snapshot/snapshot_text.h"
#include "cli/text.h"
#include "csi/snapshot_protection.h"
#include "snapshots/snapshot_inventory.h"
#include "snapshots/snapshot_removal.h"
#include "snapshots/snapshot_retention.h"

namespace csidelta::cli {
namespace {

using snapshots::DataAction;
using snapshots::SnapshotEntry;

// A VolumeSnapshot with its decision and the result.
struct PrunedItem {
  PruneDecision decision;
  snapshots::Unit unit;  // one, or all members of a group that goes
  DataAction action = DataAction::kNone;
  bool is_deleted = false;                // the API server took the deletion, or it was gone
  bool is_kept_late = false;              // protected only after the decision was announced
  absl::Status error = absl::OkStatus();  // why it was not deleted

  bool goes() const { return decision.verdict == PruneVerdict::kRemoved; }
  int64_t size() const { return std::ssize(unit); }
  const SnapshotEntry& first() const { return unit.front(); }
  bool is_group() const { return goes() && !first().group.uid.empty(); }
  // With its namespace, for notes.
  std::string FullName() const {
    return is_group()
               ? absl::StrCat(snapshots::ShownName(unit), " in namespace ", first().namespace_name)
               : absl::StrCat(first().namespace_name, "/", snapshots::ShownName(first()));
  }
};

std::string WhyText(const PrunedItem& item) {
  std::string text = absl::StrJoin(item.decision.messages, ", ");
  if (item.goes() && item.action == DataAction::kKept) {
    absl::StrAppend(&text, "; ", DataActionText(item.unit, item.action));
  }
  return text;
}

std::string PruneTable(const std::vector<PrunedItem>& items, bool with_namespace, bool dry_run) {
  std::vector<std::vector<std::string>> rows;
  rows.reserve(items.size() + 1);
  rows.push_back({"", "NAME", "PVC", "STATE", "DATE", "WHY"});
  for (const PrunedItem& item : items) {
    const SnapshotEntry& entry = item.first();
    const std::string pvcs = absl::StrJoin(
        item.unit, ",", [](std::string* out, const SnapshotEntry& one) { out->append(one.pvc); });
    rows.push_back({DecisionText(item.decision, dry_run),
                    item.is_group() ? entry.group.name : snapshots::ShownName(entry), pvcs,
                    std::string(csi::ToString(entry.status.state)),
                    SnapshotTimeText(snapshots::DateOf(entry)), WhyText(item)});
  }
  for (std::size_t i = 0; with_namespace && i < rows.size(); ++i) {
    rows[i].insert(rows[i].begin() + 1, i == 0 ? "NAMESPACE" : items[i - 1].first().namespace_name);
  }
  return FormatTable(rows);
}

Json ItemJson(const PrunedItem& item, const SnapshotEntry& entry) {
  return {{"name", entry.name},
          {"group", entry.group.name},
          {"namespace", entry.namespace_name},
          {"pvc", entry.pvc},
          {"state", std::string(csi::ToString(entry.status.state))},
          {"taken_at", OrNull(entry.status.taken_at)},
          {"decision", DecisionText(item.decision, /*dry_run=*/false)},
          {"reason", std::string(item.decision.code)},
          {"messages", item.decision.messages},
          {"kept_for", ProtectionsJson(item.decision.protections)},
          {"data", std::string(snapshots::ToString(item.action))},
          {"handle", entry.handle},
          {"driver", entry.driver},
          {"deleted", item.is_deleted},
          {"error", std::string(item.error.message())}};
}

class SnapshotPruneCommand : public ClusterCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override;
  absl::StatusOr<ExitCode> Work() override;

 private:
  absl::StatusOr<snapshots::RetentionPlan> Plan() const;
  std::vector<PrunedItem> ItemsOf(snapshots::RetentionPlan plan);
  absl::Status CarryOut(std::vector<PrunedItem>& items) const;
  void Delete(PrunedItem& item) const;
  // Returns how many could not be deleted.
  int64_t Report(const std::vector<PrunedItem>& items) const;

  KeepRules rules_;
  std::string pvc_;
  bool any_maker_ = false;
  bool yes_ = false;
  std::size_t ignored_ = 0;  // of other makers
};

VerbSyntax SnapshotPruneCommand::Describe(ArgumentTable& table) {
  DeclareKeepFlags(table, rules_, /*with_letters=*/false);
  table.Add("--pvc", "PVC", "only those of this PVC", pvc_);
  table.Add("--any-maker", "also those that csi-delta snapshot did not make", any_maker_);
  table.Add("--yes", "do it (default: only print what would be deleted)", yes_);
  return {
      .name = "snapshot prune",
      .summary = "Delete VolumeSnapshots that no keep rule keeps, for each PVC by itself",
      .details =
          "The rules are those of forget, and only Ready ones count. A failed one is deleted once "
          "a newer one of its PVC is Ready. An unfinished one stays, and so does one that is "
          "needed: one of a backup, a base snapshot, the source of a PVC that is not bound, one "
          "labelled snapshot.csi-delta.io/keep=true, one younger than 5 minutes, and the only "
          "Ready one of its PVC. A group is deleted as a whole or not at all. Nothing is deleted "
          "unless VolumeSnapshotContents and PVCs, and where they matter Velero's Backups, can be "
          "listed. Ends with exit code 3 when the API server refused to delete one.",
      .examples = {"snapshot prune -n shop --keep-daily 7  # prints what would go",
                   "snapshot prune -l snapshot.csi-delta.io/schedule=nightly --keep-daily 7",
                   "snapshot prune -n shop --keep-daily 7 --pvc data --yes"}};
}

absl::StatusOr<snapshots::RetentionPlan> SnapshotPruneCommand::Plan() const {
  ASSIGN_OR_RETURN(const std::string space, cluster().Namespace());
  snapshots::RetentionRequest request{.namespace_name = space,
                                      .pvcs = {pvc_},
                                      .all_pvcs = pvc_.empty(),
                                      .label_selector = cluster().selector,
                                      .rules = rules_,
                                      .any_maker = any_maker_,
                                      .mover_namespace = cluster().mover_namespace};
  request.rules.zone = absl::LocalTimeZone();
  return Annotate(snapshots::PlanRetention(ctx(), api(), request), "nothing was deleted");
}

std::vector<PrunedItem> SnapshotPruneCommand::ItemsOf(snapshots::RetentionPlan plan) {
  std::vector<PrunedItem> items;
  for (snapshots::PlannedRetention& one : plan) {
    if (one.decision.verdict == PruneVerdict::kIgnored) {
      ignored_ += one.unit.front().is_selected ? 1 : 0;
      continue;
    }
    const DataAction action = snapshots::ActionOf(one.unit, /*with_data=*/false);
    items.push_back(
        {.decision = std::move(one.decision), .unit = std::move(one.unit), .action = action});
  }
  return items;
}

void SnapshotPruneCommand::Delete(PrunedItem& item) const {
  absl::StatusOr<snapshots::Removal> removal =
      snapshots::RemoveAsRead(ctx(), api(), item.unit,
                              {.requester = csi::Requester::kPrune,
                               .with_data = false,
                               .mover_namespace = cluster().mover_namespace});
  if (!removal.ok()) {
    item.error = removal.status();
    return;
  }
  item.is_deleted = removal->end != snapshots::Removal::End::kKept;
  if (!item.is_deleted) {
    item.is_kept_late = true;
    item.decision.Protect(std::move(removal->kept_for));
  }
}

absl::Status SnapshotPruneCommand::CarryOut(std::vector<PrunedItem>& items) const {
  for (PrunedItem& item : items) {
    if (!item.goes()) {
      continue;
    }
    if (ctx().Check().ok()) {
      Delete(item);
    } else {
      item.error = absl::AbortedError("interrupted before");
    }
  }
  RETURN_IF_ERROR(ctx().Check());
  const CallContext limited = ctx().WithTimeout(snapshots::kKeptContentWait);
  for (const PrunedItem& item : items) {
    if (!item.is_deleted || item.action != DataAction::kKept) {
      continue;
    }
    for (const std::string& note : snapshots::RemoveKeptContents(limited, api(), item.unit)) {
      console().Warn(Printable(note));
    }
    RETURN_IF_ERROR(ctx().Check());
  }
  return absl::OkStatus();
}

int64_t SnapshotPruneCommand::Report(const std::vector<PrunedItem>& items) const {
  ClusterResult result;
  Json list = Json::array();
  int64_t kept = 0;
  int64_t goes = 0;
  int64_t deleted = 0;
  int64_t failed = 0;
  for (const PrunedItem& item : items) {
    kept += item.goes() ? 0 : item.size();
    goes += item.goes() ? item.size() : 0;
    deleted += item.is_deleted ? item.size() : 0;
    failed += item.error.ok() ? 0 : item.size();
    for (const SnapshotEntry& entry : item.unit) {
      list.push_back(ItemJson(item, entry));
      if (yes_ ? item.is_deleted : item.goes()) {
        result.names.push_back(SnapshotResourceName(entry.name));
      }
    }
    if (!item.error.ok()) {
      console().Warn(Printable(absl::StrCat(item.FullName(), " ", NotDeletedText(item.error))));
    } else if (item.is_kept_late) {
      console().Info(Printable(absl::StrCat(item.FullName(), " is kept: ", WhyText(item))));
    }
  }
  const std::string others =
      ignored_ == 0 ? ""
                    : absl::StrCat("; ", ignored_, " of other makers are left alone, --any-maker ",
                                   "counts them, too");
  result.table = yes_ ? absl::StrCat("deleted ", Counted(deleted, "VolumeSnapshot"), ", kept ",
                                     kept, others, "\n")
                      : absl::StrCat("would delete ", Counted(goes, "VolumeSnapshot"), ", keep ",
                                     kept, others, goes == 0 ? "" : "; --yes deletes them", "\n");
  result.value = {{"dry_run", !yes_}, {"deleted", deleted},       {"kept", kept},
                  {"failed", failed}, {"other_makers", ignored_}, {"snapshots", std::move(list)}};
  PrintClusterResult(session(), result);
  return failed;
}

absl::StatusOr<ExitCode> SnapshotPruneCommand::Work() {
  if (rules_.IsEmpty()) {
    return absl::InvalidArgumentError(
        "no keep rule is given, and nothing would be kept by one; give --keep-last N, --keep-daily "
        "N, --keep-within 7d or another of --help");
  }
  ASSIGN_OR_RETURN(snapshots::RetentionPlan plan, Plan());
  std::vector<PrunedItem> items = ItemsOf(std::move(plan));
  if (AsksForTable(session()) && !items.empty()) {
    console().Print(PruneTable(items, cluster().all_namespaces, !yes_));
  }
  const absl::Status done = yes_ ? CarryOut(items) : absl::OkStatus();
  // Also when it was interrupted: what is gone is gone.
  const int64_t failed = Report(items);
  RETURN_IF_ERROR(done);
  if (failed > 0) {
    return console().Fail(ExitCode::kIncomplete,
                          absl::StrCat(Counted(failed, "VolumeSnapshot"), " not deleted"));
  }
  return ExitCode::kOk;
}

}  // namespace

void AddSnapshotPruneCommand(Commands& all) { AddEach<SnapshotPruneCommand>(all); }

}  // namespace csidelta::cli
