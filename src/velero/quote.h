#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace csidelta::velero {

inline constexpr std::size_t kQuotedBytesMax = 64;

// A user's word for an error message: in quotes, escaped, its beginning alone. Pure.
inline std::string Quote(absl::string_view text) {
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kQuotedBytesMax)), "\"");
}

}  // namespace csidelta::velero
