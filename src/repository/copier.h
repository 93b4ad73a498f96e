#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "repository/blob.h"
#include "repository/blob_writer.h"
#include "repository/lock.h"
#include "repository/maintenance.h"
#include "repository/repository.h"

// Copies snapshots from one repository to another.
namespace csidelta::repository {

struct CopyOptions {
  // `known` is set by the copy. Packs are as long as those of the source, or else of this target,
  // within the memory budget, by which the copy sets all that follows from memory.
  BlobWriterOptions writer = {};
  ProgressReporter progress = nullptr;
};

struct CopiedSnapshot {
  Id source;
  Id copy;
  bool was_there = false;   // Copied by an earlier run; nothing was done.
  BlobWriterCounts counts;  // What was written for it.
};

// Copies these snapshots (none named: all), parents before their children, each committed on its
// own: a run that was cut off goes on where it ended. Trees are taken over byte by byte, so that
// ids stay the same; blobs are proven, then compressed and sealed again; what the target has is not
// read. A copy records the id that its first original had, and its parent's copy as its parent.
//
// The locks on both repositories are the caller's; `lock` is that of `to` and need not be
// exclusive. Both must be held when the indexes are loaded, which this does if need be.
// INVALID_ARGUMENT when both are the same repository, NOT_FOUND for an id that `from` does not
// have, DATA_LOSS when a blob does not read from any copy. Memory is taken from the budget of
// `from`, which is to be that of `to` as well: two bits for each copy of a blob there, then what
// reads and packs take, see maintenance_memory.h.
absl::StatusOr<std::vector<CopiedSnapshot>> CopySnapshots(const CallContext& ctx, Repository& from,
                                                          Repository& to, Lock& lock,
                                                          absl::Span<const Id> ids,
                                                          const CopyOptions& options);

}  // namespace csidelta::repository
