#include "repository/tree_walk.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "repository/blob_fetcher.h"

namespace csidelta::repository {
namespace {

class Walk {
 public:
  Walk(const CallContext& ctx, const Repository& repository, BlobMarks& visited, TreeReader read,
       const WalkOptions& options)
      : ctx_(ctx), repository_(repository), visited_(visited), read_(read), options_(options) {}

  absl::Status Run(absl::Span<const BlobId> roots) {
    RETURN_IF_ERROR(Push(roots));
    while (!open_.empty()) {
      RETURN_IF_ERROR(ctx_.Check());
      const std::size_t count = std::min(open_.size(), options_.batch_trees);
      std::vector<BlobToFetch> batch(open_.end() - static_cast<std::ptrdiff_t>(count), open_.end());
      open_.resize(open_.size() - count);
      RETURN_IF_ERROR(FetchBlobs(
          ctx_, repository_, std::move(batch),
          [this](const FetchedBlob& blob) { return Take(blob.handle.id, blob.plaintext); },
          {.sink_writes = options_.sink_writes}));
      RETURN_IF_ERROR(options_.after_batch ? options_.after_batch() : absl::OkStatus());
      RETURN_IF_ERROR(Push(TakeFound()));
    }
    return absl::OkStatus();
  }

 private:
  std::vector<BlobId> TakeFound() {
    const MutexLock lock(mutex_);
    return std::exchange(found_, {});
  }

  absl::Status Take(const BlobId& tree, const absl::StatusOr<absl::string_view>& text) {
    std::vector<BlobId> below;
    RETURN_IF_ERROR(read_(tree, text, below));
    const MutexLock lock(mutex_);
    found_.insert(found_.end(), below.begin(), below.end());
    return absl::OkStatus();
  }

  absl::Status Push(absl::Span<const BlobId> trees) {
    for (const BlobId& tree : trees) {
      const BlobHandle handle = {.type = BlobType::kTree, .id = tree};
      ASSIGN_OR_RETURN(const std::optional<IndexedCopy> copy, repository_.index().Find(handle));
      if (!copy.has_value()) {
        std::vector<BlobId> nothing;
        RETURN_IF_ERROR(read_(
            tree, absl::NotFoundError(absl::StrCat(Describe(handle), " is in no index")), nothing));
      } else if (visited_.Mark(copy->first)) {
        open_.push_back({.handle = handle, .location = repository_.index().LocationOf(*copy)});
      }
    }
    return absl::OkStatus();
  }

  const CallContext& ctx_;
  const Repository& repository_;
  BlobMarks& visited_;
  TreeReader read_;
  const WalkOptions& options_;
  std::vector<BlobToFetch> open_;
  Mutex mutex_;
  std::vector<BlobId> found_ ABSL_GUARDED_BY(mutex_);  // Below the trees of this batch
};

}  // namespace

absl::Status WalkTrees(const CallContext& ctx, const Repository& repository,
                       absl::Span<const BlobId> roots, BlobMarks& visited, TreeReader read,
                       const WalkOptions& options) {
  return Walk(ctx, repository, visited, read, options).Run(roots);
}

absl::Status ReadTreeNodes(absl::string_view text, std::vector<BlobId>& below,
                           absl::FunctionRef<absl::Status(const Node&)> visit) {
  return DecodeTree(text, [&](Node& node) -> absl::Status {
    if (node.type == NodeType::kDir && !node.subtree.has_value()) {
      return absl::DataLossError(absl::StrCat("directory \"", node.name, "\" has no tree"));
    }
    if (node.type == NodeType::kFile && !node.content.has_value()) {
      return absl::DataLossError(absl::StrCat("file \"", node.name, "\" has no content"));
    }
    if (node.subtree.has_value()) {
      below.push_back(*node.subtree);
    }
    return visit(node);
  });
}

}  // namespace csidelta::repository
