#include <malloc.h>

#include <cstdint>
#include <memory>

#include "base/log.h"
#include "base/status_macros.h"
#include "cli/cluster_access.h"
#include "cli/command.h"
#include "datamover/controller/service.h"
#include "k8s/config.h"
#include "k8s/reconcile_loop.h"
#include "k8s/rest_client.h"

namespace csidelta::cli {
namespace {

constexpr int64_t kRequestsPerSecondMax = 10'000;
constexpr int64_t kConcurrentReconcilesMax = 64;
// There are sixty threads, most of which wait: more would leave each with memory of its own that
// it seldom needs, the more the more cores a node has.
constexpr int kMallocArenasMax = 2;

class DatamoverCommand : public Command {
 public:
  VerbSyntax Describe(ArgumentTable& table) override {
    // The chart writes these: they keep their names.
    table.Add("-n,--namespace", "NS", "the mover's namespace", settings_.mover_namespace);
    table.Add("--velero-namespaces", "NS[,NS]", "the namespaces of its Veleros",
              settings_.velero_namespaces);
    table.Add("--image", "IMAGE", "what worker Pods run: the image that holds this program",
              settings_.image);
    table.Add("--listen", "ADDR:PORT", "where to answer /healthz, /readyz and /metrics",
              settings_.listen);
    table.Add("--worker-service-account", "NAME", "the ServiceAccount of worker Pods",
              settings_.worker_service_account);
    table.AddNumber("--requests-per-second", "N",
                    "requests to the API server without watches, sustained and in a burst", 1,
                    kRequestsPerSecondMax, requests_per_second_);
    table.AddNumber("--concurrent-reconciles", "N",
                    "objects of one kind that are reconciled at the same time", 1,
                    kConcurrentReconcilesMax, settings_.concurrent_reconciles);
    cluster_.Declare(table);
    return {
        .name = "datamover",
        .summary = "Move the volumes that Velero's DataUploads and DataDownloads name",
        .details =
            "Runs in the cluster until it is stopped. Processes the DataUploads and DataDownloads "
            "whose data mover is csi-delta: a worker Pod reads or fills each volume, and Velero "
            "sees the progress. With several replicas one leads and the others wait. Logs to "
            "stderr, one JSON object per line.",
        .examples = {"datamover --image IMAGE", "datamover --image IMAGE --namespace mover"}};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session&) override {
    SetLogLevel(LogLevel::kInfo);
    mallopt(M_ARENA_MAX, kMallocArenasMax);
    k8s::ClientSettings client = cluster_.Settings();
    client.qps = static_cast<double>(requests_per_second_);
    client.burst = static_cast<int>(requests_per_second_);
    const std::unique_ptr<k8s::ApiClient> api = k8s::MakeClient(client);
    RETURN_IF_ERROR(datamover::RunService(ctx, *api, settings_));
    return ExitCode::kOk;
  }

 private:
  ClusterAccess cluster_;
  int64_t requests_per_second_ = k8s::kRequestsPerSecond;
  datamover::ServiceSettings settings_{.mover_namespace = "csi-delta",
                                       .velero_namespaces = "velero",
                                       .image = "",
                                       .worker_service_account = "csi-delta-worker",
                                       .listen = "0.0.0.0:8080",
                                       .concurrent_reconciles = k8s::kConcurrentReconciles};
};

}  // namespace

void AddDatamoverCommand(Commands& all) { AddEach<DatamoverCommand>(all); }

}  // namespace csidelta::cli
