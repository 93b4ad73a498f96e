#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace csidelta::objects {

// When an incremental backup would become a full one.
enum class OnFallback { kProceed, kWarn, kFail };
// "warn".
std::string ToString(OnFallback on_fallback);
// What ToString() says; nothing for any other text.
std::optional<OnFallback> ParseOnFallback(absl::string_view text);

}  // namespace csidelta::objects
