#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "diffsnap/class_secrets.h"

namespace csidelta::diffsnap {

// How much of what a driver says is taken.
struct ListingLimits {
  absl::Duration call_time_max = absl::Seconds(30);
  int page_entries = 500;
  int pages_max = 10'000;
  std::size_t snapshots_max = 1'000'000;
};

// What the driver of this name is to be shown: it is asked once with each set.
using ListingSecrets =
    std::function<absl::StatusOr<std::vector<DriverSecrets>>(const std::string& driver)>;

// The snapshots that a storage has, as its driver lists them.
struct StoredSnapshots {
  std::string driver;
  std::set<std::string> handles;
};

// All snapshots that the CSI driver behind `address` lists. A list whose pages grow too old is read
// again.
//   INVALID_ARGUMENT     `address` is no socket's
//   UNAVAILABLE          no driver answers there
//   FAILED_PRECONDITION  it does not list snapshots, which needs LIST_SNAPSHOTS
//   DATA_LOSS            its list does not end, is too long, or has one without a handle
// and else what the driver says, made printable, or `secrets`.
absl::StatusOr<StoredSnapshots> ListStorage(const CallContext& ctx, const std::string& address,
                                            const ListingSecrets& secrets,
                                            const ListingLimits& limits);

}  // namespace csidelta::diffsnap
