#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "incremental/changed_block_source.h"

namespace csidelta::incremental {

// Limits on a foreign list. Three million extents weigh 72 MiB; a list that needs more is merged
// by whoever makes it, or the volume is scanned.
inline constexpr int64_t kExtentListExtentsMax = 3'000'000;
inline constexpr int64_t kExtentListLineBytesMax = 4096;

// One line of an extent list, as a value.
struct ExtentListLine {
  std::optional<ListedExtent> extent;  // absent: an empty line, or the end
  bool end = false;
};

// Reads one line: {"offset":0,"length":4096}, beside it optionally "zero":true, or {"end":true};
// spaces alone are an empty line. INVALID_ARGUMENT for anything else: other members, numbers that
// are not whole, an extent that is not well-formed. Pure.
absl::StatusOr<ExtentListLine> ParseExtentListLine(absl::string_view line);

// Gathers the lines of a list as they arrive in pieces of any size, and ends with a list in the
// order that sources promise. Neither sorted nor disjoint input is needed: overlapping and touching
// extents are joined, and where one says data and another zero, data counts. Memory is bounded by
// the limits above. Not thread-safe.
class ExtentListReader {
 public:
  // `end_required`: without {"end":true} the list is cut short, INVALID_ARGUMENT at Finish().
  explicit ExtentListReader(bool end_required, int64_t extents_max = kExtentListExtentsMax)
      : end_required_(end_required), extents_max_(extents_max) {}

  // INVALID_ARGUMENT, naming the line, when one is malformed, too long, or follows the end.
  // RESOURCE_EXHAUSTED when there are too many extents.
  absl::Status Feed(absl::string_view bytes);

  absl::StatusOr<std::vector<ListedExtent>> Finish();

 private:
  absl::Status TakeLine(absl::string_view line);
  absl::Status Add(const ListedExtent& listed);

  const bool end_required_;
  const int64_t extents_max_;
  bool ended_ = false;
  int64_t line_number_ = 0;
  std::string partial_;
  std::vector<Extent> data_;
  std::vector<Extent> zero_;
};

// A list that somebody else made: of changed extents when there is a parent, else of allocated
// ones. Beyond what ExtentListReader refuses nothing is believed: ValidatingSource checks it
// against the volume and the audit against its bytes. Thread-safe.
class ExtentListSource : public ChangedBlockSource {
 public:
  // Reads `path`, or standard input for "-". From anything but a regular file the end is required:
  // a pipe whose writer died looks like a list that is complete. Blocks until the end of input.
  static absl::StatusOr<ExtentListSource> Open(const CallContext& ctx, const std::string& path);

  explicit ExtentListSource(std::vector<ListedExtent> extents) : extents_(std::move(extents)) {}

  absl::string_view name() const override { return "extent-list"; }

  int64_t memory_bytes() const {
    return static_cast<int64_t>(extents_.capacity() * sizeof(ListedExtent));
  }

  absl::Status ListExtents(const CallContext& ctx, const DiffRequest& request,
                           ExtentSink sink) override;

 private:
  std::vector<ListedExtent> extents_;
};

}  // namespace csidelta::incremental
