#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

// Compiled once, in json.cc: nearly every source uses them.
extern template class nlohmann::basic_json<>;
extern template class std::map<std::string, nlohmann::json, std::less<>>;
extern template class std::vector<nlohmann::json>;

namespace csidelta {

// A JSON value that keeps unknown fields and 64-bit integers. Kubernetes objects are handled as
// this type: what we do not know survives. The library throws on wrong types; code outside base/
// reads through the functions below, which never throw and treat a value of another type as absent.
using Json = nlohmann::json;

// One step per element: {"spec", "source", "persistentVolumeClaimName"}.
using JsonPath = std::initializer_list<absl::string_view>;

inline constexpr int kJsonDepthMax = 200;

// INVALID_ARGUMENT with the byte offset when `text` is not one JSON value, is nested deeper than
// kJsonDepthMax, or is not UTF-8. A zero byte or a byte order mark is malformed.
absl::StatusOr<Json> ParseJson(absl::string_view text);

// Like ParseJson, and the value must be an object. INVALID_ARGUMENT also when it holds more than
// about `values_max` values, each of which may take fifty times the memory of its text.
absl::StatusOr<Json> ParseJsonObject(absl::string_view text,
                                     int64_t values_max = std::numeric_limits<int64_t>::max());

// Compact text. Bytes that are not UTF-8 become U+FFFD.
std::string DumpJson(const Json& value);

// The value at `path`, or nullptr when a step is missing or not an object. Borrowed from `value`.
const Json* FindJson(const Json& value, JsonPath path);

// The text at `path`; "" when absent or not a string.
std::string GetString(const Json& value, JsonPath path);
// The number at `path`; `fallback` when absent or not an integer that fits.
int64_t GetInt(const Json& value, JsonPath path, int64_t fallback = 0);
bool GetBool(const Json& value, JsonPath path, bool fallback = false);
// The elements of the list at `path`, or the members of the object, that are strings; empty when
// absent.
std::vector<std::string> GetStringList(const Json& value, JsonPath path);
std::map<std::string, std::string> GetStringMap(const Json& value, JsonPath path);
// The array at `path`; empty if it is missing. Borrowed from `value`.
const Json& JsonArrayAt(const Json& value, JsonPath path);

// A value that may not be known: null then. A time is a text as FormatRfc3339() has it.
template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json();
}
Json OrNull(const std::optional<absl::Time>& time);

// Sets the value at `path`, making objects on the way where none exist.
void SetJson(Json& value, JsonPath path, Json leaf);
// Removes the member at `path`; nothing when absent.
void EraseJson(Json& value, JsonPath path);

}  // namespace csidelta
