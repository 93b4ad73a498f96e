#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "cli/cluster_verb.h"
#include "cli/command.h"
#include "cli/longhorn_needs.h"
#include "cli/longhorn_text.h"
#include "cli/snapshot_text.h"
#include "cli/text.h"
#include "longhorn/snapshot_inventory.h"

namespace csidelta::cli {
namespace {

std::vector<std::string> LonghornColumns(bool is_wide) {
  std::vector<std::string> columns = {"VOLUME", "PVC", "NAME",  "TAKEN",
                                      "SIZE",   "JOB", "STATE", "KEPT FOR"};
  if (is_wide) {
    columns.insert(columns.end(), {"PARENT", "CHILDREN", "REMOVED", "USER", "CREATE", "READY",
                                   "RESTORE SIZE", "REQUESTED", "ERROR"});
  }
  return columns;
}

std::string LonghornKeptFor(const longhorn::SnapshotEntry& entry) {
  return absl::StrJoin(entry.kept_for, ",", [](std::string* out, const longhorn::Protection& one) {
    absl::StrAppend(out, longhorn::ToString(one.reason));
  });
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
                                  LonghornKeptFor(entry)};
  if (is_wide) {
    row.insert(row.end(), {entry.parent, absl::StrJoin(entry.children, ","),
                           yes_or_no(entry.is_marked_removed), yes_or_no(entry.is_user_created),
                           yes_or_no(entry.is_to_be_taken), yes_or_no(entry.is_ready),
                           FormatBytes(entry.restore_size_bytes),
                           SnapshotTimeText(entry.requested_at), entry.error});
  }
  return row;
}

class LonghornListCommand : public Command {
 public:
  VerbSyntax Declare() override {
    ArgumentTable table;
    flags_.Declare(table);
    return {.name = "longhorn list",
            .summary = "List Longhorn's Snapshots, of which job they are, and what keeps them",
            .details =
                "Works in Longhorn's namespace: longhorn-system, or what -n says. Takes the "
                "caller's own rights; what may not be read is named on stderr and left empty. The "
                "oldest of a volume comes first.",
            .table = std::move(table),
            .family = VerbFamily::kCluster};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    const ClusterOptions& cluster = session.options().cluster;
    ASSIGN_OR_RETURN(const std::string space, LonghornNamespace(cluster, "longhorn list"));
    ASSIGN_OR_RETURN(const longhorn::Selection selection, flags_.Select(ctx.clock->Now()));
    const std::unique_ptr<k8s::ApiClient> api = cluster.access.MakeClient();
    ASSIGN_OR_RETURN(
        const longhorn::Inventory inventory,
        ReadLonghorn(ctx, *api, {.namespace_name = space, .volume = selection.volume}));
    RETURN_IF_ERROR(CheckSelection(inventory, selection));
    std::vector<const longhorn::SnapshotEntry*> chosen;
    for (const longhorn::SnapshotEntry& entry : inventory.snapshots) {
      if (longhorn::IsSelected(inventory, entry, selection)) {
        chosen.push_back(&entry);
      }
    }
    for (const std::string& sentence : inventory.not_checked) {
      session.console().Note(Printable(sentence));
    }
    Print(session, inventory, chosen);
    return ExitCode::kOk;
  }

 private:
  static void Print(Session& session, const longhorn::Inventory& inventory,
                    const std::vector<const longhorn::SnapshotEntry*>& chosen) {
    const bool is_wide = OutputForm(session) == "wide";
    if (chosen.empty() && AsksForTable(session)) {
      session.console().Note(
          absl::StrCat("no Snapshots of Longhorn found in namespace ", inventory.namespace_name));
    }
    PrintClusterList(
        session, {.count = chosen.size(),
                  .columns = LonghornColumns(is_wide),
                  .row = [&](std::size_t i) { return LonghornRow(inventory, *chosen[i], is_wide); },
                  .value = [&](std::size_t i) { return longhorn::ToJson(inventory, *chosen[i]); },
                  .name = [&](std::size_t i) { return LonghornSnapshotName(chosen[i]->name); }});
  }

  LonghornFlags flags_;
};

}  // namespace

std::unique_ptr<Command> MakeLonghornListCommand() {
  return std::make_unique<LonghornListCommand>();
}

}  // namespace csidelta::cli
