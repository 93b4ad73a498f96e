#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/json.h"
#include "incremental/changed_block_source.h"

namespace csidelta::cli {

// What is told of a list of extents, however long it is: totals, how large the extents are, and
// where in the volume they lie. Its size does not grow with the list. Not thread-safe.
class ChangeMap {
 public:
  static constexpr int kCells = 64;

  // REQUIRES volume_bytes > 0.
  explicit ChangeMap(int64_t volume_bytes) : volume_bytes_(volume_bytes) {}

  // REQUIRES that the extent lies inside the volume.
  void Add(const incremental::ListedExtent& listed);

  int64_t extents() const { return extents_; }
  int64_t bytes() const { return bytes_; }
  int64_t zero_bytes() const { return zero_bytes_; }

  // One character for each 64th of the volume, for any terminal: " " nothing, "." up to a tenth of
  // it, ":" up to half, "+" more, "#" all.
  std::string Picture() const;

  // [{"from_bytes":4096,"extents":12,"bytes":49152}, ...]: the extents from so many bytes on, to
  // twice as many.
  Json Histogram() const;
  // The same as lines for people.
  std::string HistogramLines() const;

 private:
  static constexpr int kSizes = 63;  // By powers of two.
  struct Size {
    int64_t extents = 0;
    int64_t bytes = 0;
  };

  int64_t CellBegin(int cell) const;

  const int64_t volume_bytes_;
  int64_t extents_ = 0;
  int64_t bytes_ = 0;
  int64_t zero_bytes_ = 0;
  std::array<int64_t, kCells> cell_bytes_{};
  std::array<Size, kSizes> sizes_{};
};

}  // namespace csidelta::cli
