#include "objects/field_rules.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/go_duration.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"

namespace csidelta::objects {
namespace {

absl::Status Expect(bool is_good, const char* problem) {
  return is_good ? absl::OkStatus() : absl::InvalidArgumentError(problem);
}

const Json* FindDotted(const Json& object, const char* path) {
  const Json* value = &object;
  for (const absl::string_view step : absl::StrSplit(path, '.')) {
    value = value == nullptr ? nullptr : FindJson(*value, {step});
  }
  return value == nullptr || value->is_null() ? nullptr : value;
}

}  // namespace

absl::Status CheckFields(const Json& object, absl::Span<const FieldRule> rules) {
  RETURN_IF_ERROR(Expect(object.is_object(), "not an object"));
  for (const FieldRule& rule : rules) {
    RETURN_IF_ERROR(Annotate(rule.check(FindDotted(object, rule.path)), rule.path));
  }
  return absl::OkStatus();
}

absl::Status IsText(const Json* value) {
  return Expect(value == nullptr || value->is_string(), "is not a string");
}

absl::Status IsTextThatIsSet(const Json* value) {
  RETURN_IF_ERROR(IsText(value));
  return Expect(value != nullptr && !GetString(*value, {}).empty(), "missing");
}

absl::Status IsFlag(const Json* value) {
  return Expect(value == nullptr || value->is_boolean(), "is not true or false");
}

absl::Status IsSize(const Json* value) {
  return Expect(value == nullptr || GetInt(*value, {}, -1) >= 0, "is not a size");
}

absl::Status IsTextList(const Json* value) {
  RETURN_IF_ERROR(Expect(value == nullptr || value->is_array(), "is not a list"));
  return Expect(value == nullptr || std::all_of(value->begin(), value->end(),
                                                [](const Json& one) { return one.is_string(); }),
                "holds something that is not a string");
}

absl::Status IsTextMap(const Json* value) {
  return Expect(
      value == nullptr || (value->is_object() && GetStringMap(*value, {}).size() == value->size()),
      "is not a map of strings");
}

absl::Status IsTime(const Json* value) {
  RETURN_IF_ERROR(IsText(value));
  const std::string text = value == nullptr ? "" : GetString(*value, {});
  return Expect(text.empty() || ParseRfc3339(text).has_value(), "is not a time");
}

absl::Status IsTimeout(const Json* value) {
  RETURN_IF_ERROR(IsText(value));
  const std::string text = value == nullptr ? "" : GetString(*value, {});
  if (text.empty()) {
    return absl::OkStatus();
  }
  const absl::StatusOr<absl::Duration> timeout = ParseGoDuration(text);
  return timeout.ok() ? Expect(*timeout >= absl::ZeroDuration(), "negative") : timeout.status();
}

}  // namespace csidelta::objects
