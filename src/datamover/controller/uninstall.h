#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "datamover/mover_environment.h"
#include "datamover/repository_access.h"
#include "k8s/api_client.h"

// What the data mover brought into a cluster, and taking it out: all but what Helm knows of.
namespace csidelta::datamover {

struct UninstallRequest {
  std::vector<std::string> velero_namespaces;
  bool keep_data = true;  // buckets and keys stay as they are
  StoreOpener open_store;
};

// One thing that is in the way, goes or stays.
struct UninstallItem {
  std::string kind;  // as in its object, or "data"
  std::string name;  // "velero/nightly-1"
  std::string text;  // how it is, or what to do about it; may be ""
};

struct UninstallPlan {
  struct Step {
    UninstallItem item;
    std::function<absl::Status(const CallContext& ctx)> act;  // does no harm when done already
    std::optional<k8s::ObjectKey> until_gone = {};  // what another controller then removes
  };

  std::vector<UninstallItem> running;  // must end first; then nothing else is known
  std::vector<Step> steps;             // to be made in this order
  std::vector<UninstallItem> stays;
};

// What there is to remove now. Whatever is not over is `running` while a process may be at it: a
// controller that leads, or a worker Pod. Without one it is given up instead.
//
// Data and keys stay unless `keep_data` is false. Keys go only with the data that they open: where
// data of this cluster stays, or may be where it cannot be looked for, they stay. Data of other
// clusters in the same bucket is not csi-delta's. What belongs to a Velero in another namespace
// than those asked for stays, too.
//
// FAILED_PRECONDITION when the cluster cannot be told from others; errors of the API server. Writes
// nothing. The plan borrows `env`.
absl::StatusOr<UninstallPlan> PlanUninstall(const CallContext& ctx, const MoverEnvironment& env,
                                            const UninstallRequest& request);

// How one step ended.
using UninstallSink = std::function<void(const UninstallItem& item, const absl::Status& status)>;

// Makes all steps, also after one that failed, and waits a while for what others then remove; each
// is told to `sink` once. REQUIRES a plan in which nothing is running.
void CarryOut(const CallContext& ctx, k8s::ApiClient& api, const UninstallPlan& plan,
              const UninstallSink& sink);

}  // namespace csidelta::datamover
