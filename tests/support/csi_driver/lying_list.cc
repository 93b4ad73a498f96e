#include "tests/support/csi_driver/lying_list.h"

#include <algorithm>
#include <limits>

#include "base/status_macros.h"

namespace csidelta::csi_driver {

absl::StatusOr<std::unique_ptr<LyingList>> LyingList::Open(const Store& store,
                                                           const ChangeQuery& query,
                                                           BlockOptions options,
                                                           const Verdict& verdict) {
  options.own_only = verdict.Tells(Lie::kOwnWritesOnly);
  ASSIGN_OR_RETURN(std::unique_ptr<ChangeList> truth, ChangeList::Open(store, query, options));
  return std::unique_ptr<LyingList>(new LyingList(std::move(truth), options, verdict.stream));
}

absl::StatusOr<std::optional<ListedExtent>> LyingList::Next() {
  while (ready_.empty() && !ended_) {
    RETURN_IF_ERROR(LoadNext());
  }
  if (ready_.empty()) {
    return std::nullopt;
  }
  const ListedExtent next = ready_.front();
  ready_.pop_front();
  return next;
}

bool LyingList::Tells(Lie lie, int64_t index) const {
  return std::any_of(faults_.begin(), faults_.end(), [lie, index](const StreamFault& fault) {
    return fault.lies.contains(lie) && index >= fault.extent &&
           index - fault.extent < fault.extents;
  });
}

bool LyingList::TellsAnywhere(Lie lie) const {
  return std::any_of(faults_.begin(), faults_.end(),
                     [lie](const StreamFault& fault) { return fault.lies.contains(lie); });
}

absl::StatusOr<std::optional<ListedExtent>> LyingList::NextTrue() {
  if (!TellsAnywhere(Lie::kEverything)) {
    return list_->Next();
  }
  const int64_t offset_bytes = everything_bytes_;
  if (offset_bytes >= capacity_bytes()) {
    return std::nullopt;
  }
  const int64_t length_bytes = options_.fixed ? options_.bytes : capacity_bytes();
  everything_bytes_ += length_bytes;
  return ListedExtent{{offset_bytes, length_bytes}, false};
}

// Puts what the next true extent became behind what is ready; that may be nothing.
absl::Status LyingList::LoadNext() {
  ASSIGN_OR_RETURN(std::optional<ListedExtent> next, NextTrue());
  if (!next.has_value()) {
    ended_ = true;
    if (TellsAnywhere(Lie::kBeyondCapacity)) {
      const int64_t blocks = (capacity_bytes() + options_.bytes - 1) / options_.bytes;
      ready_.push_back({{blocks * options_.bytes, options_.bytes}, false});
    }
    return absl::OkStatus();
  }
  const int64_t index = index_++;
  Extent& extent = next->extent;
  if (Tells(Lie::kOmit, index)) {
    return absl::OkStatus();
  }
  if (Tells(Lie::kShift, index)) {
    extent.offset_bytes += options_.bytes;
  }
  if (Tells(Lie::kZeroLength, index)) {
    extent.length_bytes = 0;
  }
  if (Tells(Lie::kNegativeLength, index)) {
    extent.length_bytes = -extent.length_bytes;
  }
  if (Tells(Lie::kNegativeOffset, index)) {
    extent.offset_bytes = -options_.bytes;
  }
  if (Tells(Lie::kOverflow, index)) {
    extent.offset_bytes = std::numeric_limits<int64_t>::max() - 1;
  }
  if (Tells(Lie::kUnordered, index)) {
    const ListedExtent late = *next;
    RETURN_IF_ERROR(LoadNext());  // Its successor.
    ready_.push_back(late);
    return absl::OkStatus();
  }
  ready_.push_back(*next);
  if (Tells(Lie::kOverlap, index)) {
    extent.offset_bytes += extent.length_bytes / 2;
    ready_.push_back(*next);
  }
  return absl::OkStatus();
}

}  // namespace csidelta::csi_driver
