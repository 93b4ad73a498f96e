#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "engine/session.h"
#include "repository/checker.h"
#include "repository/lock_renewal.h"

namespace csidelta::engine {

struct CheckJob {
  repository::DataSubset read_data = repository::ReadNothing{};
  absl::Time read_newer_than = absl::InfiniteFuture();  // as in repository::CheckOptions
  absl::Time read_older_than = absl::InfiniteFuture();
  // Backups may run at the same time: the lock is a shared one.
  bool beside_backups = false;
  // First extends object locks; the lock is shared, and must be held.
  std::optional<repository::RenewLocksOptions> renew_locks = {};
  // As in repository::CheckOptions.
  std::function<void(const repository::StoredSnapshot& snapshot)> on_snapshot = {};
};

struct CheckOutcome {
  repository::CheckReport report = {};
  uint64_t seed = 0;  // of the random selection
  // Nothing if the job does not request it. An error does not stop the check.
  std::optional<absl::StatusOr<repository::RenewLocksResult>> locks = {};
};

// Checks that the session's repository is whole, which it opens alone unless the job requests
// otherwise. Damage is reported, and is not an error.
absl::StatusOr<CheckOutcome> RunCheck(const CallContext& ctx, Session& session, const CheckJob& job,
                                      const Progress& progress);

// OK if a check of `again`, which has read nothing yet, finds the same damage as `first`. Called
// before snapshots are removed for it: a wrong read, even twice, may be a fault on the way.
// FAILED_PRECONDITION, naming something that only one of them found.
absl::Status ConfirmLost(const CallContext& ctx, repository::Repository& again,
                         const repository::CheckOptions& options,
                         const repository::CheckReport& first);

}  // namespace csidelta::engine
