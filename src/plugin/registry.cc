#include "plugin/registry.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"

namespace csidelta::plugin {
namespace {

constexpr std::size_t kPrefixBytesMax = 253;

bool IsDnsLabel(absl::string_view label) {
  const auto is_label_char = [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c)) ||
           absl::ascii_islower(static_cast<unsigned char>(c)) || c == '-';
  };
  return !label.empty() && label.front() != '-' && label.back() != '-' &&
         std::all_of(label.begin(), label.end(), is_label_char);
}

}  // namespace

bool IsPluginName(absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '/');
  if (parts.size() != 2 || parts[1].empty() || parts[0].size() > kPrefixBytesMax) {
    return false;
  }
  const std::vector<absl::string_view> labels = absl::StrSplit(parts[0], '.');
  return std::all_of(labels.begin(), labels.end(), IsDnsLabel);
}

}  // namespace csidelta::plugin
