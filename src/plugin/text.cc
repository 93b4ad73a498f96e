#include "plugin/text.h"

#include <algorithm>
#include <cstdint>

namespace csidelta::plugin {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";

struct Sequence {
  std::size_t length_bytes;
  uint8_t second_min;  // Bounds of the second byte: no overlong forms, no surrogates.
  uint8_t second_max;
};

// The sequence that `first` leads; length 0 when it leads none.
Sequence SequenceOf(uint8_t first) {
  if (first < 0x80) {
    return {1, 0, 0};
  }
  if (first >= 0xC2 && first <= 0xDF) {
    return {2, 0x80, 0xBF};
  }
  if (first >= 0xE0 && first <= 0xEF) {
    return {3, static_cast<uint8_t>(first == 0xE0 ? 0xA0 : 0x80),
            static_cast<uint8_t>(first == 0xED ? 0x9F : 0xBF)};
  }
  if (first >= 0xF0 && first <= 0xF4) {
    return {4, static_cast<uint8_t>(first == 0xF0 ? 0x90 : 0x80),
            static_cast<uint8_t>(first == 0xF4 ? 0x8F : 0xBF)};
  }
  return {0, 0, 0};
}

// Bytes of the well-formed character at the start of `text`; 0 when none exists.
std::size_t CharacterBytes(absl::string_view text) {
  const Sequence sequence = SequenceOf(static_cast<uint8_t>(text[0]));
  if (sequence.length_bytes <= 1) {
    return sequence.length_bytes;
  }
  if (text.size() < sequence.length_bytes) {
    return 0;
  }
  for (std::size_t i = 1; i < sequence.length_bytes; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    const uint8_t low = i == 1 ? sequence.second_min : uint8_t{0x80};
    const uint8_t high = i == 1 ? sequence.second_max : uint8_t{0xBF};
    if (byte < low || byte > high) {
      return 0;
    }
  }
  return sequence.length_bytes;
}

}  // namespace

std::string ToUtf8(absl::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length_bytes = CharacterBytes(text);
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
