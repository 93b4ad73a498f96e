#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace csidelta::plugin {

inline constexpr std::size_t kErrorTextBytesMax = 2048;

// `text` with every byte that is not part of well-formed UTF-8 replaced by U+FFFD. The host drops a
// whole reply when one string field of it is not UTF-8.
std::string ToUtf8(absl::string_view text);

// ToUtf8, and cut at a character boundary to fit the trailers of a reply.
std::string ToErrorText(absl::string_view text);

}  // namespace csidelta::plugin
