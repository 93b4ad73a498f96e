#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "repository/blob.h"
#include "repository/blob_writer.h"
#include "repository/lock.h"
#include "repository/maintenance.h"
#include "repository/repo_snapshot.h"
#include "repository/repository.h"
#include "repository/snapshot_proof.h"

// Copies snapshots from one repository to another.
namespace csidelta::repository {

// A snapshot that has a copy, and what its sidecar is made of.
struct CopyToNote {
  const StoredSnapshot& source;
  const StoredSnapshot* source_parent;  // null unless its copy is the parent of this one
  Id copy;
  std::optional<Id> copy_parent;
  const SnapshotNeeds& needs;
  // Where a tree or data blob of it lies in the target; absent where that is not known.
  std::function<std::optional<BlobLocation>(const BlobHandle&)> find;
};

struct CopyOptions {
  // `known` is set by the copy. Packs are as long as those of the source, or else of this target,
  // within the memory budget, by which the copy sets all that follows from memory.
  BlobWriterOptions writer = {};
  ProgressReporter progress = nullptr;
  // Saves the sidecar of a copy. May be null: without one, the next backup that builds on the copy
  // reads the index.
  std::function<absl::Status(const CallContext&, const CopyToNote&)> note = nullptr;
  ProofLimits limits = {};
};

struct CopiedSnapshot {
  Id source;
  Id copy;
  bool was_there = false;   // Copied by an earlier run.
  BlobWriterCounts counts;  // What was written for it.
  // Not OK: it was there, and the target lacked something that it needs, which this names.
  absl::Status was_damaged = {};
  // Not OK: the source cannot give what the copy lacks. Else that was copied again.
  absl::Status not_mended = {};
  absl::Status not_noted = {};  // Not OK: its sidecar could not be saved.
};

// Copies these snapshots (none named: all), parents before their children, each committed on its
// own: a run that was cut off goes on where it ended. Trees are taken over byte by byte, so that
// ids stay the same; blobs are proven, then compressed and sealed again; what the target has, in
// its index and in a pack that is stored, is not read. A copy records the id that its first
// original had, and its parent's copy as its parent.
//
// A copy that is there already is proven to be whole: each pack of its sidecar is looked up, or, if
// the sidecar does not tell, each blob; what it lacks is copied again.
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
