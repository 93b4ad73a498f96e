#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/json.h"
#include "incremental/sources/changed_block_source.h"

namespace csidelta::cli {

// A summary of a list of extents: totals, sizes, and positions in the volume. Its size does not
// grow with the list. Not thread-safe.
class ChangeMap {
 public:
  static constexpr int kCells = 64;      // in a line of a file or of JSON
  static constexpr int kLargestMax = 5;  // extents in largest()

  // `lines` of the picture, with `cells` each. REQUIRES that all three are above 0.
  explicit ChangeMap(int64_t volume_bytes, int lines = 1, int cells = kCells)
      : volume_bytes_(volume_bytes),
        cells_(cells),
        cell_bytes_(static_cast<std::size_t>(lines) * static_cast<std::size_t>(cells)) {}

  // How many cells fit into a line of PictureLines() on a terminal of so many columns.
  static int CellsOf(int columns) { return std::max(1, columns - kOffsetColumns - 4); }

  // REQUIRES that the extent lies inside the volume.
  void Add(const incremental::ListedExtent& listed);

  int64_t extents() const { return extents_; }
  int64_t bytes() const { return bytes_; }
  int64_t zero_bytes() const { return zero_bytes_; }

  // One ASCII character for each cell of all lines: " " nothing, "." up to a tenth of the cell, ":"
  // up to half, "+" more, "#" all.
  std::string Picture() const;
  // The same in shades, for people: the offset of a line in the volume, then its cells in brackets.
  // Of lines without change that follow each other there is only the number. A legend comes last.
  // `has_colors`: with escape sequences of a terminal.
  std::string PictureLines(bool has_colors = false) const;
  // The same as a file of SVG. REQUIRES that the title needs no escapes.
  std::string Svg(absl::string_view title) const;

  // The largest extents, in descending order. Among equal ones the lowest offset wins.
  const std::vector<Extent>& largest() const { return largest_; }

  // [{"from_bytes":4096,"extents":12,"bytes":49152}, ...]: the extents of at least from_bytes and
  // less than twice that.
  Json Histogram() const;
  // The same as lines for people.
  std::string HistogramLines() const;

 private:
  static constexpr int kSizes = 63;          // powers of two
  static constexpr int kOffsetColumns = 12;  // then come " [", the cells, "]" and a free column
  struct Size {
    int64_t extents = 0;
    int64_t bytes = 0;
  };

  int CellCount() const { return static_cast<int>(cell_bytes_.size()); }
  int64_t CellBegin(int cell) const;
  void KeepLargest(const Extent& extent);

  const int64_t volume_bytes_;
  const int cells_;
  int64_t extents_ = 0;
  int64_t bytes_ = 0;
  int64_t zero_bytes_ = 0;
  std::vector<int64_t> cell_bytes_;
  std::vector<Extent> largest_;
  std::array<Size, kSizes> sizes_{};
};

}  // namespace csidelta::cli
