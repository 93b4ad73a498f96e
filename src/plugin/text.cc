#include "plugin/text.h"

#include <algorithm>

#include "base/json_text.h"

namespace csidelta::plugin {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

std::string ToUtf8(absl::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length_bytes = Utf8Bytes(text);
    const absl::string_view piece = length_bytes == 0 ? kReplacement : text.substr(0, length_bytes);
    clean.append(piece.data(), piece.size());
    text.remove_prefix(std::max<std::size_t>(length_bytes, 1));
  }
  return clean;
}

std::string ToErrorText(absl::string_view text) {
  std::string clean = ToUtf8(text.substr(0, kErrorTextBytesMax));
  if (text.size() > kErrorTextBytesMax) {
    // The cut may have split a character, which then ended as replacements.
    while (clean.size() >= kReplacement.size() &&
           clean.compare(clean.size() - kReplacement.size(), kReplacement.size(),
                         kReplacement.data(), kReplacement.size()) == 0) {
      clean.resize(clean.size() - kReplacement.size());
    }
    clean += "…";
  }
  return clean;
}

}  // namespace csidelta::plugin
