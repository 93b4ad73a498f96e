#include "incremental/mover/tree_positions.h"

#include <algorithm>
#include <set>
#include <string>

#include "base/status_macros.h"
#include "base/worker_pool.h"
#include "incremental/mover/tree_fetcher.h"
#include "repository/sealer.h"

namespace csidelta::incremental {
namespace {

using repository::BlobLocation;
using repository::Id;
using repository::kShardTrees;
using repository::LocatorShard;
using repository::Repository;
using repository::ShardPosition;
using repository::TreeLocator;
using repository::TreePosition;

constexpr int64_t kShardRangeBytesMax = int64_t{1} << 20;
constexpr std::size_t kShardFetchesInFlightMax = 8;
// Files that one locator may name: a share of its shards, and that many at least.
constexpr int64_t kShardsPerFile = 16;
constexpr int64_t kFilesMin = 16;

TreePosition FirstOfShard(const TreePosition& position) {
  return {.is_leaf = position.is_leaf, .number = position.number / kShardTrees * kShardTrees};
}

std::size_t PositionInShard(const TreePosition& position) {
  return static_cast<std::size_t>(position.number % kShardTrees);
}

int64_t ShardCount(int64_t trees) { return (trees + kShardTrees - 1) / kShardTrees; }

// How many shards of a locator lie in each of its files.
std::vector<int64_t> CountShards(const TreeLocator& locator) {
  std::vector<int64_t> counts(locator.files.size(), 0);
  for (const std::vector<ShardPosition>* shards : {&locator.level1_shards, &locator.leaf_shards}) {
    for (const ShardPosition& shard : *shards) {
      if (shard.file != 0) {
        ++counts[shard.file - 1U];
      }
    }
  }
  return counts;
}

// Takes files out that hold no shard of `locator`.
void DropIdleFiles(TreeLocator& locator) {
  const std::vector<int64_t> counts = CountShards(locator);
  std::vector<uint16_t> ordinals(counts.size() + 1, 0);
  std::vector<Id> files;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) {
      files.push_back(locator.files[i]);
      ordinals[i + 1] = static_cast<uint16_t>(files.size());
    }
  }
  locator.files = std::move(files);
  for (std::vector<ShardPosition>* shards : {&locator.level1_shards, &locator.leaf_shards}) {
    for (ShardPosition& shard : *shards) {
      shard.file = ordinals[shard.file];
    }
  }
}

// For the shard that begins with `first`.
repository::Sealer MakeSealer(const Repository& repository, const TreeLocator& locator,
                              const TreePosition& first) {
  const repository::SealKey& master = repository.master_key();
  return {locator.is_bound ? repository::KeyBoundTo(master, locator.ShardName(first)) : master,
          *repository.environment().random};
}

// The makings of one locator.
class LocatorMaker {
 public:
  LocatorMaker(Repository& repository, const LocatorChange& change, TreePositions* parent)
      : repository_(repository), change_(change), parent_(parent) {
    if (parent_ != nullptr) {
      locator_ = parent_->locator();
    }
    locator_.level1_shards.resize(
        static_cast<std::size_t>(ShardCount(change.layout.level1_count())));
    locator_.leaf_shards.resize(static_cast<std::size_t>(ShardCount(change.layout.leaf_count())));
    locator_.is_bound = true;
    locator_.volume = change.volume;
    locator_.root = change.root;
    locator_.image_tree = change.image_tree;
    locator_.manifest = change.manifest;
    locator_.needs = change.needs;
    for (const MovedTree& tree : change.trees) {
      TakeUp(FirstOfShard(tree.position));
    }
    if (parent_ != nullptr &&
        (!parent_->locator().is_bound || parent_->locator().volume != change.volume)) {
      TakeUpFile(std::nullopt);
    }
  }

  absl::StatusOr<TreeLocator> Make(const CallContext& ctx, int64_t& stored_bytes) {
    DropIdleFiles(locator_);
    GiveUpAFile();
    std::map<TreePosition, LocatorShard> shards;
    if (parent_ != nullptr) {
      RETURN_IF_ERROR(
          parent_->Load(ctx, std::vector<TreePosition>(first_trees_.begin(), first_trees_.end())));
    }
    for (const TreePosition& first : first_trees_) {
      shards[first] = parent_ == nullptr ? LocatorShard() : parent_->ShardOf(first);
    }
    for (const MovedTree& tree : change_.trees) {
      shards[FirstOfShard(tree.position)].places[PositionInShard(tree.position)] = tree.place;
    }
    RETURN_IF_ERROR(Write(ctx, shards, stored_bytes));
    return std::move(locator_);
  }

 private:
  ShardPosition& SlotOf(const TreePosition& first) {
    std::vector<ShardPosition>& shards =
        first.is_leaf ? locator_.leaf_shards : locator_.level1_shards;
    return shards[static_cast<std::size_t>(first.number / kShardTrees)];
  }

  // Has a shard written again.
  void TakeUp(const TreePosition& first) {
    first_trees_.insert(first);
    SlotOf(first) = {};
  }

  // Has the shards of a file written again, by its ordinal from 1; of all, if nullopt.
  void TakeUpFile(std::optional<std::size_t> file) {
    for (const bool is_leaf : {false, true}) {
      const std::vector<ShardPosition>& places =
          is_leaf ? locator_.leaf_shards : locator_.level1_shards;
      for (std::size_t i = 0; i < places.size(); ++i) {
        if (places[i].file != 0 && places[i].file == file.value_or(places[i].file)) {
          TakeUp({.is_leaf = is_leaf, .number = static_cast<int64_t>(i) * kShardTrees});
        }
      }
    }
  }

  void GiveUpAFile() {
    const auto shards =
        static_cast<int64_t>(locator_.level1_shards.size() + locator_.leaf_shards.size());
    // One place is for the file that is about to be.
    if (static_cast<int64_t>(locator_.files.size()) <
        std::max(kFilesMin, shards / kShardsPerFile)) {
      return;
    }
    const std::vector<int64_t> counts = CountShards(locator_);
    const auto least =
        static_cast<std::size_t>(std::min_element(counts.begin(), counts.end()) - counts.begin());
    TakeUpFile(least + 1);
    DropIdleFiles(locator_);
  }

  absl::Status Write(const CallContext& ctx, const std::map<TreePosition, LocatorShard>& shards,
                     int64_t& stored_bytes) {
    if (shards.empty()) {
      return absl::OkStatus();
    }
    const auto file = static_cast<uint16_t>(locator_.files.size() + 1);
    std::string bytes;
    for (const auto& [first, shard] : shards) {
      const std::string sealed =
          MakeSealer(repository_, locator_, first).Seal(absl::string_view(shard.Encode()));
      SlotOf(first) = {.file = file,
                       .sealed_bytes = static_cast<uint16_t>(sealed.size()),
                       .offset_bytes = static_cast<uint32_t>(bytes.size())};
      bytes += sealed;
    }
    ASSIGN_OR_RETURN(const Id id, repository_.SaveLocatorFile(ctx, bytes));
    locator_.files.push_back(id);
    stored_bytes += static_cast<int64_t>(bytes.size());
    return absl::OkStatus();
  }

  Repository& repository_;
  const LocatorChange& change_;
  TreePositions* const parent_;
  TreeLocator locator_;
  std::set<TreePosition> first_trees_;  // first trees of the shards that are written
};

}  // namespace

absl::Status TreePositions::Load(const CallContext& ctx, absl::Span<const TreePosition> positions) {
  std::vector<TreePosition> missing;
  {
    const MutexLock lock(mutex_);
    for (const TreePosition& position : positions) {
      const TreePosition first = FirstOfShard(position);
      if (locator_.ShardOf(first) != nullptr && !shards_.contains(first)) {
        missing.push_back(first);
      }
    }
  }
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  std::vector<WantedBlob> wanted;
  for (std::size_t i = 0; i < missing.size(); ++i) {
    const ShardPosition& place = *locator_.ShardOf(missing[i]);
    wanted.push_back({.handle = {},
                      .location = {.pack = locator_.files[place.file - 1U],
                                   .span = {.offset_bytes = place.offset_bytes,
                                            .sealed_bytes = place.sealed_bytes}},
                      .tag = static_cast<int64_t>(i)});
  }
  const std::vector<PackRange> ranges = CoalesceRanges(std::move(wanted), kShardRangeBytesMax);
  const auto load = [&](std::size_t i) {
    const PackRange& range = ranges[i];
    const absl::StatusOr<std::string> bytes =
        repository_.LoadLocatorRange(ctx, range.pack, range.offset_bytes, range.length_bytes);
    for (const WantedBlob& part : range.parts) {
      LocatorShard shard;
      if (bytes.ok()) {
        const TreePosition& first = missing[static_cast<std::size_t>(part.tag)];
        const absl::StatusOr<std::string> opened =
            MakeSealer(repository_, locator_, first).Open(PartOf(range, part, *bytes));
        absl::StatusOr<LocatorShard> read =
            opened.ok() ? LocatorShard::Decode(*opened) : opened.status();
        shard = read.ok() ? *read : LocatorShard();
      }
      const MutexLock lock(mutex_);
      shards_.emplace(missing[static_cast<std::size_t>(part.tag)], shard);
    }
    return ctx.Check();
  };
  return ParallelFor(ranges.size(), kShardFetchesInFlightMax, load);
}

std::optional<BlobLocation> TreePositions::Find(const TreePosition& position) const {
  const MutexLock lock(mutex_);
  const auto found = shards_.find(FirstOfShard(position));
  return found == shards_.end() ? std::nullopt : found->second.places[PositionInShard(position)];
}

void TreePositions::Note(const TreePosition& position, const BlobLocation& place) {
  const MutexLock lock(mutex_);
  shards_[FirstOfShard(position)].places[PositionInShard(position)] = place;
}

LocatorShard TreePositions::ShardOf(const TreePosition& position) const {
  const MutexLock lock(mutex_);
  const auto found = shards_.find(FirstOfShard(position));
  return found == shards_.end() ? LocatorShard() : found->second;
}

absl::Status SaveLocator(const CallContext& ctx, Repository& repository, const Id& snapshot,
                         const LocatorChange& change, TreePositions* parent,
                         int64_t& stored_bytes) {
  LocatorMaker maker(repository, change, parent);
  ASSIGN_OR_RETURN(const TreeLocator locator, maker.Make(ctx, stored_bytes));
  int64_t locator_bytes = 0;
  RETURN_IF_ERROR(repository.SaveLocator(ctx, snapshot, locator, &locator_bytes));
  stored_bytes += locator_bytes;
  return absl::OkStatus();
}

}  // namespace csidelta::incremental
