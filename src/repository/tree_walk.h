#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "repository/blob.h"
#include "repository/repository.h"

namespace csidelta::repository {

// What a walk tells. Called by one thread at a time.
struct TreeWalkVisitor {
  // Each tree and each data blob that was reached; data blobs as often as trees name them.
  std::function<void(const BlobHandle& handle)> blob;
  // A tree that does not read, or a node that has not what its type needs. When null, or when it
  // returns an error, the walk ends with that error.
  std::function<absl::Status(const BlobId& tree, const absl::Status& status)> damage;
};

// Visits everything below `roots`, each tree once. REQUIRES a loaded index. Memory grows with the
// number of trees, not with their depth.
absl::Status WalkTrees(const CallContext& ctx, const Repository& repository,
                       absl::Span<const BlobId> roots, const TreeWalkVisitor& visitor);

}  // namespace csidelta::repository
