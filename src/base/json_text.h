#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace csidelta {

// `text` as a JSON string, quotes included, escaped as Go's encoder does it, and so restic's: ids
// are hashes of text, so that equal content must be equal text. Bytes that are not UTF-8 become
// U+FFFD.
std::string JsonText(absl::string_view text);
// The same of a list.
std::string JsonTextList(absl::Span<const std::string> texts);

// The length of the well-formed UTF-8 sequence at the front of `text`, or 0. REQUIRES text that is
// not empty.
std::size_t Utf8Bytes(absl::string_view text);

// Whether all of `text` is well-formed UTF-8.
bool IsUtf8(absl::string_view text);

// A code point as UTF-8. REQUIRES one that is, below 0x110000.
void AppendUtf8(std::string& out, uint32_t code);

}  // namespace csidelta
