#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "incremental/sources/changed_block_source.h"

namespace csidelta::incremental {

// Limits on a foreign list. Three million extents weigh 72 MiB; a list that needs more is merged
// by its producer, or the volume is scanned.
inline constexpr int64_t kExtentListExtentsMax = 3'000'000;
inline constexpr int64_t kExtentListLineBytesMax = 8192;

// What a list is, and what it lists. A value.
struct ExtentList {
  // What the extents changed since: the id of a snapshot or its beginning, or what the driver knows
  // its volume snapshot by. "": they are all that is allocated.
  std::string base;
  std::vector<ListedExtent> extents;
};

// One line of an extent list, as a value. An empty line has nothing.
struct ExtentListLine {
  std::optional<ListedExtent> extent = {};
  std::optional<std::string> base = {};  // what the list is: of changes since; "": of allocation
  bool end = false;
};

// Reads one line: {"base":ID} or {"allocated":true}; {"offset":0,"length":4096}, optionally with
// "zero":true and "context", which is not read; or {"end":true}. Spaces alone are an empty line.
// INVALID_ARGUMENT for anything else:
// other members, numbers that are not whole, an extent that is not well-formed. Pure.
absl::StatusOr<ExtentListLine> ParseExtentListLine(absl::string_view line);

// Gathers the lines of a list as they arrive in pieces of any size, and ends with a list in the
// order that sources promise. The first line says what the list is, the last that it is whole: a
// list that was cut short, or that is of something else than its reader thinks, would call changed
// blocks unchanged. Neither sorted nor disjoint extents are needed: overlapping and touching ones
// are joined, and where one says data and another zero, data counts. Memory is bounded by the
// limits above. Not thread-safe.
class ExtentListReader {
 public:
  explicit ExtentListReader(int64_t extents_max = kExtentListExtentsMax)
      : extents_max_(extents_max) {}

  // INVALID_ARGUMENT, naming the line, when one is malformed, too long, or follows the end, or when
  // the first one does not say what the list is. RESOURCE_EXHAUSTED when there are too many
  // extents.
  absl::Status Feed(absl::string_view bytes);

  // INVALID_ARGUMENT where the end is missing.
  absl::StatusOr<ExtentList> Finish();

 private:
  absl::Status TakeLine(absl::string_view line);
  absl::Status Add(const ListedExtent& listed);

  const int64_t extents_max_;
  std::optional<std::string> base_;  // once the first line was read
  bool ended_ = false;
  int64_t line_number_ = 0;
  std::string partial_;
  std::vector<Extent> data_;
  std::vector<Extent> zero_;
};

// A list that another program made beforehand. It answers for the base that it names and for no
// other, since what it does not list is unchanged or zero only by that: FAILED_PRECONDITION with
// ListingFailure::kOtherBase. Beyond what ExtentListReader refuses nothing is believed:
// ListChecked() checks it against the volume and the audit against its bytes. Thread-safe.
class ExtentListSource : public ChangedBlockSource {
 public:
  // Reads `path`, or standard input for "-". Blocks until the end of input.
  static absl::StatusOr<ExtentListSource> Open(const CallContext& ctx, const std::string& path);

  explicit ExtentListSource(ExtentList list) : list_(std::move(list)) {}

  absl::string_view name() const override { return "extent-list"; }
  bool lists_allocated() const override { return list_.base.empty(); }
  bool lists_changes() const override { return !list_.base.empty(); }
  int64_t memory_bytes() const override {
    return static_cast<int64_t>(list_.extents.capacity() * sizeof(ListedExtent));
  }

  absl::Status ListExtents(const CallContext& ctx, const DiffRequest& request,
                           ExtentSink sink) override;

 private:
  bool IsOfBase(const DiffRequest& request) const;

  ExtentList list_;
};

}  // namespace csidelta::incremental
