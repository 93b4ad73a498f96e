#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "repository/blob.h"
#include "repository/repository.h"
#include "repository/tree_locator.h"
#include "repository/volume_layout.h"

namespace csidelta::incremental {

// Where the trees of one backup of a volume lie: its locator, of which the shards that are asked
// for are loaded and kept, 1.5 KiB each. What does not load is not known, which is no error: it is
// a cache. Thread-safe. Does not own the repository.
class TreePositions {
 public:
  explicit TreePositions(repository::Repository& repository, repository::TreeLocator locator = {})
      : repository_(repository), locator_(std::move(locator)) {}

  repository::Repository& repository() const { return repository_; }
  const repository::TreeLocator& locator() const { return locator_; }

  // Loads the shards of these trees, in few requests side by side. An error only when ctx ends.
  absl::Status Load(const CallContext& ctx, absl::Span<const repository::TreePosition> positions);

  // Absent where unknown, or not loaded.
  std::optional<repository::BlobLocation> Find(const repository::TreePosition& position) const;

  // Where a tree was found without this.
  void Note(const repository::TreePosition& position, const repository::BlobLocation& place);

  // All of the shard of a tree, as far as it is loaded.
  repository::LocatorShard ShardOf(const repository::TreePosition& position) const;

 private:
  repository::Repository& repository_;
  const repository::TreeLocator locator_;
  mutable Mutex mutex_;
  // By the position of the shard's first tree.
  std::map<repository::TreePosition, repository::LocatorShard> shards_ ABSL_GUARDED_BY(mutex_);
};

// A tree that a backup has at another place than its parent.
struct MovedTree {
  repository::TreePosition position;
  std::optional<repository::BlobLocation> place;  // absent where unknown
};

// What the locator of a new backup says otherwise than its parent's.
struct LocatorChange {
  repository::VolumeLayout layout;
  repository::Id volume;  // as ChainOf() says
  std::vector<MovedTree> trees;
  std::optional<repository::BlobLocation> root = {};
  std::optional<repository::BlobLocation> image_tree = {};
  std::optional<repository::BlobLocation> manifest = {};
  std::optional<repository::SnapshotNeeds> needs = {};
};

// Saves the locator of `snapshot`: the shards of moved trees in a file of its own; the others stay
// in the files they are in. Before those become more than a sixteenth of the shards, the file that
// is needed least is given up, and its shards, sixteen or so, are written with the others. All are
// written where the parent's locator is not bound, or is of another volume. `parent` is null where
// none exists. Adds to `stored_bytes` what was put.
absl::Status SaveLocator(const CallContext& ctx, repository::Repository& repository,
                         const repository::Id& snapshot, const LocatorChange& change,
                         TreePositions* parent, int64_t& stored_bytes);

}  // namespace csidelta::incremental
