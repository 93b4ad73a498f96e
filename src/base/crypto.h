#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace csidelta {

// SHA-256 of `bytes` as 64 lower-case hexadecimal digits.
std::string Sha256Hex(absl::string_view bytes);

}  // namespace csidelta
