#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/json.h"

// The metadata that every Kubernetes object has. All reading is pure, never throws, and takes a
// value of the wrong type for a missing one.
namespace csidelta::k8s {

std::string Name(const Json& object);
std::string Namespace(const Json& object);  // "" for objects of the cluster.
std::string Uid(const Json& object);
std::string ResourceVersion(const Json& object);
uint64_t VersionNumber(const Json& object);                    // the same; 0 where it is no number
std::string Label(const Json& object, absl::string_view key);  // "" when absent
std::string Annotation(const Json& object, absl::string_view key);  // "" when absent

// The object without metadata.managedFields, which are two fifths of its text and are never read.
Json WithoutManagedFields(Json object);

// Whether it is a valid name of an object: at most 253 lower-case letters, digits, '-' and '.'.
// Each part between two dots begins and ends with a letter or digit.
bool IsObjectName(absl::string_view name);

// By the API server's clock; nothing where the text is missing or not RFC 3339.
std::optional<absl::Time> CreatedAt(const Json& object);
std::optional<absl::Time> DeletedAt(const Json& object);
// Deletion was requested, and finalizers keep the object.
bool BeingDeleted(const Json& object);

}  // namespace csidelta::k8s
