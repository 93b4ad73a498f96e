#include "cli/repository/change_map.h"

#include <bit>
#include <iterator>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "cli/text.h"

namespace csidelta::cli {
namespace {

// How much of a cell changed: as ASCII, as a shade, as a color of SVG, and in words.
struct Level {
  char ascii;
  absl::string_view shade;
  absl::string_view fill;
  absl::string_view meaning;
};
constexpr std::array<Level, 5> kLevels = {{{' ', " ", "#eef2f2", "no change"},
                                           {'.', "\u2591", "#a7d3ce", "less than a tenth"},
                                           {':', "\u2592", "#5fb3aa", "less than half"},
                                           {'+', "\u2593", "#1f8f84", "more"},
                                           {'#', "\u2588", "#00524a", "all"}}};

std::string Colored(bool has_colors, absl::string_view text) {
  return has_colors ? absl::StrCat("\x1b[36m", text, "\x1b[0m") : std::string(text);
}

const Level& LevelOf(char ascii) {
  return *std::find_if(kLevels.begin(), std::prev(kLevels.end()),
                       [ascii](const Level& level) { return level.ascii == ascii; });
}

}  // namespace

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

std::string ChangeMap::PictureLines(bool has_colors) const {
  const std::string picture = Picture();
  std::string out;
  for (int at = 0; at < CellCount();) {
    const std::size_t changed = picture.find_first_not_of(' ', static_cast<std::size_t>(at));
    const int empty = static_cast<int>(std::min(changed, picture.size())) / cells_ - at / cells_;
    if (empty > 1) {
      absl::StrAppend(&out, std::string(kOffsetColumns + 2, ' '), "\u2026 ", empty,
                      " rows without change\n");
      at += empty * cells_;
      continue;
    }
    absl::StrAppendFormat(&out, "%*s [", kOffsetColumns, FormatBytes(CellBegin(at)));
    std::string row;
    for (const int end = at + cells_; at < end; ++at) {
      absl::StrAppend(&row, LevelOf(picture.at(static_cast<std::size_t>(at))).shade);
    }
    absl::StrAppend(&out, Colored(has_colors, row), "]\n");
  }
  absl::StrAppend(&out, std::string(kOffsetColumns, ' '));
  for (auto level = std::next(kLevels.begin()); level != kLevels.end(); ++level) {
    absl::StrAppend(&out, "  ", Colored(has_colors, level->shade), " ", level->meaning);
  }
  return absl::StrCat(out, "\n");
}

std::string ChangeMap::Svg(absl::string_view title) const {
  constexpr int kRowHeight = 18;
  const absl::ParsedFormat<'d', 's'> text("<text x=\"10\" y=\"%d\">%s</text>\n");
  const std::string picture = Picture();
  const int rows = CellCount() / cells_;
  std::string out = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
      110 + cells_ * 10, (rows + 4) * kRowHeight);
  absl::StrAppendFormat(&out, text, kRowHeight, title);
  for (int cell = 0; cell < CellCount(); ++cell) {
    const int y = (cell / cells_ + 2) * kRowHeight;
    if (cell % cells_ == 0) {
      absl::StrAppendFormat(&out, text, y, FormatBytes(CellBegin(cell)));
    }
    absl::StrAppendFormat(
        &out, "<rect x=\"%d\" y=\"%d\" width=\"10\" height=\"15\" fill=\"%s\"/>\n",
        100 + cell % cells_ * 10, y - 12, LevelOf(picture.at(static_cast<std::size_t>(cell))).fill);
  }
  std::string legend;
  for (const Level& level : kLevels) {
    absl::StrAppend(&legend, "<tspan fill=\"", level.fill, "\">\u2588</tspan> ", level.meaning,
                    "\u00a0 ");
  }
  absl::StrAppendFormat(&out, text, (rows + 3) * kRowHeight, legend);
  return absl::StrCat(out, "</svg>\n");
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
  std::vector<std::vector<std::string>> rows = {{"size of a range", "ranges", "bytes"}};
  for (const Json& size : Histogram()) {
    const int64_t from_bytes = GetInt(size, {"from_bytes"});
    rows.push_back(
        {absl::StrCat(FormatBytes(from_bytes), " to ", FormatBytes(from_bytes - 1 + from_bytes)),
         absl::StrCat(GetInt(size, {"extents"})), FormatBytes(GetInt(size, {"bytes"}))});
  }
  return rows.size() == 1 ? "" : FormatTable(rows);
}

}  // namespace csidelta::cli
