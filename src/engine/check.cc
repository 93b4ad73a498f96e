#include "engine/check.h"

#include <iterator>
#include <memory>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace csidelta::engine {
namespace {

// It takes long. So it has an index of its own: the check's is not to be older than the snapshots
// of backups that end meanwhile.
absl::StatusOr<repository::RenewLocksResult> RenewLocks(
    const CallContext& ctx, Session& session, storage::ObjectStore& store,
    const repository::RenewLocksOptions& options) {
  ASSIGN_OR_RETURN(const RepositoryKeys keys, session.ReadKeys(ctx));
  ASSIGN_OR_RETURN(const std::unique_ptr<repository::Repository> repository,
                   session.OpenIn(ctx, store, keys));
  return repository::RenewLocks(ctx, *repository, options);
}

// Sorted.
std::vector<std::string> ErrorsOf(const repository::CheckReport& report) {
  std::vector<std::string> errors;
  for (const repository::Finding& finding : report.findings) {
    if (finding.is_error) {
      errors.push_back(absl::StrCat(finding.thing, ": ", finding.detail));
    }
  }
  absl::c_sort(errors);
  return errors;
}

}  // namespace

absl::StatusOr<CheckOutcome> RunCheck(const CallContext& ctx, Session& session, const CheckJob& job,
                                      const Progress& progress) {
  CheckOutcome outcome;
  outcome.seed = session.random().Below(uint64_t{1} << 63);
  const LockKind kind = job.renew_locks.has_value() ? LockKind::kWrite
                        : job.beside_backups        ? LockKind::kRead
                                                    : LockKind::kReadAlone;
  ASSIGN_OR_RETURN(repository::Repository * repository, session.Open(ctx, kind));
  if (job.renew_locks.has_value()) {
    outcome.locks = RenewLocks(ctx, session, repository->store(), *job.renew_locks);
    RETURN_IF_ERROR(ctx.Check());
  }
  ASSIGN_OR_RETURN(outcome.report,
                   repository::CheckRepository(ctx, *repository,
                                               {.read_data = job.read_data,
                                                .read_newer_than = job.read_newer_than,
                                                .read_older_than = job.read_older_than,
                                                .seed = outcome.seed,
                                                .progress = progress,
                                                .on_snapshot = job.on_snapshot}));
  return outcome;
}

absl::Status ConfirmLost(const CallContext& ctx, repository::Repository& again,
                         const repository::CheckOptions& options,
                         const repository::CheckReport& first) {
  ASSIGN_OR_RETURN(const repository::CheckReport second,
                   repository::CheckRepository(ctx, again, options));
  // A snapshot that lacks one thing the first time and another the second may lack neither.
  std::vector<std::string> once;
  absl::c_set_symmetric_difference(ErrorsOf(first), ErrorsOf(second), std::back_inserter(once));
  const bool has_all = first.errors <= static_cast<int64_t>(repository::kFindingsMax);
  if (first.lost_volumes == second.lost_volumes && first.errors == second.errors &&
      (once.empty() || !has_all)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "two readings found different damage",
      once.empty() ? "" : absl::StrCat(", once: ", once.front()),
      "; the repository, or the way to it, gives different answers; nothing was removed; run it "
      "again"));
}

}  // namespace csidelta::engine
