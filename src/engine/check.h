#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

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
  // Backups may run at the same time: the lock is a shared one.
  bool beside_backups = false;
  // First, extend object locks; the lock is a shared one that is there.
  std::optional<repository::RenewLocksOptions> renew_locks = {};
  // As in repository::CheckOptions.
  std::function<void(const repository::StoredSnapshot& snapshot)> on_snapshot = {};
};

struct CheckOutcome {
  repository::CheckReport report = {};
  uint64_t seed = 0;  // of what was drawn
  // Nothing where the job does not ask for it. An error is no reason not to check.
  std::optional<absl::StatusOr<repository::RenewLocksResult>> locks = {};
};

// Proves that the session's repository is whole, which it opens alone unless the job says
// otherwise. Damage is no error, but in the report.
absl::StatusOr<CheckOutcome> RunCheck(const CallContext& ctx, Session& session, const CheckJob& job,
                                      const Progress& progress);

// The snapshots of a report whose files read, and which cannot be restored.
std::vector<repository::Id> LostSnapshots(const repository::CheckReport& report);

// OK when a check of `again`, by which nothing was read yet, finds the same damage as the `first`
// one: before snapshots are removed for it. What was read wrong, even twice, may have been the way.
// FAILED_PRECONDITION, naming something that only one of them found.
absl::Status ConfirmLost(const CallContext& ctx, repository::Repository& again,
                         const repository::CheckOptions& options,
                         const repository::CheckReport& first);

}  // namespace csidelta::engine
