#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

// Numbers in sentences for people. Pure functions.
namespace csidelta {

// "1.5 GiB", "512 B".
std::string FormatBytes(int64_t bytes);

// "1 pack", "2 packs", "0 packs".
std::string Counted(int64_t count, absl::string_view noun);

}  // namespace csidelta
