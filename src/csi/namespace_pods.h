#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "csi/once_map.h"
#include "k8s/api_client.h"
#include "objects/workload.h"

namespace csidelta::csi {

// The Pods that name PVCs among their volumes, listed once for each backup and namespace. Of each
// no more than Essence() is kept. Thread-safe.
class NamespacePods {
 public:
  explicit NamespacePods(k8s::ApiClient& api) : api_(api) {}

  absl::StatusOr<std::shared_ptr<const std::vector<objects::Pod>>> Get(
      const CallContext& ctx, const std::string& backup_uid, const std::string& namespace_name);

 private:
  k8s::ApiClient& api_;
  OnceMap<std::vector<objects::Pod>> pods_{32};
};

}  // namespace csidelta::csi
