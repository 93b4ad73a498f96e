#include "cli/repository/change_map.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "cli/text.h"

namespace csidelta::cli {

int64_t ChangeMap::CellBegin(int cell) const {
  return static_cast<int64_t>(absl::int128(volume_bytes_) * cell / CellCount());
}

void ChangeMap::Add(const incremental::ListedExtent& listed) {
  const Extent& extent = listed.extent;
  // Both sources bound their extents by the volume's size.
  CSIDELTA_CHECK(extent.length_bytes > 0 && extent.end_bytes() <= volume_bytes_);
  ++extents_;
  bytes_ += extent.length_bytes;
  if (listed.kind == incremental::ExtentKind::kZero) {
    zero_bytes_ += extent.length_bytes;
  }
  Size& size = sizes_.at(std::bit_width(static_cast<uint64_t>(extent.length_bytes)) - 1);
  ++size.extents;
  size.bytes += extent.length_bytes;
  KeepLargest(extent);
  int cell = static_cast<int>(absl::int128(extent.offset_bytes) * CellCount() / volume_bytes_);
  for (; cell < CellCount() && CellBegin(cell) < extent.end_bytes(); ++cell) {
    const int64_t begin_bytes = std::max(CellBegin(cell), extent.offset_bytes);
    const int64_t end_bytes = std::min(CellBegin(cell + 1), extent.end_bytes());
    cell_bytes_.at(static_cast<std::size_t>(cell)) += std::max<int64_t>(0, end_bytes - begin_bytes);
  }
}

void ChangeMap::KeepLargest(const Extent& extent) {
  const auto before = std::find_if(largest_.begin(), largest_.end(), [&](const Extent& kept) {
    return kept.length_bytes < extent.length_bytes;
  });
  largest_.insert(before, extent);
  if (largest_.size() > static_cast<std::size_t>(kLargestMax)) {
    largest_.pop_back();
  }
}

std::string ChangeMap::PictureLines() const {
  constexpr int kOffsetWidth = 12;
  const std::string picture = Picture();
  std::string out;
  for (int cell = 0; cell < CellCount(); cell += kCells) {
    absl::StrAppend(&out, absl::StrFormat("%*s", kOffsetWidth, FormatBytes(CellBegin(cell))), " [",
                    picture.substr(static_cast<std::size_t>(cell), kCells), "]\n");
  }
  return out;
}

std::string ChangeMap::Picture() const {
  std::string picture;
  for (int cell = 0; cell < CellCount(); ++cell) {
    const int64_t of_bytes = CellBegin(cell + 1) - CellBegin(cell);
    const int64_t bytes = cell_bytes_.at(static_cast<std::size_t>(cell));
    const absl::int128 tenths = of_bytes == 0 ? 0 : absl::int128(bytes) * 10 / of_bytes;
    picture.push_back(bytes == 0          ? ' '
                      : bytes >= of_bytes ? '#'
                      : tenths >= 5       ? '+'
                      : tenths >= 1       ? ':'
                                          : '.');
  }
  return picture;
}

Json ChangeMap::Histogram() const {
  Json histogram = Json::array();
  for (std::size_t power = 0; power < sizes_.size(); ++power) {
    if (sizes_.at(power).extents > 0) {
      histogram.push_back({{"from_bytes", int64_t{1} << power},
                           {"extents", sizes_.at(power).extents},
                           {"bytes", sizes_.at(power).bytes}});
    }
  }
  return histogram;
}

std::string ChangeMap::HistogramLines() const {
  std::vector<std::vector<std::string>> rows = {{"extents from", "extents", "bytes"}};
  for (std::size_t power = 0; power < sizes_.size(); ++power) {
    if (sizes_.at(power).extents > 0) {
      rows.push_back({FormatBytes(int64_t{1} << power), absl::StrCat(sizes_.at(power).extents),
                      FormatBytes(sizes_.at(power).bytes)});
    }
  }
  return rows.size() == 1 ? "" : FormatTable(rows);
}

}  // namespace csidelta::cli
