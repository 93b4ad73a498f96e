#include "k8s/object.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/rfc3339.h"

namespace csidelta::k8s {
namespace {

constexpr std::size_t kObjectNameBytesMax = 253;

bool IsLowerAlphanumeric(char c) {
  return absl::ascii_islower(static_cast<unsigned char>(c)) ||
         absl::ascii_isdigit(static_cast<unsigned char>(c));
}

bool IsNamePart(absl::string_view part) {
  return !part.empty() && IsLowerAlphanumeric(part.front()) && IsLowerAlphanumeric(part.back()) &&
         std::all_of(part.begin(), part.end(),
                     [](char c) { return IsLowerAlphanumeric(c) || c == '-'; });
}

}  // namespace

std::string Name(const Json& object) { return GetString(object, {"metadata", "name"}); }
std::string Namespace(const Json& object) { return GetString(object, {"metadata", "namespace"}); }
std::string Uid(const Json& object) { return GetString(object, {"metadata", "uid"}); }

std::string ResourceVersion(const Json& object) {
  return GetString(object, {"metadata", "resourceVersion"});
}

uint64_t VersionNumber(const Json& object) {
  uint64_t version = 0;
  return absl::SimpleAtoi(ResourceVersion(object), &version) ? version : 0;
}

std::string Label(const Json& object, absl::string_view key) {
  return GetString(object, {"metadata", "labels", key});
}

std::string Annotation(const Json& object, absl::string_view key) {
  return GetString(object, {"metadata", "annotations", key});
}

Json WithoutManagedFields(Json object) {
  if (const auto metadata = object.find("metadata"); metadata != object.end()) {
    metadata->erase("managedFields");
  }
  return object;
}

bool IsObjectName(absl::string_view name) {
  if (name.size() > kObjectNameBytesMax) {
    return false;
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '.');
  return std::all_of(parts.begin(), parts.end(), IsNamePart);
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
