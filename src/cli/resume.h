#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "repository/index.h"
#include "repository/repository.h"

// How a backup finds what one before it stored without coming to its end. A run that failed leaves
// a mark in the store; one that was killed leaves its lock. Either makes the next run look.
namespace csidelta::cli {

// Leaves the mark. Best effort: without it the next run stores again what it might have found.
void MarkUnfinished(const CallContext& ctx, repository::Repository& repository);

// Removes the mark, best effort: after a backup that used what there was.
void ClearUnfinished(const CallContext& ctx, repository::Repository& repository);

struct ResumeAnswer {
  const repository::BlobIndex* known = nullptr;  // the repository's; null: nothing to look for
  bool marked = false;
  int64_t packs_found = 0;  // of runs that did not end
};

// Loads the index and adds packs that no index lists, when `look` or when there is a mark. An index
// that weighs more than `memory_bytes_max` is left alone: then blobs may be stored twice.
absl::StatusOr<ResumeAnswer> FindUnfinished(const CallContext& ctx,
                                            repository::Repository& repository, bool look,
                                            int64_t memory_bytes_max);

}  // namespace csidelta::cli
