#include "repository/json_text.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace csidelta::repository {
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

// Takes `digits` hexadecimal digits from the front of `text`.
bool TakeHex(absl::string_view& text, std::size_t digits, uint32_t& value) {
  if (text.size() < digits) {
    return false;
  }
  value = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    const char c = text[i];
    const char lower = static_cast<char>(c | 0x20);
    if (c >= '0' && c <= '9') {
      value = value * 16 + static_cast<uint32_t>(c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      value = value * 16 + static_cast<uint32_t>(lower - 'a' + 10);
    } else {
      return false;
    }
  }
  text.remove_prefix(digits);
  return true;
}

// Takes what follows a backslash.
bool TakeEscape(absl::string_view& text, std::string& name) {
  constexpr absl::string_view kLetters = "abfnrtv\\\"'";
  constexpr absl::string_view kBytes = "\a\b\f\n\r\t\v\\\"'";
  if (text.empty()) {
    return false;
  }
  const char kind = text[0];
  text.remove_prefix(1);
  if (const std::size_t at = kLetters.find(kind); at != absl::string_view::npos) {
    name.push_back(kBytes[at]);
    return true;
  }
  uint32_t value = 0;
  if (kind == 'x') {
    if (!TakeHex(text, 2, value)) {
      return false;
    }
    name.push_back(static_cast<char>(value));
    return true;
  }
  const std::size_t digits = kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
  const bool taken = digits > 0 && TakeHex(text, digits, value);
  if (!taken || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
    return false;
  }
  AppendUtf8(name, value);
  return true;
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

void AppendUtf8(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xC0 | code >> 6));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else if (code < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | code >> 12));
    out.push_back(static_cast<char>(0x80 | (code >> 6 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else {
    out.push_back(static_cast<char>(0xF0 | code >> 18));
    out.push_back(static_cast<char>(0x80 | (code >> 12 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code >> 6 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  }
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

bool UnquoteName(absl::string_view quoted, std::string& name) {
  name.clear();
  while (!quoted.empty()) {
    const char c = quoted[0];
    quoted.remove_prefix(1);
    if (c == '\\') {
      if (!TakeEscape(quoted, name)) {
        return false;
      }
    } else {
      name.push_back(c);
    }
  }
  return true;
}

}  // namespace csidelta::repository
