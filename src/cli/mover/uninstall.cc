#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/human_text.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "cli/cluster_verb.h"
#include "cli/command.h"
#include "cli/location_store.h"
#include "datamover/controller/service.h"
#include "datamover/controller/uninstall.h"

namespace csidelta::cli {
namespace {

using datamover::UninstallItem;
using datamover::UninstallPlan;

absl::Status StillRunning(const std::vector<UninstallItem>& running) {
  const UninstallItem& one = running.front();
  return absl::FailedPreconditionError(absl::StrCat(
      "the data mover is at work: ", one.kind, " ", one.name, " (",
      one.text.empty() ? "New" : one.text, running.size() == 1 ? ")" : "), and more",
      "; wait until csi-delta status is empty, or set spec.cancel of the DataUploads and "
      "DataDownloads, then run this again"));
}

class UninstallCommand : public MoverCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override;
  absl::StatusOr<ExitCode> Work() override;

 private:
  absl::Status CheckDeletion(const std::string& own) const;
  // How many steps failed. Without --yes it only announces them.
  int64_t CarryOut(const UninstallPlan& plan) const;
  std::string Summary(int64_t objects, int64_t failed) const;
  void ReportItem(absl::string_view action, const UninstallItem& item,
                  absl::string_view error) const;

  datamover::UninstallRequest request_;
  std::string delete_data_of_;
  bool keep_data_ = false;
  bool yes_ = false;
};

VerbSyntax UninstallCommand::Describe(ArgumentTable& table) {
  table.Add("--delete-data", "CLUSTER",
            "also delete what this cluster stored in the buckets, and its keys; CLUSTER is the uid "
            "of this cluster, which a run without --yes prints",
            delete_data_of_);
  table.Add("--keep-data", "keep data and keys (default: yes)", keep_data_);
  table.Add("--yes", "do it (default: only print what would be done)", yes_);
  return {
      .name = "uninstall",
      .summary = "Remove from a cluster what the data mover made in it",
      .details =
          "Removes base snapshots and the driver's snapshots behind them, tasks and their Pods and "
          "PVCs, finalizers on DataUploads and DataDownloads, DataDeletions and ProtectedVolumes. "
          "Data that this cluster stored in the buckets stays, with its keys, so that other "
          "clusters can restore it. Refuses while volumes are being moved. Run it before or after "
          "helm uninstall, which removes the rest; it lists what is left, and may be run again.",
      .examples = {"uninstall  # prints what would go", "uninstall --keep-data --yes"}};
}

absl::StatusOr<ExitCode> UninstallCommand::Work() {
  ASSIGN_OR_RETURN(request_.velero_namespaces,
                   datamover::ParseVeleroNamespaces(cluster().velero_namespaces));
  request_.open_store = [this](const datamover::RepositoryAccess& access) {
    return OpenLocationStore(session().environment(), access);
  };
  ASSIGN_OR_RETURN(const std::string own, datamover::ReadClusterUid(ctx(), api()));
  RETURN_IF_ERROR(CheckDeletion(own));
  request_.keep_data = delete_data_of_.empty();
  // They may name the credentials that delete; an uninstallation does not need them otherwise.
  const absl::StatusOr<datamover::MoverSettings> settings =
      datamover::ReadMoverSettings(ctx(), api(), cluster().mover_namespace);
  if (!request_.keep_data) {
    RETURN_IF_ERROR(settings.status());
  }
  const datamover::MoverEnvironment env = {
      .api = api(),
      .random = random(),
      .secure_random = SecureRandom::Real(),
      .mover_namespace = cluster().mover_namespace,
      .cluster = own,
      .image = "",
      .worker_service_account = "",
      .settings = settings.value_or(datamover::MoverSettings())};
  ASSIGN_OR_RETURN(const UninstallPlan plan, datamover::PlanUninstall(ctx(), env, request_));
  if (!plan.running.empty()) {
    return StillRunning(plan.running);
  }
  const int64_t failed = CarryOut(plan);
  for (const UninstallItem& item : plan.stays) {
    ReportItem("stays", item, "");
  }
  console().PrintResult({{"message_type", "result"},
                         {"dry_run", !yes_},
                         {"things", plan.steps.size()},
                         {"failed", failed}},
                        Summary(static_cast<int64_t>(plan.steps.size()), failed));
  return failed == 0 ? ExitCode::kOk : ExitCode::kIncomplete;
}

absl::Status UninstallCommand::CheckDeletion(const std::string& own) const {
  if (delete_data_of_.empty()) {
    return absl::OkStatus();
  }
  if (keep_data_) {
    return absl::InvalidArgumentError("--keep-data and --delete-data exclude each other");
  }
  return delete_data_of_ == own ? absl::OkStatus()
                                : absl::InvalidArgumentError(
                                      absl::StrCat("--delete-data names cluster ", delete_data_of_,
                                                   ", and this is ", own, ": nothing was done"));
}

int64_t UninstallCommand::CarryOut(const UninstallPlan& plan) const {
  if (!yes_) {
    for (const UninstallPlan::Step& step : plan.steps) {
      ReportItem("goes", step.item, "");
    }
    return 0;
  }
  int64_t failed = 0;
  datamover::CarryOut(ctx(), api(), plan,
                      [&](const UninstallItem& item, const absl::Status& status) {
                        failed += status.ok() ? 0 : 1;
                        ReportItem(status.ok() ? "gone" : "failed", item, status.message());
                      });
  return failed;
}

std::string UninstallCommand::Summary(int64_t objects, int64_t failed) const {
  if (objects == 0) {
    return "nothing to remove\n";
  }
  if (!yes_) {
    return absl::StrCat("would remove ", Counted(objects, "object"), "; run it again with --yes\n");
  }
  return absl::StrCat("removed ", Counted(objects - failed, "object"), ", ", failed, " failed",
                      failed == 0 ? "\n" : ": run it again\n");
}

void UninstallCommand::ReportItem(absl::string_view action, const UninstallItem& item,
                                  absl::string_view error) const {
  console().PrintResult(
      {{"message_type", "thing"},
       {"fate", std::string(action)},
       {"kind", item.kind},
       {"name", item.name},
       {"text", item.text},
       {"error", std::string(error)}},
      absl::StrCat(action, "  ", item.kind, " ", item.name, item.text.empty() ? "" : ": ",
                   item.text, error.empty() ? "" : ": ", error, "\n"));
}

}  // namespace

void AddUninstallCommand(Commands& all) { AddEach<UninstallCommand>(all); }

}  // namespace csidelta::cli
