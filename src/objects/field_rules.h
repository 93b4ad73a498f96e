#pragma once

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/json.h"

// Rules for fields of Velero's objects, checked before the project acts on an object: a flag that
// is a text must not read as false. An accessor takes a value of the wrong type for a missing one.
// A kind with rules has a Parse(), which refuses such an object first.
namespace csidelta::objects {

struct FieldRule {
  const char* path;  // "spec.snapshotMoveData"
  // The value; null if it is missing or null. An error is what is wrong, without the path.
  absl::Status (*check)(const Json* value);
};

// INVALID_ARGUMENT, "PATH: PROBLEM", for the first field that breaks its rule, and if `object` is
// no JSON object. Pure.
absl::Status CheckFields(const Json& object, absl::Span<const FieldRule> rules);

// Rules. All but the second one accept a field that is not set.
absl::Status IsText(const Json* value);
absl::Status IsTextThatIsSet(const Json* value);
absl::Status IsFlag(const Json* value);
absl::Status IsSize(const Json* value);  // not negative
absl::Status IsTextList(const Json* value);
absl::Status IsTextMap(const Json* value);
absl::Status IsTime(const Json* value);     // RFC 3339, or ""
absl::Status IsTimeout(const Json* value);  // a duration as Go writes it, not negative, or ""

}  // namespace csidelta::objects
