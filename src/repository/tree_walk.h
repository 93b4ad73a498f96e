#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "repository/blob.h"
#include "repository/index.h"
#include "repository/repository.h"
#include "repository/tree.h"

namespace csidelta::repository {

// Takes one tree: its text, valid during the call, or why it cannot be read. Appends to `below` the
// trees to visit next. Called by several threads at the same time.
using TreeReader = absl::FunctionRef<absl::Status(
    const BlobId& tree, const absl::StatusOr<absl::string_view>& text, std::vector<BlobId>& below)>;

struct WalkOptions {
  std::size_t batch_trees = 1024;  // read before the ones below them are looked at
  bool sink_writes = false;        // as FetchOptions::sink_writes
  // Called between batches, when the walk holds no memory of the budget; may be empty.
  std::function<absl::Status()> after_batch = {};
};

// Visits everything below `roots` that `visited` does not hold yet, each tree once, however often
// and wherever it is named: cycles and depth cost nothing. A tree that the index does not know is
// told each time it is named. An error of `read`, or one that is not damage, ends the walk.
//
// REQUIRES a loaded index, that of `visited`. Memory: a bit per blob, 90 bytes for each tree that
// waits (per level of depth those below a batch at most), and what FetchBlobs() takes.
absl::Status WalkTrees(const CallContext& ctx, const Repository& repository,
                       absl::Span<const BlobId> roots, BlobMarks& visited, TreeReader read,
                       const WalkOptions& options = {});

// Feeds `visit` each node of a tree and appends its directories to `below`. DATA_LOSS as
// DecodeTree(), and for a file without content or a directory without a tree.
absl::Status ReadTreeNodes(absl::string_view text, std::vector<BlobId>& below,
                           absl::FunctionRef<absl::Status(const Node&)> visit);

}  // namespace csidelta::repository
