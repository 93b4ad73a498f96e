#include "engine/check.h"

#include "base/status_macros.h"

namespace csidelta::engine {

absl::StatusOr<CheckOutcome> RunCheck(const CallContext& ctx, Session& session, const CheckJob& job,
                                      const Progress& progress) {
  CheckOutcome outcome;
  outcome.seed = session.random().Below(uint64_t{1} << 63);
  ASSIGN_OR_RETURN(repository::Repository * repository,
                   session.Open(ctx, job.beside_backups ? LockKind::kRead : LockKind::kReadAlone));
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
