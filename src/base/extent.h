#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace csidelta {

// A range of bytes of a volume: [offset_bytes, offset_bytes + length_bytes).
struct Extent {
  int64_t offset_bytes = 0;
  int64_t length_bytes = 0;

  // REQUIRES IsWellFormed(): the sum fits.
  int64_t end_bytes() const { return offset_bytes + length_bytes; }

  friend bool operator==(const Extent&, const Extent&) = default;
};

// "[offset, end)", also for an extent that is not well-formed: for messages.
std::string Describe(const Extent& extent);
std::ostream& operator<<(std::ostream& out, const Extent& extent);

// Whether the offset is not negative, the length positive, and their sum an int64_t. Everything
// that comes from outside is asked this first; the functions below REQUIRE it of each extent.
inline bool IsWellFormed(const Extent& extent) {
  return extent.offset_bytes >= 0 && extent.length_bytes > 0 &&
         extent.length_bytes <= std::numeric_limits<int64_t>::max() - extent.offset_bytes;
}

// The same bytes as a normal list, whose extents ascend and neither overlap nor touch. Takes any
// order, overlaps and duplicates.
std::vector<Extent> MergeExtents(std::vector<Extent> extents);

// Appends `extent`, or joins it to the last one where it begins inside of that or at its end.
void AppendExtent(std::vector<Extent>& extents, const Extent& extent);

// The bytes of `from` that are not in `removed`. REQUIRES both normal; the result is.
std::vector<Extent> SubtractExtents(const std::vector<Extent>& from,
                                    const std::vector<Extent>& removed);

// The part of `extent` inside [0, size_bytes); nothing when none exists. REQUIRES size_bytes >=
// 0.
std::optional<Extent> ClipExtent(const Extent& extent, int64_t size_bytes);

// Bytes in all extents. REQUIRES the list normal.
int64_t TotalBytes(const std::vector<Extent>& extents);

}  // namespace csidelta
