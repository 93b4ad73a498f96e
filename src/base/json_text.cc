#include "base/json_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace csidelta {
namespace {

constexpr char kReplacement[] = "\\ufffd";

void AppendAscii(std::string& out, char c) {
  switch (c) {
    case '"':
      out.append("\\\"");
      return;
    case '\\':
      out.append("\\\\");
      return;
    case '\n':
      out.append("\\n");
      return;
    case '\r':
      out.append("\\r");
      return;
    case '\t':
      out.append("\\t");
      return;
    case '<':
    case '>':
    case '&':
      break;
    default:
      if (static_cast<uint8_t>(c) >= 0x20) {
        out.push_back(c);
        return;
      }
  }
  absl::StrAppend(&out, "\\u", absl::Hex(static_cast<uint8_t>(c), absl::kZeroPad4));
}

}  // namespace

std::size_t Utf8Bytes(absl::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xC2 ? 0
                             : first < 0xE0 ? 2
                             : first < 0xF0 ? 3
                             : first < 0xF5 ? 4
                                            : 0;
  if (length == 0 || length > text.size()) {
    return 0;
  }
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) {
      return 0;
    }
  }
  if (length < 3) {
    return length;
  }
  // Overlong forms, surrogates and what lies beyond U+10FFFF.
  const bool wrong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) >= 0xA0) ||
                     (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) >= 0x90);
  return wrong ? 0 : length;
}

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = Utf8Bytes(text);
    if (bytes == 0) {
      return false;
    }
    text.remove_prefix(bytes);
  }
  return true;
}

void AppendUtf8(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
    return;
  }
  int shift = code < 0x800 ? 6 : code < 0x10000 ? 12 : 18;
  const uint32_t lead = shift == 6 ? 0xC0 : shift == 12 ? 0xE0 : 0xF0;
  out.push_back(static_cast<char>(lead | code >> shift));
  while (shift > 0) {
    shift -= 6;
    out.push_back(static_cast<char>(0x80 | (code >> shift & 0x3F)));
  }
}

std::string JsonTextList(absl::Span<const std::string> texts) {
  const auto append = [](std::string* out, const std::string& text) { *out += JsonText(text); };
  return absl::StrCat("[", absl::StrJoin(texts, ",", append), "]");
}

std::string JsonText(absl::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t length = Utf8Bytes(text);
    const absl::string_view character = text.substr(0, length);
    if (length == 0) {
      out.append(kReplacement);
    } else if (length == 1) {
      AppendAscii(out, text[0]);
    } else if (character == "\xE2\x80\xA8" || character == "\xE2\x80\xA9") {
      // The line separators that JavaScript does not take in a string.
      out.append(character == "\xE2\x80\xA8" ? "\\u2028" : "\\u2029");
    } else {
      absl::StrAppend(&out, character);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out.push_back('"');
  return out;
}

}  // namespace csidelta
