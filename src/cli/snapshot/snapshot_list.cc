#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "cli/cluster_verb.h"
#include "cli/command.h"
#include "cli/snapshot/snapshot_text.h"
#include "cli/text.h"
#include "csi/drop.h"
#include "inplace/swap_state.h"
#include "objects/client.h"
#include "objects/volume_group_snapshot.h"
#include "snapshots/snapshot_inventory.h"
#include "snapshots/snapshot_origin.h"
#include "snapshots/snapshot_watch.h"

namespace csidelta::cli {
namespace {

using objects::VolumeGroupSnapshot;
using objects::VolumeGroupSnapshotContent;
using snapshots::SnapshotEntry;

constexpr std::size_t kKeptVolumesMax = 5;  // that are named

std::vector<std::string> RowOf(const Session& session, const SnapshotEntry& entry) {
  std::vector<std::string> row;
  if (session.options().cluster.all_namespaces) {
    row.push_back(entry.namespace_name);
  }
  row.insert(row.end(),
             {OutputForm(session) == "wide" ? entry.name : snapshots::ShownName(entry), entry.pvc,
              absl::StrJoin(entry.used_by, ","), std::string(csi::ToString(entry.status.state)),
              entry.status.taken_at.has_value() ? FormatMoment(*entry.status.taken_at) : "",
              entry.restore_size_bytes.has_value() ? FormatBytes(*entry.restore_size_bytes) : "",
              entry.class_name, CodesText(entry.kept_for)});
  if (OutputForm(session) == "wide") {
    row.insert(row.end(),
               {entry.driver, entry.handle, entry.content, entry.deletion_policy, entry.set});
  }
  return row;
}

std::vector<std::string> ColumnsOf(const Session& session) {
  std::vector<std::string> columns;
  if (session.options().cluster.all_namespaces) {
    columns.emplace_back("NAMESPACE");
  }
  columns.insert(columns.end(),
                 {"NAME", "PVC", "USED BY", "STATE", "TAKEN", "SIZE", "CLASS", "KEPT FOR"});
  if (OutputForm(session) == "wide") {
    columns.insert(columns.end(), {"DRIVER", "HANDLE", "CONTENT", "POLICY", "SET"});
  }
  return columns;
}

// The row of a change. Columns that need the whole list are "?".
std::vector<std::string> ChangedRow(const Session& session,
                                    const snapshots::SnapshotChange& change) {
  std::vector<std::string> row = RowOf(session, change.entry);
  const std::size_t first = session.options().cluster.all_namespaces ? 1 : 0;
  row[first + 2] = "?";  // USED BY
  row[first + 7] = "?";  // KEPT FOR
  if (change.is_gone) {
    row[first + 3] = "gone";  // STATE
  }
  return row;
}

Json ChangedJson(const snapshots::SnapshotChange& change) {
  Json json = cli::ToJson(change.entry);
  json["used_by"] = nullptr;
  json["kept_for"] = nullptr;
  json["gone"] = change.is_gone;
  return json;
}

// What became of a group. `content`: nothing if it does not exist or could not be read.
Json GroupJson(const VolumeGroupSnapshot& group, bool is_content_gone,
               const std::optional<VolumeGroupSnapshotContent>& content,
               const std::vector<std::string>& pvcs) {
  const std::string error = group.error_message().empty() && content.has_value()
                                ? content->error_message()
                                : group.error_message();
  const char* const state = group.is_being_deleted() ? "Deleting"
                            : is_content_gone        ? "Lost"
                            : group.is_ready()       ? "Ready"
                            : error.empty()          ? "Creating"
                                                     : "Error";
  return {{"name", group.name()},
          {"namespace", group.namespace_name()},
          {"pvcs", pvcs},
          {"state", state},
          {"taken_at", OrNull(group.taken_at())},
          {"class", group.class_name()},
          {"content", group.bound_content()},
          {"handle", content.has_value() ? content->handle() : ""},
          {"error", error}};
}

std::vector<std::string> SnapshotStates() {
  std::vector<std::string> names;
  for (const auto state :
       {csi::SnapshotState::kCreating, csi::SnapshotState::kUploading, csi::SnapshotState::kReady,
        csi::SnapshotState::kError, csi::SnapshotState::kDeleting, csi::SnapshotState::kLost,
        csi::SnapshotState::kUnverified}) {
    names.emplace_back(csi::ToString(state));
  }
  return names;
}

class SnapshotListCommand : public ClusterCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override;
  absl::StatusOr<ExitCode> Work() override;

 private:
  // Names volumes that in-place restores have replaced, if the caller may list volumes.
  void WarnOfKeptVolumes(const std::string& space) const;
  absl::Status PrintGroups(const std::string& space,
                           const std::vector<SnapshotEntry>& entries) const;
  bool IsAskedFor(const SnapshotEntry& entry) const;
  absl::StatusOr<ExitCode> Watch(const snapshots::SnapshotWatchRequest& request,
                                 const snapshots::SnapshotOrigin& origin);

  // The list before the changes, in their form.
  void PrintFirst(const std::vector<SnapshotEntry>& entries);
  void PrintChange(const snapshots::SnapshotChange& change);
  void Print(const std::vector<SnapshotEntry>& entries) const;

  std::string pvc_;
  std::string pod_;
  std::string stateful_set_;
  std::string volume_;
  std::string set_;
  std::string state_;
  bool groups_ = false;
  bool watches_ = false;
  GrowingTable growing_;
};

VerbSyntax SnapshotListCommand::Describe(ArgumentTable& table) {
  table.Add("--pvc", "PVC", "only those of this PVC", pvc_);
  table.Add("--pod", "POD", "only those of the PVCs of this Pod, or taken of it", pod_);
  table.Add("--statefulset", "NAME",
            "only those of the PVCs of this StatefulSet, or taken of it; also of PVCs that are "
            "gone",
            stateful_set_);
  table.Add("--volume", "PV",
            "only those of this PersistentVolume, also when its PVC is gone; if the "
            "PersistentVolume is gone, too: its volume handle",
            volume_);
  table.Add("--set", "SET", "only those that were taken together under this name", set_);
  table.AddChoice("--state", SnapshotStates(), "only those in this state", state_);
  table.Add("--groups", "instead: list VolumeGroupSnapshots and their states", groups_);
  table.Add("--watch", "then print a row, or a line of JSON, for each change, until interrupted",
            watches_);
  return {.name = "snapshot list",
          .summary = "List VolumeSnapshots, their state, and what keeps them",
          .details =
              "Uses your own rights: what they do not allow to read is named on stderr and left "
              "empty. Exit code 0 when --watch is interrupted.",
          .examples = {"snapshot list -n shop --pvc data", "snapshot list -A -o wide"}};
}

absl::StatusOr<ExitCode> SnapshotListCommand::Work() {
  if (groups_ &&
      (watches_ || !absl::StrCat(pvc_, pod_, stateful_set_, volume_, set_, state_).empty())) {
    return absl::InvalidArgumentError("--groups goes with -n, -A, -l and -o alone");
  }
  ASSIGN_OR_RETURN(const std::string space, cluster().Namespace());
  ASSIGN_OR_RETURN(const snapshots::SnapshotOrigin origin,
                   snapshots::FindOrigin(ctx(), api(),
                                         {.namespace_name = space,
                                          .pod = pod_,
                                          .stateful_set = stateful_set_,
                                          .volume = volume_}));
  ASSIGN_OR_RETURN(snapshots::Inventory inventory,
                   snapshots::ReadInventory(ctx(), api(),
                                            {.namespace_name = space,
                                             .label_selector = groups_ ? "" : cluster().selector,
                                             .mover_namespace = cluster().mover_namespace,
                                             .now = ctx().clock->Now()}));
  if (groups_) {
    RETURN_IF_ERROR(PrintGroups(space, inventory.entries));
    return ExitCode::kOk;
  }
  std::vector<SnapshotEntry> entries;
  std::copy_if(
      inventory.entries.begin(), inventory.entries.end(), std::back_inserter(entries),
      [&](const SnapshotEntry& entry) { return IsAskedFor(entry) && origin.is_of(entry); });
  console().InfoAll(origin.not_checked);
  console().InfoAll(inventory.not_checked);
  WarnOfKeptVolumes(space);
  if (!watches_) {
    Print(entries);
    return ExitCode::kOk;
  }
  PrintFirst(entries);
  const snapshots::SnapshotWatchRequest request{.namespace_name = space,
                                                .label_selector = cluster().selector,
                                                .known = std::move(inventory.entries)};
  return Watch(request, origin);
}

void SnapshotListCommand::WarnOfKeptVolumes(const std::string& space) const {
  const auto kept = inplace::ListKeptVolumes(ctx(), api(), space);
  if (!kept.ok()) {
    return;  // It is no part of the list.
  }
  for (std::size_t i = 0; i < std::min(kept->size(), kKeptVolumesMax); ++i) {
    const inplace::KeptVolume& one = kept->at(i);
    console().Info(Printable(absl::StrCat(inplace::KeptVolumeText(one, ctx().clock->Now()), "; ",
                                          inplace::SwapCommand(one, "--finish"), " deletes it")));
  }
  if (kept->size() > kKeptVolumesMax) {
    console().Info(
        absl::StrCat(kept->size() - kKeptVolumesMax, " more are kept; csi-delta doctor has all"));
  }
}

absl::Status SnapshotListCommand::PrintGroups(const std::string& space,
                                              const std::vector<SnapshotEntry>& entries) const {
  ASSIGN_OR_RETURN(const std::vector<VolumeGroupSnapshot> groups,
                   objects::ListGroupKind<VolumeGroupSnapshot>(
                       ctx(), api(), space, {.label_selector = cluster().selector}));
  ClusterResult result = {.value = Json::array(), .table = "", .names = {}};
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "PVCS", "STATE", "TAKEN", "CLASS", "CONTENT", "ERROR"}};
  absl::Status unread = absl::OkStatus();
  for (const VolumeGroupSnapshot& group : groups) {
    std::vector<std::string> pvcs;
    for (const SnapshotEntry& entry : entries) {
      if (entry.namespace_name == group.namespace_name() && entry.group.name == group.name()) {
        pvcs.push_back(entry.pvc);
      }
    }
    const auto content =
        objects::Find<VolumeGroupSnapshotContent>(ctx(), api(), csi::ContentKeyOf(group));
    unread.Update(content.status());
    const bool is_gone = content.ok() && !content->has_value() && !group.bound_content().empty();
    const Json value = GroupJson(group, is_gone, content.value_or(std::nullopt), pvcs);
    rows.push_back({cluster().all_namespaces
                        ? absl::StrCat(group.namespace_name(), "/", group.name())
                        : group.name(),
                    absl::StrJoin(pvcs, ","), GetString(value, {"state"}),
                    group.taken_at().has_value() ? FormatMoment(*group.taken_at()) : "",
                    group.class_name(), group.bound_content(), GetString(value, {"error"})});
    result.value.push_back(value);
    result.names.push_back(
        absl::StrCat("volumegroupsnapshot.groupsnapshot.storage.k8s.io/", group.name()));
  }
  if (!unread.ok()) {
    console().Info(absl::StrCat("contents of groups not checked: ", unread.message()));
  }
  result.table = FormatTable(rows);
  PrintClusterResult(session(), result);
  return absl::OkStatus();
}

bool SnapshotListCommand::IsAskedFor(const SnapshotEntry& entry) const {
  return (pvc_.empty() || entry.pvc == pvc_) && (set_.empty() || entry.set == set_) &&
         (state_.empty() || csi::ToString(entry.status.state) == state_);
}

absl::StatusOr<ExitCode> SnapshotListCommand::Watch(const snapshots::SnapshotWatchRequest& request,
                                                    const snapshots::SnapshotOrigin& origin) {
  const absl::Status ended = snapshots::WatchSnapshots(
      ctx(), api(), request,
      [&](const snapshots::SnapshotChange& change) {
        if (IsAskedFor(change.entry) && origin.is_of(change.entry)) {
          PrintChange(change);
        }
        return console().IsRead();
      },
      [&](const std::string& sentence) { console().Info(sentence); });
  if (!ended.ok() && !ctx().stop.stop_requested()) {
    return ended;
  }
  return ExitCode::kOk;
}

void SnapshotListCommand::PrintFirst(const std::vector<SnapshotEntry>& entries) {
  if (AsksForTable(session())) {
    std::vector<std::vector<std::string>> rows = {ColumnsOf(session())};
    growing_.Fit(rows.front());
    for (const SnapshotEntry& entry : entries) {
      growing_.Fit(rows.emplace_back(RowOf(session(), entry)));
    }
    for (const std::vector<std::string>& row : rows) {
      console().Print(growing_.Line(row));
    }
    return;
  }
  for (const SnapshotEntry& entry : entries) {
    Json json = cli::ToJson(entry);
    json["gone"] = false;
    PrintClusterResult(session(), {.value = json, .names = {SnapshotResourceName(entry.name)}});
  }
}

void SnapshotListCommand::PrintChange(const snapshots::SnapshotChange& change) {
  if (AsksForTable(session())) {
    const auto row = ChangedRow(session(), change);
    growing_.Fit(row);
    console().Print(growing_.Line(row));
  } else {
    PrintClusterResult(session(), {.value = ChangedJson(change),
                                   .names = {SnapshotResourceName(change.entry.name)}});
  }
}

void SnapshotListCommand::Print(const std::vector<SnapshotEntry>& entries) const {
  if (AsksForTable(session()) && entries.empty()) {
    console().Info("no VolumeSnapshots found");
  }
  PrintClusterList(session(),
                   {.count = entries.size(),
                    .columns = ColumnsOf(session()),
                    .row = [&](std::size_t i) { return RowOf(session(), entries[i]); },
                    .value = [&](std::size_t i) { return cli::ToJson(entries[i]); },
                    .name = [&](std::size_t i) { return SnapshotResourceName(entries[i].name); }});
}

}  // namespace

void AddSnapshotListCommand(Commands& all) { AddEach<SnapshotListCommand>(all); }

}  // namespace csidelta::cli
