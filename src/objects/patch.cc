#include "objects/patch.h"

#include <algorithm>
#include <iterator>

namespace csidelta::objects {

Patch& Patch::SetLabels(const std::map<std::string, std::string>& labels) {
  for (const auto& [key, value] : labels) {
    SetLabel(key, value);
  }
  return *this;
}

Patch& Patch::SetAnnotations(const std::map<std::string, std::string>& annotations) {
  for (const auto& [key, value] : annotations) {
    SetAnnotation(key, value);
  }
  return *this;
}

Patch& Patch::SetOwners(const std::vector<OwnerReference>& owners) {
  Json list = Json::array();
  std::transform(owners.begin(), owners.end(), std::back_inserter(list), ToJson);
  return Set({"metadata", "ownerReferences"}, std::move(list));
}

}  // namespace csidelta::objects
