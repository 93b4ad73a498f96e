#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/extent.h"

// What of a piece of a volume must be written so that it becomes another. Pure functions.
namespace csidelta::incremental {

// What is compared, and written, at a time: any direct I/O can do that.
inline constexpr int64_t kDifferenceBytes = 4096;

// The ranges, counted from the beginning of both, in which `wanted` and `held` differ: whole blocks
// of kDifferenceBytes, the last one as long as it is; neighbours are joined. A normal list.
// REQUIRES both of one length.
std::vector<Extent> DifferingRanges(absl::string_view wanted, absl::string_view held);

// A part of a range to write, and whether all of it is zero.
struct RangePart {
  Extent extent;
  bool is_zero = false;

  friend bool operator==(const RangePart&, const RangePart&) = default;
};

// Divides a range of `wanted` into what holds data and what is zero, where at least
// `zero_bytes_min` are; shorter zeros are data. Parts begin at blocks of kDifferenceBytes. REQUIRES
// a range as DifferingRanges() returns it.
std::vector<RangePart> DivideZeros(absl::string_view wanted, const Extent& range,
                                   int64_t zero_bytes_min);

}  // namespace csidelta::incremental
