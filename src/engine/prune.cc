#include "engine/prune.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "repository/maintenance_memory.h"
#include "storage/bucket_rules.h"

namespace csidelta::engine {
namespace {

using repository::PackId;
using repository::PrunePlan;
using storage::BucketDocument;

// The first packs that a plan deletes.
std::vector<PackId> FirstDeleted(const repository::BlobIndex& index, const PrunePlan& plan) {
  constexpr std::size_t kMost = kLockedPacksAskedMax;
  std::vector<PackId> packs;
  for (const std::vector<uint32_t>* const listed : {&plan.unused, &plan.removed}) {
    for (std::size_t i = 0; i < listed->size() && packs.size() < kMost; ++i) {
      packs.push_back(index.PackAt((*listed)[i]));
    }
  }
  const std::size_t more = std::min(kMost - packs.size(), plan.unindexed.size());
  packs.insert(packs.end(), plan.unindexed.begin(),
               plan.unindexed.begin() + static_cast<std::ptrdiff_t>(more));
  return packs;
}

// What is to be deleted leaves only a marker in such a bucket. That a right or the feature is
// missing is no reason not to prune.
LockedPacks CountLocked(const CallContext& ctx, const repository::Repository& repository,
                        const PrunePlan& plan) {
  LockedPacks counted;
  storage::ObjectStore& store = repository.store();
  const absl::StatusOr<std::string> document =
      store.GetBucketDocument(ctx, BucketDocument::kObjectLock);
  if (!document.ok() ||
      !storage::ParseObjectLock(*document).value_or(storage::ObjectLockRule()).is_enabled) {
    return counted;
  }
  for (const PackId& pack : FirstDeleted(repository.index(), plan)) {
    const absl::StatusOr<storage::Retention> retention =
        store.GetRetention(ctx, repository::PackKey(pack), "");
    if (absl::IsPermissionDenied(retention.status())) {
      return LockedPacks();
    }
    ++counted.asked;
    if (retention.ok() && !retention->mode.empty() && retention->until > ctx.clock->Now()) {
      ++counted.locked;
      counted.until = std::max(counted.until, retention->until);
    }
  }
  return counted;
}

}  // namespace

std::string TextOf(const LockedPacks& packs) {
  if (packs.locked == 0) {
    return "";
  }
  return absl::StrCat(packs.locked, " of the ", packs.asked == kLockedPacksAskedMax ? "first " : "",
                      packs.asked, " deleted packs stay in the bucket as versions, locked until ",
                      FormatRfc3339Seconds(packs.until), " at the latest");
}

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
    outcome.locked = CountLocked(ctx, repository, plan);
    ASSIGN_OR_RETURN(outcome.done,
                     repository::RunPrune(ctx, repository, *session.lock(), plan, options));
  }
  outcome.scratch_bytes = repository.scratch().peak_bytes();
  return outcome;
}

}  // namespace csidelta::engine
