#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "repository/index.h"
#include "repository/lock.h"
#include "repository/repository.h"

// How a backup finds what an unfinished one stored. A run that failed leaves a mark in the store. A
// run that was killed leaves its lock, and the client that removes that lock makes the mark. Lock
// or mark makes the next run search.
namespace csidelta::engine {

// Leaves the mark. Best effort: without it the next run may store the same data again.
void MarkUnfinished(const CallContext& ctx, repository::Repository& repository);

// Whether a run did not finish, and no later one did.
bool IsUnfinished(const CallContext& ctx, const repository::Repository& repository);

struct ResumeAnswer {
  const repository::BlobIndex* known = nullptr;  // the repository's; null: nothing to look for
  bool marked = false;      // A run did not end, and all that it left was taken up.
  int64_t packs_found = 0;  // of runs that did not end
  // Packs that no index lists were not adopted: a prune whose lock ran out may still delete them.
  bool held_back = false;
  // Not 0: the index needs this much more memory than there is, and was not loaded.
  int64_t memory_bytes_missing = 0;
};

// The packs without an index that may be adopted.
struct OrphanScope {
  // False: other clients may be at work in the repository, and own such packs.
  bool all = true;
  // Then only packs with one of these blobs, sorted: our own journal names them.
  std::vector<repository::BlobId> own;
  repository::LockFence fence = nullptr;  // asked before and after they are listed
};

// Loads the index and adopts packs that no index lists, if `search` or if there is a mark. The
// index takes at most `memory_bytes_max`: most of a large index is in a scratch file. If even the
// rest does not fit, it is not loaded, and blobs may be stored twice.
absl::StatusOr<ResumeAnswer> FindUnfinished(const CallContext& ctx,
                                            repository::Repository& repository, bool look,
                                            int64_t memory_bytes_max,
                                            const OrphanScope& scope = {});

// Records the end of the run: removes the mark that it found and used, or leaves one, even if `ctx`
// has ended. Best effort.
void RecordEnd(const CallContext& ctx, repository::Repository& repository,
               const ResumeAnswer& found, bool finished);

}  // namespace csidelta::engine
