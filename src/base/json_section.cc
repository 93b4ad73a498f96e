#include "base/json_section.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"

namespace csidelta {
namespace {

constexpr std::size_t kQuotedBytesMax = 64;

std::string Quote(const Json& value) {
  return absl::CHexEscape(DumpJson(value).substr(0, kQuotedBytesMax));
}

}  // namespace

JsonSection::JsonSection(const Json& object, std::string path, absl::Status& status)
    : object_(object), path_(std::move(path)), status_(status) {
  if (!object_.is_object()) {
    Fail(path_, object_, "an object");
  }
}

const Json* JsonSection::Take(const std::string& key) {
  known_.insert(key);
  return FindJson(object_, {key});
}

void JsonSection::Fail(const std::string& path, const Json& value, absl::string_view form) {
  if (status_.ok()) {
    status_ = absl::InvalidArgumentError(absl::StrCat(path, ": ", Quote(value), " is not ", form));
  }
}

void JsonSection::Refuse(absl::string_view what) {
  if (status_.ok()) {
    status_ = absl::InvalidArgumentError(absl::StrCat(path_, " ", what));
  }
}

void JsonSection::Require(const std::string& key, bool is_there) {
  if (!is_there && status_.ok()) {
    status_ = absl::InvalidArgumentError(absl::StrCat(PathOf(key), " is missing"));
  }
}

void JsonSection::Text(const std::string& key, std::string& out) {
  Text(key, out, "a text", [](absl::string_view /*text*/) { return true; });
}

void JsonSection::Flag(const std::string& key, bool& out) {
  if (const Json* value = Take(key); value != nullptr) {
    if (!value->is_boolean()) {
      return Fail(PathOf(key), *value, "true or false");
    }
    out = value->get<bool>();
  }
}

void JsonSection::Number(const std::string& key, int64_t min, int64_t max, int64_t& out) {
  if (const Json* value = Take(key); value != nullptr) {
    const int64_t number = GetInt(object_, {key}, min - 1);
    if (number < min || number > max) {
      return Fail(PathOf(key), *value, absl::StrCat("a number from ", min, " to ", max));
    }
    out = number;
  }
}

void JsonSection::NumberList(const std::string& key, int64_t min, int64_t max,
                             std::vector<int64_t>& out, absl::string_view form) {
  const Json* value = Take(key);
  if (value == nullptr) {
    return;
  }
  const bool is_legal =
      value->is_array() && std::all_of(value->begin(), value->end(), [min, max](const Json& one) {
        return one.is_number_integer() && one.get<int64_t>() >= min && one.get<int64_t>() <= max;
      });
  if (!is_legal) {
    return Fail(PathOf(key), *value, form);
  }
  out = value->get<std::vector<int64_t>>();
}

void JsonSection::Close() {
  if (!status_.ok() || !object_.is_object()) {
    return;
  }
  for (const auto& [key, value] : object_.items()) {
    if (!known_.contains(key)) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat(absl::CHexEscape(PathOf(key).substr(0, 2 * kQuotedBytesMax)),
                       " is not known here; there are ", absl::StrJoin(known_, ", ")));
      return;
    }
  }
}

}  // namespace csidelta
