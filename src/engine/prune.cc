#include "engine/prune.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/human_text.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "repository/maintenance_memory.h"
#include "storage/bucket_rules.h"

namespace csidelta::engine {
namespace {

using repository::PrunePlan;
using storage::BucketDocument;

// The keys of the first packs that a plan deletes.
std::vector<std::string> FirstDeleted(const repository::BlobIndex& index, const PrunePlan& plan) {
  std::vector<std::string> keys;
  for (const std::vector<uint32_t>* const listed : {&plan.unused, &plan.removed}) {
    for (std::size_t i = 0; i < listed->size() && std::ssize(keys) < kLockedAskedMax; ++i) {
      keys.push_back(repository::PackKey(index.PackAt((*listed)[i])));
    }
  }
  for (std::size_t i = 0; i < plan.unindexed.size() && std::ssize(keys) < kLockedAskedMax; ++i) {
    keys.push_back(repository::PackKey(plan.unindexed[i]));
  }
  return keys;
}

}  // namespace

// What is to be deleted leaves only a marker in such a bucket. That a right or the feature is
// missing is no reason not to delete.
LockedObjects CountLocked(const CallContext& ctx, storage::ObjectStore& store,
                          absl::Span<const std::string> keys) {
  LockedObjects counted;
  const absl::StatusOr<std::string> document =
      store.GetBucketDocument(ctx, BucketDocument::kObjectLock);
  if (!document.ok() ||
      !storage::ParseObjectLock(*document).value_or(storage::ObjectLockRule()).is_enabled) {
    return counted;
  }
  for (const std::string& key : keys.first(std::min<std::size_t>(keys.size(), kLockedAskedMax))) {
    const absl::StatusOr<storage::Retention> retention = store.GetRetention(ctx, key, "");
    if (absl::IsPermissionDenied(retention.status())) {
      return LockedObjects();
    }
    if (absl::IsNotFound(retention.status())) {
      continue;
    }
    ++counted.asked;
    if (retention.ok() && !retention->mode.empty() && retention->until > ctx.clock->Now()) {
      ++counted.locked;
      counted.until = std::max(counted.until, retention->until);
    }
  }
  return counted;
}

std::string TextOf(const LockedObjects& objects, absl::string_view what) {
  if (objects.locked == 0) {
    return "";
  }
  return absl::StrCat(objects.locked, " of the ", objects.asked == kLockedAskedMax ? "first " : "",
                      objects.asked, " deleted ", what,
                      " stay in the bucket as versions, locked until ",
                      FormatRfc3339Seconds(objects.until), " at the latest");
}

absl::Status StatusOf(const repository::RefusedDeletions& refused) {
  return Annotate(refused.why,
                  absl::StrCat("the store refuses to delete ", Counted(refused.count, "object"),
                               ": ", absl::StrJoin(refused.first, ", "),
                               refused.count > std::ssize(refused.first) ? ", ..." : ""));
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
  repository::DistrustedPacks distrusted = job.distrusted;
  if (distrusted.empty()) {
    ASSIGN_OR_RETURN(distrusted, repository::ReadDamaged(ctx, repository));
  }
  const repository::PruneOptions options{.unused_max = job.unused_max,
                                         .repack_bytes_max = job.repack_bytes_max,
                                         .distrusted = std::move(distrusted),
                                         .pack_target_bytes = repository::PackBytesLike(
                                             repository.index(), session.pack_target_bytes()),
                                         .progress = progress};
  ASSIGN_OR_RETURN(const repository::PrunePlan plan,
                   repository::PlanPrune(ctx, repository, options));
  PruneOutcome outcome{.figures = plan.figures};
  if (!job.is_dry_run) {
    outcome.locked = CountLocked(ctx, repository.store(), FirstDeleted(repository.index(), plan));
    ASSIGN_OR_RETURN(outcome.done,
                     repository::RunPrune(ctx, repository, *session.lock(), plan, options));
  }
  outcome.scratch_bytes = repository.scratch().peak_bytes();
  return outcome;
}

}  // namespace csidelta::engine
