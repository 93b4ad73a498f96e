#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "objects/object.h"

namespace csidelta::objects {

// What a Deployment runs in each of its Pods.
struct DeployedContainer {
  std::string image;
  std::vector<std::string> arguments;  // command, then args
  std::optional<int64_t> memory_limit_bytes = {};
};

class Deployment : public ObjectOf<Deployment> {
 public:
  static constexpr KindName kKind = {"apps", "v1", "deployments", "Deployment"};

  std::vector<DeployedContainer> containers() const { return ContainersAt("containers"); }
  std::vector<DeployedContainer> init_containers() const { return ContainersAt("initContainers"); }
  int64_t available_replicas() const { return Number({"status", "availableReplicas"}); }

 private:
  std::vector<DeployedContainer> ContainersAt(absl::string_view field) const;
};

}  // namespace csidelta::objects
