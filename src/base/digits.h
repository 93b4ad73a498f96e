#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"

namespace csidelta {

// Takes the decimal digits at the front of `text`, however many. Pure.
inline std::string TakeDigits(absl::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[length]))) {
    ++length;
  }
  std::string digits(text.substr(0, length));
  text.remove_prefix(length);
  return digits;
}

}  // namespace csidelta
