#include "base/json.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace csidelta {
namespace {

// Whether brackets outside of strings nest deeper than kJsonDepthMax. Looked at before parsing,
// because the library writes and destroys nested values recursively.
bool NestsTooDeep(absl::string_view text) {
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
      if (++depth > kJsonDepthMax) {
        return true;
      }
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<Json> ParseJson(absl::string_view text) {
  if (NestsTooDeep(text)) {
    return absl::InvalidArgumentError(absl::StrCat("JSON nested deeper than ", kJsonDepthMax));
  }
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::parse_error& error) {
    return absl::InvalidArgumentError(absl::StrCat("malformed JSON at byte ", error.byte));
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("malformed JSON: ", error.what()));
  }
}

absl::StatusOr<Json> ParseJsonObject(absl::string_view text) {
  absl::StatusOr<Json> value = ParseJson(text);
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
