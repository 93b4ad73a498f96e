#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "tests/host/gated_client.h"
#include "tests/support/api_test_server.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_snapshot_cluster.h"

namespace csidelta::host {

// One cluster on a port of its own: an API server in memory with its controllers and a driver. The
// plugin and the part of Velero have a kubeconfig each, "plugin.conf" and "velero.conf" in
// `folder`.
class HostedCluster {
 public:
  // `options`: groups ("v1", "v1beta2", "v1beta1", or "" for a cluster without the kinds),
  // driver_groups, lag_ms, retry_ms, driver, tls (true unless said).
  HostedCluster(const std::string& folder, const Json& options);

  // Answers one request of the control socket; `request.op` says which.
  absl::StatusOr<Json> Answer(const Json& request);

 private:
  absl::StatusOr<Json> Load(const Json& request);
  absl::StatusOr<Json> Dump(const Json& request) const;
  absl::StatusOr<Json> Delete(const Json& request);
  absl::StatusOr<Json> DriverState() const;
  absl::StatusOr<Json> AddRule(const Json& request);
  absl::StatusOr<Json> AddDriverFault(const Json& request);

  support::FakeApiClient api_;
  support::FakeSnapshotCluster programs_{api_};
  GatedClient gate_{api_};
  std::unique_ptr<support::ApiTestServer> server_;
};

}  // namespace csidelta::host
