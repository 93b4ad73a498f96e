#include "engine/prune.h"

#include "base/status_macros.h"
#include "repository/maintenance_memory.h"

namespace csidelta::engine {

absl::StatusOr<PruneOutcome> RunPrune(const CallContext& ctx, Session& session, const PruneJob& job,
                                      const Progress& progress) {
  ASSIGN_OR_RETURN(repository::Repository * repository, session.Open(ctx, LockKind::kExclusive));
  return PruneOpened(ctx, session, *repository, job, progress);
}

absl::StatusOr<PruneOutcome> PruneOpened(const CallContext& ctx, Session& session,
                                         repository::Repository& repository, const PruneJob& job,
                                         const Progress& progress) {
  RETURN_IF_ERROR(repository.LoadReadableIndex(ctx));
  const int64_t pack_bytes_default =
      session.in_bucket() ? repository::kPackTargetBytesRemote : repository::kPackTargetBytesLocal;
  const repository::PruneOptions options{
      .unused_max = job.unused_max,
      .repack_bytes_max = job.repack_bytes_max,
      .distrusted = job.distrusted,
      .pack_target_bytes = repository::PackBytesLike(repository.index(), pack_bytes_default),
      .progress = progress};
  ASSIGN_OR_RETURN(const repository::PrunePlan plan,
                   repository::PlanPrune(ctx, repository, options));
  PruneOutcome outcome{.figures = plan.figures};
  if (!job.is_dry_run) {
    ASSIGN_OR_RETURN(outcome.done,
                     repository::RunPrune(ctx, repository, *session.lock(), plan, options));
  }
  outcome.scratch_bytes = repository.scratch().peak_bytes();
  return outcome;
}

}  // namespace csidelta::engine
