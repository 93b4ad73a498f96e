#include "base/json.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"

template class nlohmann::basic_json<>;
template class std::map<std::string, nlohmann::json, std::less<>>;
template class std::vector<nlohmann::json>;

namespace csidelta {
namespace {

// What is looked at before parsing, because the library writes and destroys nested values
// recursively and takes memory for each.
struct Shape {
  int depth = 0;
  int64_t values = 0;  // No fewer than there are.
};

Shape Measure(absl::string_view text) {
  Shape shape{.depth = 0, .values = 1};
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      i += c == '\\' ? 1 : 0;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      shape.depth = std::max(shape.depth, ++depth);
      ++shape.values;
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == ',') {
      ++shape.values;
    }
  }
  return shape;
}

absl::Status MalformedAt(std::size_t byte) {
  return absl::InvalidArgumentError(absl::StrCat("malformed JSON at byte ", byte));
}

absl::StatusOr<Json> ParseUpTo(absl::string_view text, int64_t values_max) {
  const Shape shape = Measure(text);
  if (shape.depth > kJsonDepthMax) {
    return absl::InvalidArgumentError(absl::StrCat("JSON nested deeper than ", kJsonDepthMax));
  }
  if (shape.values > values_max) {
    return absl::InvalidArgumentError(absl::StrCat("JSON of more than ", values_max, " values"));
  }
  // The library takes a zero byte for the end of the text and passes over a byte order mark.
  if (const std::size_t zero = text.find('\0'); zero != text.npos) {
    return MalformedAt(zero + 1);
  }
  if (absl::StartsWith(text, "\xEF\xBB\xBF")) {
    return MalformedAt(1);
  }
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::parse_error& error) {
    return MalformedAt(error.byte);
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("malformed JSON: ", error.what()));
  }
}

}  // namespace

absl::StatusOr<Json> ParseJson(absl::string_view text) {
  return ParseUpTo(text, std::numeric_limits<int64_t>::max());
}

absl::StatusOr<Json> ParseJsonObject(absl::string_view text, int64_t values_max) {
  absl::StatusOr<Json> value = ParseUpTo(text, values_max);
  if (value.ok() && !value->is_object()) {
    return absl::InvalidArgumentError(absl::StrCat("JSON is ", value->type_name(), ", not object"));
  }
  return value;
}

std::string DumpJson(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

const Json* FindJson(const Json& value, JsonPath path) {
  const Json* current = &value;
  for (const absl::string_view step : path) {
    if (!current->is_object()) {
      return nullptr;
    }
    const auto found = current->find(std::string(step));
    if (found == current->end()) {
      return nullptr;
    }
    current = &*found;
  }
  return current;
}

std::string GetString(const Json& value, JsonPath path) {
  const Json* found = FindJson(value, path);
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
}

int64_t GetInt(const Json& value, JsonPath path, int64_t fallback) {
  const Json* found = FindJson(value, path);
  if (found == nullptr || !found->is_number_integer()) {
    return fallback;
  }
  if (found->is_number_unsigned() && found->get<uint64_t>() > uint64_t{INT64_MAX}) {
    return fallback;
  }
  return found->get<int64_t>();
}

bool GetBool(const Json& value, JsonPath path, bool fallback) {
  const Json* found = FindJson(value, path);
  return found != nullptr && found->is_boolean() ? found->get<bool>() : fallback;
}

std::vector<std::string> GetStringList(const Json& value, JsonPath path) {
  std::vector<std::string> elements;
  for (const Json& element : JsonArrayAt(value, path)) {
    if (element.is_string()) {
      elements.push_back(element.get<std::string>());
    }
  }
  return elements;
}

const Json& JsonArrayAt(const Json& value, JsonPath path) {
  static const Json& kNone = *new Json(Json::array());
  const Json* const found = FindJson(value, path);
  return found != nullptr && found->is_array() ? *found : kNone;
}

std::map<std::string, std::string> GetStringMap(const Json& value, JsonPath path) {
  std::map<std::string, std::string> members;
  const Json* found = FindJson(value, path);
  if (found == nullptr || !found->is_object()) {
    return members;
  }
  for (const auto& [key, member] : found->items()) {
    if (member.is_string()) {
      members.emplace(key, member.get<std::string>());
    }
  }
  return members;
}

Json OrNull(const std::optional<absl::Time>& time) {
  return time.has_value() ? Json(FormatRfc3339(*time)) : Json();
}

void SetJson(Json& value, JsonPath path, Json leaf) {
  Json* current = &value;
  for (const absl::string_view step : path) {
    if (!current->is_object()) {
      *current = Json::object();
    }
    current = &(*current)[std::string(step)];
  }
  *current = std::move(leaf);
}

void EraseJson(Json& value, JsonPath path) {
  Json* current = &value;
  for (auto step = path.begin(); current->is_object(); ++step) {
    const auto found = current->find(std::string(*step));
    if (found == current->end()) {
      return;
    }
    if (step + 1 == path.end()) {
      current->erase(found);
      return;
    }
    current = &*found;
  }
}

}  // namespace csidelta
