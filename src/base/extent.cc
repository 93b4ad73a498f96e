#include "base/extent.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace csidelta {
std::string Describe(const Extent& extent) {
  if (!IsWellFormed(extent)) {
    return absl::StrCat("[", extent.offset_bytes, ", length ", extent.length_bytes, ")");
  }
  return absl::StrCat("[", extent.offset_bytes, ", ", extent.end_bytes(), ")");
}

std::ostream& operator<<(std::ostream& out, const Extent& extent) {
  return out << Describe(extent);
}

std::vector<Extent> MergeExtents(std::vector<Extent> extents) {
  std::sort(extents.begin(), extents.end(), [](const Extent& left, const Extent& right) {
    return left.offset_bytes < right.offset_bytes;
  });
  std::size_t kept = 0;
  for (const Extent extent : extents) {
    if (kept > 0 && extent.offset_bytes <= extents[kept - 1].end_bytes()) {
      Extent& last = extents[kept - 1];
      last.length_bytes = std::max(last.end_bytes(), extent.end_bytes()) - last.offset_bytes;
    } else {
      extents[kept++] = extent;
    }
  }
  extents.resize(kept);
  return extents;
}

void AppendExtent(std::vector<Extent>& extents, const Extent& extent) {
  if (extents.empty() || extent.offset_bytes < extents.back().offset_bytes ||
      extent.offset_bytes > extents.back().end_bytes()) {
    extents.push_back(extent);
    return;
  }
  Extent& last = extents.back();
  last.length_bytes = std::max(last.end_bytes(), extent.end_bytes()) - last.offset_bytes;
}

std::vector<Extent> SubtractExtents(const std::vector<Extent>& from,
                                    const std::vector<Extent>& removed) {
  std::vector<Extent> left;
  auto hole = removed.begin();
  for (const Extent& extent : from) {
    while (hole != removed.end() && hole->end_bytes() <= extent.offset_bytes) {
      ++hole;
    }
    int64_t at = extent.offset_bytes;
    for (auto cut = hole; cut != removed.end() && cut->offset_bytes < extent.end_bytes(); ++cut) {
      if (cut->offset_bytes > at) {
        left.push_back({at, cut->offset_bytes - at});
      }
      at = std::max(at, cut->end_bytes());
    }
    if (at < extent.end_bytes()) {
      left.push_back({at, extent.end_bytes() - at});
    }
  }
  return left;
}

std::optional<Extent> ClipExtent(const Extent& extent, int64_t size_bytes) {
  CSIDELTA_CHECK(size_bytes >= 0);
  if (extent.offset_bytes >= size_bytes) {
    return std::nullopt;
  }
  return Extent{extent.offset_bytes,
                std::min(extent.length_bytes, size_bytes - extent.offset_bytes)};
}

int64_t TotalBytes(const std::vector<Extent>& extents) {
  int64_t total = 0;
  for (const Extent& extent : extents) {
    total += extent.length_bytes;
  }
  return total;
}

}  // namespace csidelta
