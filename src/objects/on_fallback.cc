#include "objects/on_fallback.h"

#include "base/enum_names.h"

namespace csidelta::objects {
namespace {

constexpr EnumNames<OnFallback, 3> kOnFallbacks = {
    {{OnFallback::kProceed, "proceed"}, {OnFallback::kWarn, "warn"}, {OnFallback::kFail, "fail"}}};

}  // namespace

std::string ToString(OnFallback on_fallback) { return EnumName(kOnFallbacks, on_fallback); }

std::optional<OnFallback> ParseOnFallback(absl::string_view text) {
  return EnumValue(kOnFallbacks, text);
}

}  // namespace csidelta::objects
