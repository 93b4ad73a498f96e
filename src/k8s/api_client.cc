#include "k8s/api_client.h"

#include "absl/strings/str_cat.h"

namespace csidelta::k8s {

std::string ToString(const ResourceType& type) {
  return type.group.empty() ? type.plural : absl::StrCat(type.plural, ".", type.group);
}

std::string ToString(const ObjectKey& key) {
  return absl::StrCat(ToString(key.type), " ", key.namespace_name,
                      key.namespace_name.empty() ? "" : "/", key.name);
}

}  // namespace csidelta::k8s
