#include "repository/tree_walk.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "repository/parallel.h"
#include "repository/tree.h"

namespace csidelta::repository {
namespace {

constexpr std::size_t kWalkThreads = 8;
// Trees of one level that are asked for before the next ones are looked at.
constexpr std::size_t kWalkBatch = 1024;

class Walk {
 public:
  Walk(const CallContext& ctx, const Repository& repository, const TreeWalkVisitor& visitor)
      : ctx_(ctx), repository_(repository), visitor_(visitor) {}

  absl::Status Run(absl::Span<const BlobId> roots) {
    for (const BlobId& root : roots) {
      Push(root);
    }
    while (!open_.empty()) {
      const std::size_t count = std::min(open_.size(), kWalkBatch);
      const std::vector<BlobId> batch(open_.end() - static_cast<std::ptrdiff_t>(count),
                                      open_.end());
      open_.resize(open_.size() - count);
      RETURN_IF_ERROR(
          ParallelFor(count, kWalkThreads, [&](std::size_t i) { return Visit(batch[i]); }));
    }
    return absl::OkStatus();
  }

 private:
  // REQUIRES mutex_, or no other thread.
  void Push(const BlobId& tree) {
    if (seen_.insert(tree).second) {
      open_.push_back(tree);
    }
  }

  absl::Status Visit(const BlobId& tree) {
    RETURN_IF_ERROR(ctx_.Check());
    const absl::StatusOr<std::string> text =
        repository_.LoadBlob(ctx_, {.type = BlobType::kTree, .id = tree});
    std::scoped_lock lock(mutex_);
    visitor_.blob({.type = BlobType::kTree, .id = tree});
    if (!text.ok()) {
      return Damage(tree, text.status());
    }
    absl::Status incomplete;
    const absl::Status decoded = DecodeTree(*text, [&](Node& node) -> absl::Status {
      if ((node.type == NodeType::kDir && !node.subtree.has_value()) ||
          (node.type == NodeType::kFile && !node.content.has_value())) {
        incomplete.Update(absl::DataLossError(absl::StrCat(node.name, " has no content")));
      }
      if (node.subtree.has_value()) {
        Push(*node.subtree);
      }
      for (const BlobId& id : node.content.value_or(std::vector<BlobId>())) {
        visitor_.blob({.type = BlobType::kData, .id = id});
      }
      return absl::OkStatus();
    });
    incomplete.Update(decoded);
    return incomplete.ok() ? incomplete : Damage(tree, incomplete);
  }

  absl::Status Damage(const BlobId& tree, const absl::Status& status) const {
    const bool transient = IsRetryable(status) || absl::IsCancelled(status) ||
                           absl::IsDeadlineExceeded(status) || absl::IsPermissionDenied(status);
    if (transient || visitor_.damage == nullptr) {
      return Annotate(status, absl::StrCat("tree ", tree.ShortHex()));
    }
    return visitor_.damage(tree, status);
  }

  const CallContext& ctx_;
  const Repository& repository_;
  const TreeWalkVisitor& visitor_;
  std::mutex mutex_;
  absl::flat_hash_set<BlobId> seen_;
  std::vector<BlobId> open_;
};

}  // namespace

absl::Status WalkTrees(const CallContext& ctx, const Repository& repository,
                       absl::Span<const BlobId> roots, const TreeWalkVisitor& visitor) {
  return Walk(ctx, repository, visitor).Run(roots);
}

}  // namespace csidelta::repository
