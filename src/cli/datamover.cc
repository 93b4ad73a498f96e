#include <utility>

#include "base/log.h"
#include "base/status_macros.h"
#include "cli/cluster_access.h"
#include "cli/command.h"
#include "cli/datamover_service.h"

namespace csidelta::cli {
namespace {

class DatamoverCommand : public Command {
 public:
  VerbSyntax Declare() override {
    ArgumentTable table;
    DeclareMoverPlaces(table, settings_.mover_namespace, settings_.velero_namespaces);
    table.Add("--image", "IMAGE", "what worker Pods run: the image that holds this program",
              settings_.image);
    table.Add("--listen", "ADDR:PORT",
              "where to answer /healthz, /readyz and /metrics; default 0.0.0.0:8080",
              settings_.listen);
    table.Add("--worker-service-account", "NAME",
              "whom worker Pods run as; default csi-delta-worker",
              settings_.worker_service_account);
    cluster_.Declare(table);
    return {.name = "datamover",
            .summary = "Move the volumes that Velero's DataUploads and DataDownloads name",
            .details =
                "Runs in the cluster until it is stopped. Takes the DataUploads and DataDownloads "
                "whose data mover is csi-delta, has a worker Pod read or fill each volume, and "
                "tells Velero how far it is. Several may run: one writes, the others wait. Logs to "
                "stderr, a JSON object per line.",
            .table = std::move(table)};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session&) override {
    SetLogLevel(LogLevel::kInfo);
    const std::unique_ptr<k8s::ApiClient> api = cluster_.MakeClient();
    RETURN_IF_ERROR(RunDatamoverService(ctx, *api, settings_));
    return ExitCode::kOk;
  }

 private:
  ClusterAccess cluster_;
  DatamoverSettings settings_{.mover_namespace = "csi-delta",
                              .velero_namespaces = "velero",
                              .image = "",
                              .worker_service_account = "csi-delta-worker",
                              .listen = "0.0.0.0:8080"};
};

}  // namespace

std::unique_ptr<Command> MakeDatamoverCommand() { return std::make_unique<DatamoverCommand>(); }

}  // namespace csidelta::cli
