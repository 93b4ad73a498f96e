#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"

namespace csidelta::support {

// Whether `object`'s labels match a Kubernetes label selector: a=b, a==b, a!=b, a in (b,c), a notin
// (b), a, !a, joined by commas. INVALID_ARGUMENT when malformed.
absl::StatusOr<bool> MatchesLabels(const Json& object, absl::string_view selector);

// Whether `object` matches a field selector: path=value and path!=value, joined by commas.
absl::StatusOr<bool> MatchesFields(const Json& object, absl::string_view selector);

// OK when names, labels, annotations and finalizers in `object`'s metadata are what an API server
// accepts, else INVALID_ARGUMENT naming the field.
absl::Status ValidateMetadata(const Json& object);
// An Event is in the namespace of its object; that of an object without one is in "default".
absl::Status ValidateEvent(const Json& event);

}  // namespace csidelta::support
