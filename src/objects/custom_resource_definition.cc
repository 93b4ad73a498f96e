#include "objects/custom_resource_definition.h"

#include <algorithm>

#include "absl/strings/str_split.h"

namespace csidelta::objects {

bool CustomResourceDefinition::Declares(absl::string_view version, absl::string_view part,
                                        absl::string_view member) const {
  const Json& versions = ArrayAt({"spec", "versions"});
  return std::any_of(versions.begin(), versions.end(), [&](const Json& one) {
    const Json* schema = FindJson(one, {"schema", "openAPIV3Schema", "properties", part});
    for (const absl::string_view name : absl::StrSplit(member, '.')) {
      schema = schema == nullptr ? nullptr : FindJson(*schema, {"properties", name});
    }
    return GetString(one, {"name"}) == version && schema != nullptr;
  });
}

}  // namespace csidelta::objects
