#include "engine/check.h"

#include <memory>

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
                                                .seed = outcome.seed,
                                                .progress = progress,
                                                .on_snapshot = job.on_snapshot}));
  return outcome;
}

}  // namespace csidelta::engine
