#include "objects/custom_resource_definition.h"

#include <algorithm>

namespace csidelta::objects {

bool CustomResourceDefinition::Declares(absl::string_view version, absl::string_view part,
                                        absl::string_view member) const {
  const Json& versions = ArrayAt({"spec", "versions"});
  return std::any_of(versions.begin(), versions.end(), [&](const Json& one) {
    return GetString(one, {"name"}) == version &&
           FindJson(one, {"schema", "openAPIV3Schema", "properties", part, "properties", member}) !=
               nullptr;
  });
}

}  // namespace csidelta::objects
