#include "repository/node_name.h"

#include <cstddef>
#include <cstdint>

#include "base/json_text.h"

namespace csidelta::repository {
namespace {

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
