#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "repository/index.h"
#include "repository/lock.h"
#include "repository/repository.h"

// How a backup finds what one before it stored without finishing. A run that failed leaves
// a mark in the store; one that was killed leaves its lock, and who removes that lock makes the
// mark. Either, lock or mark, makes the next run look.
namespace csidelta::engine {

// Leaves the mark. Best effort: without it the next run stores again what it might have found.
void MarkUnfinished(const CallContext& ctx, repository::Repository& repository);

// Whether a run did not finish, and none since did.
bool IsUnfinished(const CallContext& ctx, const repository::Repository& repository);

struct ResumeAnswer {
  const repository::BlobIndex* known = nullptr;  // the repository's; null: nothing to look for
  bool marked = false;      // A run did not end, and all that it left was taken up.
  int64_t packs_found = 0;  // of runs that did not end
  // Packs that no index lists were left alone: a prune whose lock ran out may still delete them.
  bool held_back = false;
  // Not 0: the index takes so much more memory than there is, and was left alone.
  int64_t memory_bytes_missing = 0;
};

// Whose packs may be adopted that no index lists.
struct OrphanScope {
  // False: others may be at work in the repository, and such packs be theirs.
  bool all = true;
  // Then only packs with one of these blobs, sorted: our own journal names them.
  std::vector<repository::BlobId> own;
  repository::LockFence fence = nullptr;  // asked before and after they are listed
};

// Loads the index and adds packs that no index lists, when `look` or when there is a mark. The
// index takes `memory_bytes_max` at most: of a large one most lies in a scratch file. Where not
// even what must be in memory fits, it is left alone: then blobs may be stored twice.
absl::StatusOr<ResumeAnswer> FindUnfinished(const CallContext& ctx,
                                            repository::Repository& repository, bool look,
                                            int64_t memory_bytes_max,
                                            const OrphanScope& scope = {});

// What is left to say when the run that asked has ended: takes the mark away that it found and has
// made use of, or leaves one, even when `ctx` is what ended it. Best effort.
void RecordEnd(const CallContext& ctx, repository::Repository& repository,
               const ResumeAnswer& found, bool finished);

}  // namespace csidelta::engine
