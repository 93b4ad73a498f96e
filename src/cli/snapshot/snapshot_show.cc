#include <algorithm>
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
#include "objects/event.h"
#include "snapshots/snapshot_inventory.h"
#include "snapshots/snapshot_removal.h"

namespace csidelta::cli {
namespace {

using objects::Event;
using snapshots::SnapshotEntry;
using TableRows = std::vector<std::vector<std::string>>;

// One VolumeSnapshot with all details to show.
struct Shown {
  SnapshotEntry entry;
  bool is_checked = true;                    // all that may keep it was read
  std::optional<std::vector<Event>> events;  // nothing: they may not be listed
};

std::string BindingBothWays(const SnapshotEntry& entry) {
  if (entry.content.empty()) {
    return "not bound yet";
  }
  const std::string content = absl::StrCat("VolumeSnapshotContent ", entry.content);
  switch (entry.content_kind) {
    case csi::ContentReading::Kind::kUnknown:
      return absl::StrCat("names ", content, "; not checked: you may not read it");
    case csi::ContentReading::Kind::kGone:
      return absl::StrCat("names ", content, ", which does not exist");
    case csi::ContentReading::Kind::kPresent:
      break;
  }
  return entry.is_named_by_content
             ? absl::StrCat("both ways: ", content, " names it, too")
             : absl::StrCat("names ", content, ", which names ", entry.content_names);
}

// Names and values; a value that is not known is left out.
std::string SnapshotFields(const SnapshotEntry& entry) {
  const TableRows all = {
      {"Name:", entry.name},
      {"Namespace:", entry.namespace_name},
      {"PVC:", entry.pvc},
      {"State:", std::string(csi::ToString(entry.status.state))},
      {"Requested:", SnapshotTimeText(entry.asked_at)},
      {"Taken:", SnapshotTimeText(entry.status.taken_at)},
      {"Ready:", SnapshotTimeText(entry.ready_at)},
      {"Size:", entry.restore_size_bytes.has_value() ? FormatBytes(*entry.restore_size_bytes) : ""},
      {"Used by:", absl::StrJoin(entry.used_by, ", ")},
      {"Class:", entry.class_name},
      {"Binding:", BindingBothWays(entry)},
      {"Driver:", entry.driver},
      {"Handle:", entry.handle},
      {"Policy:", entry.deletion_policy},
      {"If deleted:", DataActionText(entry, snapshots::ActionOf(entry, false))},
      {"Set:", entry.set},
      {"Workload:", entry.workload},
      {"Note:", entry.note},
  };
  TableRows known;
  known.reserve(all.size());
  std::copy_if(all.begin(), all.end(), std::back_inserter(known),
               [](const std::vector<std::string>& row) { return !row.back().empty(); });
  return FormatTable(known);
}

// A heading with an indented table, or with `otherwise` if there are no rows.
std::string ShownSection(absl::string_view heading, std::vector<std::string> head,
                         const TableRows& rows, absl::string_view otherwise) {
  if (rows.empty()) {
    return absl::StrCat("\n", heading, ": ", otherwise, "\n");
  }
  TableRows table;
  table.reserve(rows.size() + 1);
  if (!head.empty()) {
    table.push_back(std::move(head));
  }
  table.insert(table.end(), rows.begin(), rows.end());
  for (std::vector<std::string>& row : table) {
    row.front().insert(0, "  ");
  }
  return absl::StrCat("\n", heading, ":\n", FormatTable(table));
}

std::string ConditionsText(const csi::SnapshotStatus& status) {
  TableRows rows;
  rows.reserve(status.conditions.size());
  for (const csi::SnapshotCondition& one : status.conditions) {
    rows.push_back({one.type, one.holds ? "True" : "False", one.reason,
                    SnapshotTimeText(one.last_transition_time), one.message});
  }
  return ShownSection("Conditions", {"TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"}, rows, "none");
}

std::string KeptText(absl::string_view heading, const std::vector<Finding>& protections,
                     bool is_checked) {
  TableRows rows;
  rows.reserve(protections.size());
  for (const Finding& one : protections) {
    rows.push_back({std::string(one.code), one.message});
  }
  return ShownSection(heading, {}, rows, is_checked ? "by nothing" : "by nothing that may be read");
}

std::string EventsText(const std::optional<std::vector<Event>>& events) {
  TableRows rows;
  for (const Event& one : events.value_or(std::vector<Event>())) {
    rows.push_back({SnapshotTimeText(one.last_seen_at()), one.type(), one.reason(),
                    absl::StrCat(one.count()), one.reporter(), one.message()});
  }
  return ShownSection("Events", {"LAST SEEN", "TYPE", "REASON", "COUNT", "FROM", "MESSAGE"}, rows,
                      events.has_value() ? "none" : "not checked");
}

Json EventsJson(const std::vector<Event>& events) {
  Json list = Json::array();
  for (const Event& one : events) {
    list.push_back({{"time", OrNull(one.last_seen_at())},
                    {"type", one.type()},
                    {"reason", one.reason()},
                    {"count", one.count()},
                    {"reporter", one.reporter()},
                    {"message", one.message()}});
  }
  return list;
}

// The object of `snapshot list`, with further members.
Json ToJson(const Shown& shown) {
  const SnapshotEntry& entry = shown.entry;
  const bool is_read = entry.content_kind != csi::ContentReading::Kind::kUnknown;
  Json value = cli::ToJson(entry);
  value["uid"] = entry.uid;
  value["made_by_verbs"] = entry.is_made_by_verbs;
  value["binding"] = {{"content", entry.content},
                      {"content_names", entry.content_names},
                      {"both_ways", is_read ? Json(entry.is_named_by_content) : Json()}};
  value["data_if_deleted"] = std::string(snapshots::ToString(snapshots::ActionOf(entry, false)));
  value["kept_for_person"] = ProtectionsJson(entry.kept_for_person);
  value["events"] = shown.events.has_value() ? EventsJson(*shown.events) : Json();
  return value;
}

class SnapshotShowCommand : public ClusterCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override {
    table.AddPositional("NAME", "the VolumeSnapshot", name_);
    return {.name = "snapshot show",
            .summary = "Show one VolumeSnapshot: conditions, times, binding, what keeps it, events",
            .details =
                "Uses your own rights: what they do not allow to read is named on stderr and left "
                "empty.",
            .examples = {"snapshot show monday -n shop", "snapshot show monday -n shop -o yaml"}};
  }

  absl::StatusOr<ExitCode> Work() override {
    ASSIGN_OR_RETURN(const std::string space, OneNamespace(cluster(), "snapshot show"));
    ASSIGN_OR_RETURN(const std::string name, SnapshotNameOf(name_));
    ASSIGN_OR_RETURN(snapshots::Inventory inventory,
                     snapshots::ReadInventory(ctx(), api(),
                                              {.namespace_name = space,
                                               .label_selector = "",
                                               .names = {name},
                                               .mover_namespace = cluster().mover_namespace,
                                               .now = ctx().clock->Now()}));
    const auto found = std::find_if(inventory.entries.begin(), inventory.entries.end(),
                                    [&](const SnapshotEntry& entry) { return entry.name == name; });
    if (found == inventory.entries.end()) {
      return NoSuchSnapshots(space, {name}, inventory.entries);
    }
    Shown shown{
        .entry = std::move(*found), .is_checked = inventory.not_checked.empty(), .events = {}};
    ASSIGN_OR_RETURN(shown.events, Events(shown.entry, inventory.not_checked));
    console().InfoAll(inventory.not_checked);
    Print(shown);
    return ExitCode::kOk;
  }

 private:
  // Nothing, and a sentence for `not_checked`, where they may not be listed.
  absl::StatusOr<std::optional<std::vector<Event>>> Events(
      const SnapshotEntry& entry, std::vector<std::string>& not_checked) const {
    absl::StatusOr<std::vector<Event>> events =
        objects::ReadEvents(ctx(), api(), entry.namespace_name, entry.uid);
    if (absl::IsPermissionDenied(events.status())) {
      not_checked.push_back(absl::StrCat("events not checked: ", events.status().message()));
      return std::optional<std::vector<Event>>();
    }
    RETURN_IF_ERROR(events.status());
    return std::optional<std::vector<Event>>(*std::move(events));
  }

  void Print(const Shown& shown) const {
    const SnapshotEntry& entry = shown.entry;
    PrintClusterResult(session(),
                       {.value = ToJson(shown),
                        .table = absl::StrCat(
                            SnapshotFields(entry), ConditionsText(entry.status),
                            KeptText("Kept from delete", entry.kept_for_person, shown.is_checked),
                            KeptText("Kept from prune", entry.kept_for, shown.is_checked),
                            EventsText(shown.events)),
                        .names = {SnapshotResourceName(entry.name)}});
  }

  std::string name_;
};

}  // namespace

void AddSnapshotShowCommand(Commands& all) { AddEach<SnapshotShowCommand>(all); }

}  // namespace csidelta::cli
