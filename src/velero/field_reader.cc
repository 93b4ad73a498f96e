#include "velero/field_reader.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/go_duration.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"

namespace csidelta::velero {

std::string FieldReader::Text(JsonPath path) {
  const Json* value = Find(path);
  if (value != nullptr && !value->is_string()) {
    Fail(path, "is not a string");
  }
  return GetString(object_, path);
}

std::optional<bool> FieldReader::Flag(JsonPath path) {
  const Json* value = Find(path);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_boolean()) {
    Fail(path, "is not true or false");
    return std::nullopt;
  }
  return value->get<bool>();
}

int64_t FieldReader::Size(JsonPath path) {
  const int64_t size = GetInt(object_, path, Find(path) == nullptr ? 0 : -1);
  if (size < 0) {
    Fail(path, "is not a size");
    return 0;
  }
  return size;
}

std::vector<std::string> FieldReader::Texts(JsonPath path) {
  std::vector<std::string> texts;
  const Json* value = Find(path);
  if (value == nullptr) {
    return texts;
  }
  if (!value->is_array()) {
    Fail(path, "is not a list");
    return texts;
  }
  for (const Json& element : *value) {
    if (!element.is_string()) {
      Fail(path, "holds something that is not a string");
      return texts;
    }
    texts.push_back(element.get<std::string>());
  }
  return texts;
}

std::map<std::string, std::string> FieldReader::Map(JsonPath path) {
  const Json* value = Find(path);
  std::map<std::string, std::string> map = GetStringMap(object_, path);
  if (value != nullptr && (!value->is_object() || map.size() != value->size())) {
    Fail(path, "is not a map of strings");
  }
  return map;
}

std::optional<absl::Time> FieldReader::Time(JsonPath path) {
  const std::string text = Text(path);
  if (text.empty()) {
    return std::nullopt;
  }
  const std::optional<absl::Time> time = ParseRfc3339(text);
  if (!time.has_value()) {
    Fail(path, "is not a time");
  }
  return time;
}

absl::Duration FieldReader::Timeout(JsonPath path, absl::Duration fallback) {
  return Timeout(Text(path), absl::StrJoin(path, "."), fallback);
}

absl::Duration FieldReader::Timeout(absl::string_view text, absl::string_view field,
                                    absl::Duration fallback) {
  if (text.empty()) {
    return fallback;
  }
  const absl::StatusOr<absl::Duration> duration = ParseGoDuration(text);
  if (!duration.ok() || *duration < absl::ZeroDuration()) {
    Remember(duration.ok() ? absl::InvalidArgumentError(absl::StrCat(field, ": negative"))
                           : Annotate(duration.status(), field));
    return fallback;
  }
  return *duration == absl::ZeroDuration() ? fallback : *duration;
}

void FieldReader::Require(const std::string& value, absl::string_view field) {
  if (value.empty()) {
    Remember(absl::InvalidArgumentError(absl::StrCat(field, ": missing")));
  }
}

const Json* FieldReader::Find(JsonPath path) const {
  const Json* value = FindJson(object_, path);
  return value == nullptr || value->is_null() ? nullptr : value;
}

void FieldReader::Fail(JsonPath path, absl::string_view problem) {
  Remember(absl::InvalidArgumentError(absl::StrCat(absl::StrJoin(path, "."), ": ", problem)));
}

void FieldReader::Remember(const absl::Status& status) {
  if (status_.ok()) {
    status_ = status;
  }
}

}  // namespace csidelta::velero
