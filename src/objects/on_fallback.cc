#include "objects/on_fallback.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace csidelta::objects {
namespace {

constexpr std::pair<OnFallback, absl::string_view> kOnFallbacks[] = {
    {OnFallback::kProceed, "proceed"}, {OnFallback::kWarn, "warn"}, {OnFallback::kFail, "fail"}};

}  // namespace

std::string ToString(OnFallback on_fallback) {
  const auto* const found =
      std::find_if(std::begin(kOnFallbacks), std::end(kOnFallbacks),
                   [&](const auto& known) { return known.first == on_fallback; });
  return std::string(found->second);
}

std::optional<OnFallback> ParseOnFallback(absl::string_view text) {
  for (const auto& [on_fallback, name] : kOnFallbacks) {
    if (text == name) {
      return on_fallback;
    }
  }
  return std::nullopt;
}

}  // namespace csidelta::objects
