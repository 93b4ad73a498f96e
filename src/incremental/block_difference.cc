#include "incremental/block_difference.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "incremental/aligned_buffer.h"

namespace csidelta::incremental {

std::vector<Extent> DifferingRanges(absl::string_view wanted, absl::string_view held) {
  CSIDELTA_CHECK(wanted.size() == held.size());
  std::vector<Extent> ranges;
  const auto size = static_cast<int64_t>(wanted.size());
  for (int64_t at = 0; at < size; at += kDifferenceBytes) {
    const int64_t length = std::min(kDifferenceBytes, size - at);
    if (std::memcmp(wanted.data() + at, held.data() + at, static_cast<std::size_t>(length)) != 0) {
      AppendExtent(ranges, {at, length});
    }
  }
  return ranges;
}

std::vector<RangePart> DivideZeros(absl::string_view wanted, const Extent& range,
                                   int64_t zero_bytes_min) {
  // First by block, neighbours of one kind joined; then zeros that are too short become data.
  std::vector<RangePart> blocks;
  for (int64_t at = range.offset_bytes; at < range.end_bytes(); at += kDifferenceBytes) {
    const int64_t length = std::min(kDifferenceBytes, range.end_bytes() - at);
    const bool is_zero =
        IsZero(wanted.substr(static_cast<std::size_t>(at), static_cast<std::size_t>(length)));
    if (!blocks.empty() && blocks.back().is_zero == is_zero) {
      blocks.back().extent.length_bytes += length;
    } else {
      blocks.push_back({.extent = {at, length}, .is_zero = is_zero});
    }
  }
  std::vector<RangePart> parts;
  for (RangePart part : blocks) {
    part.is_zero = part.is_zero && part.extent.length_bytes >= zero_bytes_min;
    if (!parts.empty() && parts.back().is_zero == part.is_zero) {
      parts.back().extent.length_bytes += part.extent.length_bytes;
    } else {
      parts.push_back(part);
    }
  }
  return parts;
}

}  // namespace csidelta::incremental
