#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"

namespace csidelta {

// A Kubernetes quantity ("10Gi", "1.5T", "1e9", "500m") as a whole number, rounded up away from
// zero as Kubernetes does where it needs bytes. Suffixes n u m k M G T P E and Ki Mi Gi Ti Pi Ei,
// or a decimal exponent. May be negative. INVALID_ARGUMENT when it is no quantity or does not fit
// 64 bits. Pure.
absl::StatusOr<int64_t> ParseQuantity(absl::string_view text);

// `bytes` in the shortest exact form with binary suffixes, as Kubernetes writes a BinarySI
// quantity: 10737418240 is "10Gi", 1073741825 is "1073741825". Pure.
std::string FormatBinaryQuantity(int64_t bytes);

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
