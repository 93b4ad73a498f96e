#include "k8s/object.h"

#include "base/rfc3339.h"

namespace csidelta::k8s {

std::string Name(const Json& object) { return GetString(object, {"metadata", "name"}); }
std::string Namespace(const Json& object) { return GetString(object, {"metadata", "namespace"}); }
std::string Uid(const Json& object) { return GetString(object, {"metadata", "uid"}); }

std::string ResourceVersion(const Json& object) {
  return GetString(object, {"metadata", "resourceVersion"});
}

std::string Label(const Json& object, absl::string_view key) {
  return GetString(object, {"metadata", "labels", key});
}

std::string Annotation(const Json& object, absl::string_view key) {
  return GetString(object, {"metadata", "annotations", key});
}

std::optional<absl::Time> CreatedAt(const Json& object) {
  return ParseRfc3339(GetString(object, {"metadata", "creationTimestamp"}));
}

std::optional<absl::Time> DeletedAt(const Json& object) {
  return ParseRfc3339(GetString(object, {"metadata", "deletionTimestamp"}));
}

bool BeingDeleted(const Json& object) {
  return !GetString(object, {"metadata", "deletionTimestamp"}).empty();
}

}  // namespace csidelta::k8s
