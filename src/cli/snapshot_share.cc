#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/cluster_verb.h"
#include "cli/command.h"
#include "cli/snapshot_text.h"
#include "cli/text.h"
#include "csi/snapshot_state.h"
#include "snapshots/snapshot_share.h"

namespace csidelta::cli {
namespace {

using objects::VolumeSnapshot;

constexpr absl::Duration kShareTimeout = absl::Minutes(1);

class SnapshotShareCommand : public Command {
 public:
  VerbSyntax Declare() override {
    ArgumentTable table;
    table.AddWord("NAME", "the VolumeSnapshot", word_);
    table.Add("--to", "NS", "the namespace whose people may use it; required",
              request_.namespace_name);
    table.Add("--name", "NAME", "of the VolumeSnapshot there; as this one", request_.name);
    table.AddWait("--timeout", "how long to wait until it can be used there; 1m", timeout_);
    table.Add("--dry-run", "check all, and print what would be made", dry_run_);
    return {
        .name = "snapshot share",
        .summary = "Let people of another namespace use a VolumeSnapshot",
        .details =
            "Makes a VolumeSnapshot there of the same snapshot of the storage, for PVCs and "
            "promote. Takes the ClusterRole csi-delta-snapshot-admin, and the right to read "
            "the VolumeSnapshot here. The data stays in this namespace: delete and prune "
            "keep it for as long as it is shared, and name the namespaces that share it. "
            "To end sharing, run snapshot delete there: it deletes no data. A second run changes "
            "nothing.",
        .table = std::move(table),
        .family = VerbFamily::kCluster};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    if (request_.namespace_name.empty()) {
      return MissingFlag("--to", "the namespace whose people may use it");
    }
    ASSIGN_OR_RETURN(request_.snapshot_name, SnapshotNameOf(word_));
    ASSIGN_OR_RETURN(request_.source_namespace,
                     OneNamespace(session.options().cluster, "snapshot share"));
    const std::unique_ptr<k8s::ApiClient> api = session.options().cluster.access.MakeClient();
    ASSIGN_OR_RETURN(const snapshots::SharePlan plan, snapshots::PlanShare(ctx, *api, request_));
    if (dry_run_) {
      Tell(session, plan, "Planned");
      return ExitCode::kOk;
    }
    ASSIGN_OR_RETURN(
        const VolumeSnapshot shared,
        snapshots::CarryOutShare(ctx.WithTimeout(timeout_.value_or(kShareTimeout)), *api, plan));
    Tell(session, plan, std::string(csi::ToString(csi::StatusOf(shared, {}).state)));
    return ExitCode::kOk;
  }

 private:
  static void Tell(Session& session, const snapshots::SharePlan& plan, const std::string& state) {
    const snapshots::StaticPair& pair = plan.pair;
    const std::string owner = absl::StrCat(plan.source.namespace_name(), "/", plan.source.name());
    PrintClusterResult(
        session, {.value = {{"name", pair.snapshot_name},
                            {"namespace", pair.namespace_name},
                            {"state", state},
                            {"content", pair.content_name},
                            {"driver", pair.driver},
                            {"handle", pair.handle},
                            {"shared_from", owner},
                            {"was_there", plan.was_begun}},
                  .table = FormatTable(
                      {{"NAME", "NAMESPACE", "STATE", "SHARED FROM", "CONTENT"},
                       {pair.snapshot_name, pair.namespace_name, state, owner, pair.content_name}}),
                  .names = {SnapshotResourceName(pair.snapshot_name)}});
  }

  snapshots::ShareRequest request_;
  std::string word_;
  std::optional<absl::Duration> timeout_;
  bool dry_run_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeSnapshotShareCommand() {
  return std::make_unique<SnapshotShareCommand>();
}

}  // namespace csidelta::cli
