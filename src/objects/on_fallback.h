#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "base/enum_names.h"

namespace csidelta::objects {

// When an incremental backup would become a full one.
enum class OnFallback { kProceed, kWarn, kFail };
inline constexpr EnumNames<OnFallback, 3> kOnFallbackNames = {
    {{OnFallback::kProceed, "proceed"}, {OnFallback::kWarn, "warn"}, {OnFallback::kFail, "fail"}}};

// "warn".
inline std::string ToString(OnFallback on_fallback) {
  return EnumName(kOnFallbackNames, on_fallback);
}
// What ToString() says; nothing for any other text.
inline std::optional<OnFallback> ParseOnFallback(absl::string_view text) {
  return EnumValue(kOnFallbackNames, text);
}

}  // namespace csidelta::objects
