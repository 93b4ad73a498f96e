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
  BlobWriterOptions writer = {};  // `known` is set by the copy.
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
// have, DATA_LOSS when a blob does not read from any copy.
absl::StatusOr<std::vector<CopiedSnapshot>> CopySnapshots(const CallContext& ctx, Repository& from,
                                                          Repository& to, Lock& lock,
                                                          absl::Span<const Id> ids,
                                                          const CopyOptions& options);

}  // namespace csidelta::repository
