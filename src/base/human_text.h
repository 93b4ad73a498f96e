#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

// Numbers, times and texts for people. Pure functions, but for the zone.
namespace csidelta {

// "1.5 GiB", "512 B".
std::string FormatBytes(int64_t bytes);

// "1 pack", "2 packs", "0 packs".
std::string Counted(int64_t count, absl::string_view noun);

// The first `bytes_max` bytes, not cut inside a character of UTF-8.
std::string CutText(absl::string_view text, std::size_t bytes_max);

// A user's text in an error message: its first 64 bytes, escaped and in quotes.
std::string Quoted(absl::string_view text);

// "2026-11-21 13:05:00", in the zone of this machine.
std::string FormatMoment(absl::Time time);

}  // namespace csidelta
