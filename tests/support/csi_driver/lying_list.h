#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/support/csi_driver/change_list.h"
#include "tests/support/csi_driver/faults.h"

namespace csidelta::csi_driver {

// A change list with the lies about its extents that `faults` tell. Not thread-safe.
class LyingList {
 public:
  // The list with the lies of `verdict`. Fails as ChangeList::Open() does.
  static absl::StatusOr<std::unique_ptr<LyingList>> Open(const Store& store,
                                                         const ChangeQuery& query,
                                                         BlockOptions options,
                                                         const Verdict& verdict);

  // None: this was all.
  absl::StatusOr<std::optional<ListedExtent>> Next();

  int64_t capacity_bytes() const { return list_->capacity_bytes(); }

 private:
  LyingList(std::unique_ptr<ChangeList> list, const BlockOptions& options,
            std::vector<StreamFault> faults)
      : list_(std::move(list)), options_(options), faults_(std::move(faults)) {}

  bool Tells(Lie lie, int64_t index) const;
  bool TellsAnywhere(Lie lie) const;
  absl::StatusOr<std::optional<ListedExtent>> NextTrue();
  absl::Status LoadNext();

  const std::unique_ptr<ChangeList> list_;
  const BlockOptions options_;
  const std::vector<StreamFault> faults_;
  int64_t index_ = 0;             // Of the next true extent.
  int64_t everything_bytes_ = 0;  // How much of the whole volume was claimed.
  bool ended_ = false;
  std::deque<ListedExtent> ready_;
};

}  // namespace csidelta::csi_driver
