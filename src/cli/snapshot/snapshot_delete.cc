#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/enum_names.h"
#include "base/status_macros.h"
#include "cli/cluster_verb.h"
#include "cli/command.h"
#include "cli/snapshot/snapshot_text.h"
#include "cli/text.h"
#include "csi/snapshot_protection.h"
#include "snapshots/snapshot_inventory.h"
#include "snapshots/snapshot_removal.h"

namespace csidelta::cli {
namespace {

using snapshots::DataAction;
using snapshots::PlannedRemoval;
using snapshots::RemovalVerdict;
using snapshots::SnapshotEntry;

constexpr absl::Duration kRemovalWaitDefault = absl::Minutes(5);

// How it ended for one of those that were named.
enum class DeletionEnd {
  kWouldDelete,   // --dry-run
  kDeleted,       // the API server took the deletion
  kGone,          // and it is gone
  kBeingDeleted,  // by an earlier deletion
  kMissing,       // --ignore-missing
  kKept,          // protected
  kFailed,
};

constexpr EnumNames<DeletionEnd, 7> kEndNames = {{{DeletionEnd::kWouldDelete, "would-delete"},
                                                  {DeletionEnd::kDeleted, "deleted"},
                                                  {DeletionEnd::kGone, "gone"},
                                                  {DeletionEnd::kBeingDeleted, "being-deleted"},
                                                  {DeletionEnd::kMissing, "missing"},
                                                  {DeletionEnd::kKept, "kept"},
                                                  {DeletionEnd::kFailed, "failed"}}};

struct DeletedItem {
  PlannedRemoval plan;
  DeletionEnd result = DeletionEnd::kWouldDelete;
  absl::Status error = absl::OkStatus();  // of kFailed, or of the wait
};

DeletedItem MissingItem(const std::string& namespace_name, const std::string& name) {
  DeletedItem item;
  item.plan.unit.emplace_back();
  item.plan.unit.front().namespace_name = namespace_name;
  item.plan.unit.front().name = name;
  item.result = DeletionEnd::kMissing;
  return item;
}

// A member that stays has a line of its own.
std::string DeletedName(const DeletedItem& item) {
  return item.plan.verdict == RemovalVerdict::kDelete
             ? snapshots::ShownName(item.plan.unit)
             : snapshots::ShownName(item.plan.unit.front());
}

// Before anything is deleted.
std::string Announcement(const DeletedItem& item) {
  const std::string name = DeletedName(item);
  if (item.result == DeletionEnd::kMissing) {
    return absl::StrCat(name, ": does not exist");
  }
  switch (item.plan.verdict) {
    case RemovalVerdict::kProtected:
      return absl::StrCat(
          name, ": is kept: ", ProtectionsText(item.plan.kept_for),
          std::any_of(item.plan.kept_for.begin(), item.plan.kept_for.end(),
                      [](const Finding& one) { return one.code == csi::kLastReadyCode; })
              ? " (--last-too deletes the last one, too)"
              : "");
    case RemovalVerdict::kBeingDeleted:
      return absl::StrCat(name, ": is being deleted already");
    case RemovalVerdict::kDelete:
      break;
  }
  return absl::StrCat(name, ": ", DataActionText(item.plan.unit, item.plan.action));
}

// The line after the deletion; "" if the announcement was enough.
std::string ResultText(const DeletedItem& item) {
  const std::string name = DeletedName(item);
  if (item.result == DeletionEnd::kFailed) {
    return absl::StrCat(name, ": ", NotDeletedText(item.error));
  }
  if (!item.error.ok()) {
    return absl::StrCat(name, ": deleted; ", item.error.message());
  }
  switch (item.result) {
    case DeletionEnd::kDeleted:
      return absl::StrCat(name, ": deleted");
    case DeletionEnd::kGone:
      return absl::StrCat(name, ": gone");
    case DeletionEnd::kKept:
      // Announced already if it was protected then.
      return item.plan.verdict == RemovalVerdict::kProtected
                 ? ""
                 : absl::StrCat(name, ": is kept: ", ProtectionsText(item.plan.kept_for));
    default:
      return "";
  }
}

Json ItemJson(const DeletedItem& item, const SnapshotEntry& entry) {
  return {{"name", entry.name},
          {"group", entry.group.name},
          {"namespace", entry.namespace_name},
          {"pvc", entry.pvc},
          {"result", EnumName(kEndNames, item.result)},
          {"content", entry.content},
          {"driver", entry.driver},
          {"handle", entry.handle},
          {"policy", entry.deletion_policy},
          {"data", std::string(snapshots::ToString(item.plan.action))},
          {"kept_for", ProtectionsJson(item.plan.kept_for)},
          {"error", std::string(item.error.message())}};
}

class SnapshotDeleteCommand : public ClusterCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override;
  absl::StatusOr<ExitCode> Work() override;

 private:
  absl::Status CheckFlags() const;
  absl::StatusOr<std::vector<DeletedItem>> Plan(const std::string& space) const;
  absl::StatusOr<std::vector<std::size_t>> Choose(const std::string& space,
                                                  const snapshots::Inventory& inventory,
                                                  const std::vector<std::string>& names,
                                                  std::vector<DeletedItem>& missing) const;
  absl::Status CheckContents(const std::vector<DeletedItem>& items) const;
  void Announce(const std::vector<DeletedItem>& items) const;
  absl::Status CarryOut(std::vector<DeletedItem>& items) const;
  void Delete(DeletedItem& item) const;
  void Finish(const CallContext& limited, DeletedItem& item) const;
  void Report(const std::vector<DeletedItem>& items) const;
  absl::StatusOr<ExitCode> Conclude(const std::vector<DeletedItem>& items) const;

  std::vector<std::string> names_;
  std::string set_;
  std::optional<absl::Duration> timeout_;
  bool dry_run_ = false;
  bool wait_ = false;
  bool with_data_ = false;
  bool last_too_ = false;
  bool ignore_missing_ = false;
};

VerbSyntax SnapshotDeleteCommand::Describe(ArgumentTable& table) {
  table.AddPositionals("NAME", "the VolumeSnapshots to delete", 0, kSnapshotIdsMax, names_);
  table.Add("--set", "SET", "instead: all that were taken together under this name", set_);
  table.Add("--dry-run", "only print what would happen to each", dry_run_);
  table.Add("--with-data",
            "delete the data, too, if the deletion policy is Retain; needs the right to patch "
            "VolumeSnapshotContents",
            with_data_);
  table.Add("--last-too", "delete the only Ready one of a PVC, too", last_too_);
  table.Add("--ignore-missing", "a NAME that does not exist counts as deleted", ignore_missing_);
  table.Add("--wait", "wait until they are gone, with their VolumeSnapshotContents", wait_);
  table.AddWait("--timeout", "how long --wait waits (default: 5m)", timeout_);
  return {.name = "snapshot delete",
          .summary = "Delete VolumeSnapshots, after printing what happens to their data",
          .details =
              "All are read before the first is deleted. A VolumeSnapshot that is needed is kept "
              "and named: one of a backup, a base snapshot, the source of a PVC that is not bound, "
              "one labelled snapshot.csi-delta.io/keep=true, and without --last-too the only Ready "
              "one of its PVC. Members of a VolumeGroupSnapshot go together, by deleting that, or "
              "not at all. Ends with exit code 23 when all were kept, with 3 when some were, or "
              "the API server refused to delete one. If the storage keeps the data, the "
              "VolumeSnapshotContent is removed, too, so that its handle can be imported.",
          .examples = {"snapshot delete data-20261121-130500 -n shop --dry-run",
                       "snapshot delete --set before-upgrade -n shop --wait"}};
}

absl::Status SnapshotDeleteCommand::CheckFlags() const {
  if (names_.empty() == set_.empty()) {
    return absl::InvalidArgumentError(
        set_.empty() ? "nothing is named; give the names of VolumeSnapshots, or --set SET"
                     : "both names and --set are given; leave one of them out");
  }
  return timeout_.has_value() && !wait_
             ? absl::InvalidArgumentError("--timeout is how long --wait waits; give both")
             : absl::OkStatus();
}

// The positions of what is named in the inventory, and what is not in it.
absl::StatusOr<std::vector<std::size_t>> SnapshotDeleteCommand::Choose(
    const std::string& space, const snapshots::Inventory& inventory,
    const std::vector<std::string>& names, std::vector<DeletedItem>& missing) const {
  std::vector<std::size_t> chosen;
  if (!set_.empty()) {
    for (std::size_t i = 0; i < inventory.entries.size(); ++i) {
      if (inventory.entries[i].set == set_) {
        chosen.push_back(i);
      }
    }
    return chosen.empty() && !ignore_missing_
               ? absl::StatusOr<std::vector<std::size_t>>(absl::NotFoundError(
                     absl::StrCat("no VolumeSnapshot of set ", set_, " was found in namespace ",
                                  space, "; csi-delta snapshot list -n ", ShellQuoted(space),
                                  " -o wide shows the sets")))
               : chosen;
  }
  std::vector<std::string> absent;
  for (const std::string& name : names) {
    const auto found = std::find_if(inventory.entries.begin(), inventory.entries.end(),
                                    [&](const SnapshotEntry& entry) { return entry.name == name; });
    if (found != inventory.entries.end()) {
      chosen.push_back(static_cast<std::size_t>(found - inventory.entries.begin()));
    } else {
      absent.push_back(name);
      missing.push_back(MissingItem(space, name));
    }
  }
  if (!absent.empty() && !ignore_missing_) {
    return NoSuchSnapshots(space, absent, inventory.entries);
  }
  return chosen;
}

absl::StatusOr<std::vector<DeletedItem>> SnapshotDeleteCommand::Plan(
    const std::string& space) const {
  std::vector<std::string> names;
  names.reserve(names_.size());
  for (const std::string& argument : names_) {
    ASSIGN_OR_RETURN(std::string name, SnapshotNameOf(argument));
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(std::move(name));
    }
  }
  ASSIGN_OR_RETURN(const snapshots::Inventory inventory,
                   snapshots::ReadInventory(ctx(), api(),
                                            {.namespace_name = space,
                                             .label_selector = "",
                                             .names = names,
                                             .reads_groups = true,
                                             .with_data = with_data_,
                                             .mover_namespace = cluster().mover_namespace,
                                             .now = ctx().clock->Now()}));
  std::vector<DeletedItem> items;
  ASSIGN_OR_RETURN(const std::vector<std::size_t> chosen, Choose(space, inventory, names, items));
  for (PlannedRemoval& one : snapshots::PlanRemoval(
           inventory, chosen, {.with_data = with_data_, .last_too = last_too_})) {
    DeletedItem item{.plan = std::move(one)};
    if (item.plan.verdict != RemovalVerdict::kDelete) {
      item.result = item.plan.verdict == RemovalVerdict::kProtected ? DeletionEnd::kKept
                                                                    : DeletionEnd::kBeingDeleted;
    }
    items.push_back(std::move(item));
  }
  console().InfoAll(inventory.not_checked);
  return items;
}

// With --with-data nothing is deleted if a content cannot be read: its data might stay.
absl::Status SnapshotDeleteCommand::CheckContents(const std::vector<DeletedItem>& items) const {
  for (const DeletedItem& item : items) {
    if (with_data_ && item.plan.verdict == RemovalVerdict::kDelete &&
        item.plan.action == DataAction::kUnknown) {
      return absl::PermissionDeniedError(absl::StrCat(
          "VolumeSnapshotContent ", item.plan.unit.front().content, " of ", DeletedName(item),
          " cannot be read, and nothing was deleted; --with-data needs the rights to get and to "
          "patch volumesnapshotcontents: leave it out, or ask an administrator"));
    }
  }
  return absl::OkStatus();
}

// On standard output where that is for people, else as notes.
void SnapshotDeleteCommand::Announce(const std::vector<DeletedItem>& items) const {
  for (const DeletedItem& item : items) {
    const std::string line = Printable(Announcement(item));
    AsksForTable(session()) ? console().Print(absl::StrCat(line, "\n")) : console().Info(line);
  }
}

void SnapshotDeleteCommand::Delete(DeletedItem& item) const {
  absl::StatusOr<snapshots::Removal> removal =
      snapshots::RemoveAsRead(ctx(), api(), item.plan.unit,
                              {.requester = csi::Requester::kPerson,
                               .with_data = with_data_,
                               .mover_namespace = cluster().mover_namespace});
  if (!removal.ok()) {
    item.result = DeletionEnd::kFailed;
    item.error = removal.status();
    return;
  }
  switch (removal->end) {
    case snapshots::Removal::End::kRequested:
      item.result = DeletionEnd::kDeleted;
      break;
    case snapshots::Removal::End::kGone:
      item.result = DeletionEnd::kGone;
      break;
    case snapshots::Removal::End::kKept:
      item.result = DeletionEnd::kKept;
      item.plan.kept_for = std::move(removal->kept_for);
      break;
  }
}

// The steps after the API server has accepted the deletion.
void SnapshotDeleteCommand::Finish(const CallContext& limited, DeletedItem& item) const {
  bool contents_go = item.plan.action == DataAction::kDeleted;
  if (item.plan.action == DataAction::kKept) {
    const auto staying = snapshots::RemoveKeptContents(limited, api(), item.plan.unit);
    contents_go = staying.empty();
    for (const std::string& sentence : staying) {
      console().Warn(Printable(sentence));
    }
  }
  if (!wait_) {
    return;
  }
  for (const SnapshotEntry& entry : item.plan.unit) {
    item.error.Update(snapshots::AwaitRemoval(limited, api(), entry, contents_go));
    if (item.plan.action == DataAction::kUnknown) {
      console().Info(Printable(absl::StrCat("VolumeSnapshotContent ", entry.content, " of ",
                                            snapshots::ShownName(entry),
                                            " not waited for: you may not read it")));
    }
  }
  if (item.error.ok()) {
    item.result = DeletionEnd::kGone;
  }
}

absl::Status SnapshotDeleteCommand::CarryOut(std::vector<DeletedItem>& items) const {
  for (DeletedItem& item : items) {
    if (item.result != DeletionEnd::kWouldDelete) {
      continue;
    }
    if (ctx().Check().ok()) {
      Delete(item);
    } else {
      item.result = DeletionEnd::kFailed;
      item.error = absl::AbortedError("interrupted before");
    }
  }
  RETURN_IF_ERROR(ctx().Check());
  // All deletions are under way: their waits run at the same time.
  const CallContext limited = ctx().WithTimeout(wait_ ? timeout_.value_or(kRemovalWaitDefault)
                                                      : snapshots::kKeptContentWait);
  for (DeletedItem& item : items) {
    if (item.result == DeletionEnd::kDeleted || item.result == DeletionEnd::kGone ||
        item.result == DeletionEnd::kBeingDeleted) {
      RETURN_IF_ERROR(ctx().Check());
      Finish(limited, item);
    }
  }
  return absl::OkStatus();
}

void SnapshotDeleteCommand::Report(const std::vector<DeletedItem>& items) const {
  const bool is_table = AsksForTable(session());
  ClusterResult result = {.value = Json::array()};
  for (const DeletedItem& item : items) {
    for (const SnapshotEntry& entry : item.plan.unit) {
      result.value.push_back(ItemJson(item, entry));
      if (item.result == DeletionEnd::kDeleted || item.result == DeletionEnd::kGone) {
        result.names.push_back(SnapshotResourceName(entry.name));
      }
    }
    const std::string line = Printable(ResultText(item));
    if (line.empty()) {
      continue;
    }
    absl::StrAppend(&result.table, line, "\n");
    if (!is_table && !item.error.ok()) {
      console().Warn(line);
    }
  }
  PrintClusterResult(session(), result);
}

// All protected is 23; some of them, or one that the API server refused to delete, is 3; a wait
// that ran out is 1.
absl::StatusOr<ExitCode> SnapshotDeleteCommand::Conclude(
    const std::vector<DeletedItem>& items) const {
  std::size_t all = 0;
  std::size_t kept = 0;
  std::size_t failed = 0;
  for (const DeletedItem& item : items) {
    const std::size_t count = item.plan.unit.size();
    all += count;
    kept += item.result == DeletionEnd::kKept ? count : 0;
    failed += item.result == DeletionEnd::kFailed ? count : 0;
    if (item.result != DeletionEnd::kFailed) {
      RETURN_IF_ERROR(item.error);
    }
  }
  if (kept == all && kept > 0) {
    return console().Fail(ExitCode::kProtected,
                          dry_run_ ? "nothing would be deleted: all that was named is kept"
                                   : "nothing was deleted: all that was named is kept");
  }
  if (kept + failed > 0) {
    return console().Fail(
        ExitCode::kIncomplete,
        absl::StrCat(kept + failed, " of ", Counted(static_cast<int64_t>(all), "VolumeSnapshot"),
                     dry_run_ ? " would not be deleted" : " not deleted"));
  }
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> SnapshotDeleteCommand::Work() {
  ASSIGN_OR_RETURN(const std::string space, OneNamespace(cluster(), "snapshot delete"));
  RETURN_IF_ERROR(CheckFlags());
  ASSIGN_OR_RETURN(std::vector<DeletedItem> items, Plan(space));
  RETURN_IF_ERROR(CheckContents(items));
  Announce(items);
  const absl::Status done = dry_run_ ? absl::OkStatus() : CarryOut(items);
  Report(items);  // Also when it was interrupted: what is gone is gone.
  RETURN_IF_ERROR(done);
  return Conclude(items);
}

}  // namespace

void AddSnapshotDeleteCommand(Commands& all) { AddEach<SnapshotDeleteCommand>(all); }

}  // namespace csidelta::cli
