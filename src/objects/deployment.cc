#include "objects/deployment.h"

#include <utility>

#include "base/quantity.h"

namespace csidelta::objects {

std::vector<DeployedContainer> Deployment::ContainersAt(absl::string_view field) const {
  std::vector<DeployedContainer> containers;
  for (const Json& json : ArrayAt({"spec", "template", "spec", field})) {
    DeployedContainer container{.image = GetString(json, {"image"}), .arguments = {}};
    if (const auto limit = ParseQuantity(GetString(json, {"resources", "limits", "memory"}));
        limit.ok()) {
      container.memory_limit_bytes = *limit;
    }
    for (const char* const list : {"command", "args"}) {
      for (const Json& argument : JsonArrayAt(json, {list})) {
        container.arguments.push_back(argument.is_string() ? argument.get<std::string>() : "");
      }
    }
    containers.push_back(std::move(container));
  }
  return containers;
}

}  // namespace csidelta::objects
