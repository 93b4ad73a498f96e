#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace csidelta {

// The names of an enum's values, as written in objects and records. Pure.
template <typename Enum, std::size_t kCount>
using EnumNames = std::array<std::pair<Enum, absl::string_view>, kCount>;

// "" for a value without a name.
template <typename Enum, std::size_t kCount>
std::string EnumName(const EnumNames<Enum, kCount>& names, Enum value) {
  const auto found = std::find_if(names.begin(), names.end(),
                                  [value](const auto& known) { return known.first == value; });
  return found == names.end() ? "" : std::string(found->second);
}

// Nothing for a text that is no name.
template <typename Enum, std::size_t kCount>
std::optional<Enum> EnumValue(const EnumNames<Enum, kCount>& names, absl::string_view text) {
  const auto found = std::find_if(names.begin(), names.end(),
                                  [text](const auto& known) { return known.second == text; });
  return found == names.end() ? std::nullopt : std::optional<Enum>(found->first);
}

}  // namespace csidelta
