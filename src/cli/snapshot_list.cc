#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/yaml.h"
#include "cli/command.h"
#include "cli/text.h"
#include "csi/snapshot_inventory.h"
#include "csi/snapshot_origin.h"

namespace csidelta::cli {
namespace {

using csi::SnapshotEntry;

std::string TimeText(const std::optional<absl::Time>& time) {
  return time.has_value() ? absl::FormatTime("%Y-%m-%d %H:%M:%S", *time, absl::LocalTimeZone())
                          : "";
}

std::string KeptFor(const SnapshotEntry& entry) {
  std::vector<std::string> reasons;
  for (const csi::Protection& one : entry.kept_for) {
    reasons.emplace_back(csi::ToString(one.reason));
  }
  return absl::StrJoin(reasons, ",");
}

std::vector<std::string> RowOf(const SnapshotEntry& entry, bool with_namespace, bool is_wide) {
  std::vector<std::string> row;
  if (with_namespace) {
    row.push_back(entry.namespace_name);
  }
  row.insert(row.end(),
             {entry.name, entry.pvc, absl::StrJoin(entry.used_by, ","),
              std::string(csi::ToString(entry.status.state)), TimeText(entry.status.taken_at),
              entry.restore_size_bytes.has_value() ? FormatBytes(*entry.restore_size_bytes) : "",
              entry.class_name, KeptFor(entry)});
  if (is_wide) {
    row.insert(row.end(),
               {entry.driver, entry.handle, entry.content, entry.deletion_policy, entry.set});
  }
  return row;
}

std::string Table(const std::vector<SnapshotEntry>& entries, bool with_namespace, bool is_wide) {
  std::vector<std::string> head;
  if (with_namespace) {
    head.emplace_back("NAMESPACE");
  }
  head.insert(head.end(),
              {"NAME", "PVC", "USED BY", "STATE", "TAKEN", "SIZE", "CLASS", "KEPT FOR"});
  if (is_wide) {
    head.insert(head.end(), {"DRIVER", "HANDLE", "CONTENT", "POLICY", "SET"});
  }
  std::vector<std::vector<std::string>> rows = {std::move(head)};
  for (const SnapshotEntry& entry : entries) {
    rows.push_back(RowOf(entry, with_namespace, is_wide));
  }
  return FormatTable(rows);
}

class SnapshotListCommand : public Command {
 public:
  VerbSyntax Declare() override {
    ArgumentTable table;
    table.Add("--pvc", "PVC", "only those of this PVC", pvc_);
    table.Add("--pod", "POD", "only those of the PVCs of this Pod, or taken of it", pod_);
    table.Add("--statefulset", "NAME",
              "only those of the PVCs of this StatefulSet, or taken of it; also of PVCs that are "
              "gone",
              stateful_set_);
    table.Add("--volume", "PV",
              "only those of this PersistentVolume, also when its PVC is gone; of one that is gone "
              "itself, its volume handle",
              volume_);
    table.Add("--set", "SET", "only those that were taken together under this name", set_);
    table.AddChoice("--state", States(), "only those in this state", state_);
    table.Add("--mover-namespace", "NS", "the mover's namespace; csi-delta", mover_namespace_);
    return {.name = "snapshot list",
            .summary = "List VolumeSnapshots, their state, and what keeps them",
            .details =
                "Takes the caller's own rights; what may not be read is named on stderr and "
                "left empty.",
            .table = std::move(table),
            .family = VerbFamily::kCluster};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    const ClusterOptions& cluster = session.options().cluster;
    ASSIGN_OR_RETURN(const std::string space, cluster.Namespace());
    const std::unique_ptr<k8s::ApiClient> api = cluster.access.MakeClient();
    ASSIGN_OR_RETURN(const csi::SnapshotOrigin origin,
                     csi::FindOrigin(ctx, *api,
                                     {.namespace_name = space,
                                      .pod = pod_,
                                      .stateful_set = stateful_set_,
                                      .volume = volume_}));
    ASSIGN_OR_RETURN(csi::Inventory inventory,
                     csi::ReadInventory(ctx, *api,
                                        {.namespace_name = space,
                                         .label_selector = cluster.selector,
                                         .mover_namespace = mover_namespace_,
                                         .now = ctx.clock->Now()}));
    std::erase_if(inventory.entries, [&](const SnapshotEntry& entry) {
      return !IsAskedFor(entry) || !origin.is_of(entry);
    });
    NoteAll(session, origin.not_checked);
    NoteAll(session, inventory.not_checked);
    Print(session, inventory.entries);
    return ExitCode::kOk;
  }

 private:
  static std::vector<std::string> States() {
    std::vector<std::string> names;
    for (const auto state :
         {csi::SnapshotState::kCreating, csi::SnapshotState::kUploading, csi::SnapshotState::kReady,
          csi::SnapshotState::kError, csi::SnapshotState::kDeleting, csi::SnapshotState::kLost,
          csi::SnapshotState::kUnverified}) {
      names.emplace_back(csi::ToString(state));
    }
    return names;
  }

  static void NoteAll(Session& session, const std::vector<std::string>& sentences) {
    for (const std::string& sentence : sentences) {
      session.console().Note(sentence);
    }
  }

  bool IsAskedFor(const SnapshotEntry& entry) const {
    return (pvc_.empty() || entry.pvc == pvc_) && (set_.empty() || entry.set == set_) &&
           (state_.empty() || csi::ToString(entry.status.state) == state_);
  }

  void Print(Session& session, const std::vector<SnapshotEntry>& entries) const {
    const ClusterOptions& cluster = session.options().cluster;
    Console& console = session.console();
    Json list = Json::array();
    for (const SnapshotEntry& entry : entries) {
      list.push_back(csi::ToJson(entry));
    }
    if (console.options().json || cluster.output == "json") {
      console.PrintJson(list);
    } else if (cluster.output == "yaml") {
      console.Print(ToYaml(list));
    } else if (cluster.output == "name") {
      for (const SnapshotEntry& entry : entries) {
        console.Print(absl::StrCat("volumesnapshot.snapshot.storage.k8s.io/", entry.name, "\n"));
      }
    } else if (entries.empty()) {
      console.Note("no VolumeSnapshots found");
    } else {
      console.Print(Table(entries, cluster.all_namespaces, cluster.output == "wide"));
    }
  }

  std::string pvc_;
  std::string pod_;
  std::string stateful_set_;
  std::string volume_;
  std::string set_;
  std::string state_;
  std::string mover_namespace_ = "csi-delta";
};

}  // namespace

std::unique_ptr<Command> MakeSnapshotListCommand() {
  return std::make_unique<SnapshotListCommand>();
}

}  // namespace csidelta::cli
