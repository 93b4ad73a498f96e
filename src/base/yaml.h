#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"

namespace csidelta {

// Limits on foreign YAML. A ConfigMap holds at most 1 MiB; depth and nodes bound what nesting and
// aliases make of it.
inline constexpr std::size_t kYamlBytesMax = std::size_t{1} << 20;
inline constexpr int kYamlDepthMax = 64;
inline constexpr int kYamlNodesMax = 100'000;

// The first YAML document of `text` as JSON: maps are objects, lists are arrays, every scalar is a
// string with the text that was written (`true`, `1` and `"1"` are strings), null is null. Aliases
// and merge keys (`<<`) are expanded.
// INVALID_ARGUMENT, with line and column where known: not YAML, not UTF-8, a key that is no
// scalar or stands twice in one map, a merge of something that is no map, more than the limits.
// Pure; never throws.
absl::StatusOr<Json> ParseYaml(absl::string_view text);

// `value` as one YAML document in block style, which any YAML 1.1 or 1.2 reader takes for the same
// value. Pure.
std::string ToYaml(const Json& value);

}  // namespace csidelta
