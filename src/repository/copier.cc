#include "repository/copier.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "base/memory_budget.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "repository/blob_fetcher.h"
#include "repository/index.h"
#include "repository/maintenance_memory.h"
#include "repository/tree_walk.h"

namespace csidelta::repository {
namespace {

// Trees that are read before the data below them is: of a volume's leaves 65,536 blobs, which are
// read together where they are neighbours.
constexpr std::size_t kBatchTrees = 256;
constexpr int64_t kCopyBitsPerBlob = 2;  // visited, copied

Id OriginOf(const StoredSnapshot& stored) { return stored.snapshot.original.value_or(stored.id); }

// Each snapshot behind its parent, if that is among them; else by time.
std::vector<const StoredSnapshot*> ParentsFirst(absl::Span<const StoredSnapshot> by_time) {
  absl::flat_hash_map<Id, const StoredSnapshot*> by_id;
  for (const StoredSnapshot& snapshot : by_time) {
    by_id.emplace(snapshot.id, &snapshot);
  }
  absl::flat_hash_set<Id> placed;
  std::vector<const StoredSnapshot*> order;
  for (const StoredSnapshot& snapshot : by_time) {
    // From the snapshot to its oldest ancestor that has no place yet; a circle ends it as well.
    std::vector<const StoredSnapshot*> line;
    const StoredSnapshot* next = &snapshot;
    while (next != nullptr && placed.insert(next->id).second) {
      line.push_back(next);
      const std::optional<Id>& parent = next->snapshot.parent;
      const auto found = parent.has_value() ? by_id.find(*parent) : by_id.end();
      next = found != by_id.end() ? found->second : nullptr;
    }
    order.insert(order.end(), line.rbegin(), line.rend());
  }
  return order;
}

class Copier {
 public:
  Copier(const CallContext& ctx, Repository& from, Repository& to, Lock& lock,
         const CopyOptions& options)
      : ctx_(ctx), from_(from), to_(to), lock_(lock), options_(options) {}
  absl::StatusOr<std::vector<CopiedSnapshot>> Run(absl::Span<const StoredSnapshot> snapshots);

 private:
  absl::Status FindExisting();
  absl::StatusOr<CopiedSnapshot> Copy(const StoredSnapshot& source);
  // Of one that is there already: proves that it is whole, or mends it.
  absl::StatusOr<CopiedSnapshot> LookAgain(const StoredSnapshot& source, const Id& copy);
  absl::StatusOr<SnapshotNeeds> FindNeeds(const BlobId& root);
  absl::Status Mend(const StoredSnapshot& source, CopiedSnapshot& result);
  absl::Status Note(const StoredSnapshot& source, const CopiedSnapshot& result,
                    const absl::StatusOr<SnapshotNeeds>& needs);
  std::optional<BlobLocation> Find(const BlobHandle& handle) const;
  BlobWriterOptions WriterOptions() const {
    BlobWriterOptions options = options_.writer;
    options.known = stored_;
    options.fence = lock_.AsFence();
    return options;
  }
  absl::Status CopyBlobs(const BlobId& root, BlobWriter& writer);
  absl::Status CopyTree(const BlobId& tree, const absl::StatusOr<absl::string_view>& text,
                        bool is_root, std::vector<BlobId>& below, BlobWriter& writer);

  // Notes a data blob that was not copied yet and that the target does not have.
  absl::Status Want(const BlobHandle& blob, const BlobWriter& writer,
                    std::vector<BlobToFetch>& wanted);
  absl::Status CopyData(std::vector<BlobToFetch> blobs, BlobWriter& writer);
  std::vector<BlobToFetch> TakeWaiting();

  const CallContext& ctx_;
  Repository& from_;
  Repository& to_;
  Lock& lock_;
  const CopyOptions& options_;
  absl::flat_hash_map<std::pair<Id, BlobId>, Id> existing_;  // In the target, by origin and tree.
  absl::flat_hash_map<Id, Id> copies_;                       // From a source to its copy.
  absl::flat_hash_map<Id, const StoredSnapshot*> sources_;
  std::shared_ptr<StoredBlobs> stored_;  // In the target, from before this run.
  std::optional<BlobMarks> visited_{std::in_place, from_.index()};
  std::optional<BlobMarks> copied_{std::in_place, from_.index()};
  // Written for this snapshot or an earlier one of this run.
  // What all copies of this run need: they may share what was written for the first of them.
  absl::StatusOr<Inherited> needs_ = Inherited{};
  absl::flat_hash_map<BlobId, BlobLocation> places_;  // Of trees that this run wrote.
  std::atomic<int64_t> bytes_done_ = 0;               // read from the source, uncompressed
  Mutex mutex_;
  std::vector<BlobToFetch> waiting_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<std::vector<CopiedSnapshot>> Copier::Run(
    absl::Span<const StoredSnapshot> snapshots) {
  const absl::Time listed_at = ctx_.clock->Now();
  ASSIGN_OR_RETURN(const DistrustedPacks damaged, ReadDamaged(ctx_, to_));
  ASSIGN_OR_RETURN(PackBits absent, FindAbsentPacks(ctx_, to_, to_.index(), damaged));
  stored_ = std::make_shared<StoredBlobs>(to_.index(), std::move(absent), listed_at);
  RETURN_IF_ERROR(FindExisting());
  for (const StoredSnapshot& snapshot : snapshots) {
    sources_.emplace(snapshot.id, &snapshot);
  }
  const std::vector<const StoredSnapshot*> order = ParentsFirst(snapshots);
  std::vector<CopiedSnapshot> result;
  for (const StoredSnapshot* snapshot : order) {
    Report(options_.progress, "snapshots", result.size(), order.size());
    ASSIGN_OR_RETURN(CopiedSnapshot copied, Copy(*snapshot));
    copies_.emplace(snapshot->id, copied.copy);
    result.push_back(std::move(copied));
  }
  return result;
}

absl::Status Copier::FindExisting() {
  // One that does not read is not there as far as a copy goes.
  ASSIGN_OR_RETURN(const std::vector<StoredSnapshot> there,
                   to_.ListSnapshots(ctx_, [](const Id&, const absl::Status&) {}));
  for (const StoredSnapshot& snapshot : there) {
    existing_.emplace(std::pair(OriginOf(snapshot), snapshot.snapshot.tree), snapshot.id);
  }
  return absl::OkStatus();
}

absl::StatusOr<CopiedSnapshot> Copier::Copy(const StoredSnapshot& source) {
  const auto found = existing_.find(std::pair(OriginOf(source), source.snapshot.tree));
  if (found != existing_.end()) {
    return LookAgain(source, found->second);
  }
  CopiedSnapshot result = {.source = source.id, .copy = {}, .counts = {}};
  BlobWriter writer(ctx_, to_, WriterOptions());
  const absl::Status blobs = CopyBlobs(source.snapshot.tree, writer);
  if (!blobs.ok()) {
    return Annotate(blobs, absl::StrCat("copy snapshot ", source.id.ShortHex()));
  }
  RepoSnapshot copy = source.snapshot;
  copy.original = OriginOf(source);
  const auto parent = copies_.find(source.snapshot.parent.value_or(Id()));
  copy.parent = parent != copies_.end() ? std::optional<Id>(parent->second) : std::nullopt;
  const bool inherits = needs_.ok() && needs_->needs.has_value();
  ASSIGN_OR_RETURN(const SnapshotProof proof,
                   ProveNeeds(ctx_, to_, writer, inherits ? &*needs_ : nullptr, options_.limits));
  ASSIGN_OR_RETURN(const CommittedSnapshot committed,
                   CommitSnapshot(
                       ctx_, to_, writer, proof,
                       [this](const CallContext& fence_ctx) { return lock_.Fence(fence_ctx); },
                       [&] { return copy; }, options_.limits));
  result.copy = committed.id;
  for (const TreeLocation& tree : writer.tree_locations()) {
    places_.emplace(tree.tree, tree.location);
  }
  if (needs_.ok()) {
    needs_ = committed.needs.ok() ? absl::StatusOr<Inherited>(Inherited{.needs = *committed.needs})
                                  : committed.needs.status();
  }
  result.counts = writer.counts();
  result.not_noted = Note(source, result, needs_.ok() ? committed.needs : needs_.status());
  return result;
}

absl::StatusOr<CopiedSnapshot> Copier::LookAgain(const StoredSnapshot& source, const Id& copy) {
  CopiedSnapshot result = {.source = source.id, .copy = copy, .was_there = true, .counts = {}};
  const absl::StatusOr<TreeLocator> locator = to_.LoadLocator(ctx_, copy);
  RETURN_IF_ERROR(ctx_.Check());
  if (locator.ok() && locator->needs.has_value()) {
    ASSIGN_OR_RETURN(const bool is_whole,
                     AreIndexed(ctx_, to_, *locator->needs, stored_->unusable()));
    if (is_whole) {
      return result;
    }
  }
  const absl::StatusOr<SnapshotNeeds> needs = FindNeeds(source.snapshot.tree);
  if (needs.ok()) {
    result.not_noted = Note(source, result, needs);
    return result;
  }
  if (!IsDamage(needs.status())) {
    return needs.status();
  }
  result.was_damaged = needs.status();
  RETURN_IF_ERROR(Mend(source, result));
  return result;
}

absl::StatusOr<SnapshotNeeds> Copier::FindNeeds(const BlobId& root) {
  NeededBlobs blobs(to_, stored_->unusable());
  BlobMarks visited(to_.index());
  RETURN_IF_ERROR(WalkTrees(ctx_, to_, absl::MakeConstSpan(&root, 1), visited,
                            [&](const BlobId& tree, const absl::StatusOr<absl::string_view>& text,
                                std::vector<BlobId>& below) -> absl::Status {
                              RETURN_IF_ERROR(text.status());
                              RETURN_IF_ERROR(blobs.AddTree(tree));
                              return ReadTreeNodes(*text, below, [&](const Node& node) {
                                return node.content.has_value() ? blobs.AddData(*node.content)
                                                                : absl::OkStatus();
                              });
                            }));
  return blobs.ToNeeds(ctx_, to_, stored_->listed_at(), options_.limits);
}

absl::Status Copier::Mend(const StoredSnapshot& source, CopiedSnapshot& result) {
  BlobWriter writer(ctx_, to_, WriterOptions());
  result.not_mended = CopyBlobs(source.snapshot.tree, writer);
  if (IsDamage(result.not_mended)) {
    // Some of its trees were visited, and what they name was not written.
    visited_.emplace(from_.index());
    copied_.emplace(from_.index());
    const MutexLock lock(mutex_);
    waiting_.clear();
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(result.not_mended);
  RETURN_IF_ERROR(writer.Flush());
  result.counts = writer.counts();
  return lock_.Fence(ctx_);
}

absl::Status Copier::Note(const StoredSnapshot& source, const CopiedSnapshot& result,
                          const absl::StatusOr<SnapshotNeeds>& needs) {
  RETURN_IF_ERROR(needs.status());
  if (options_.note == nullptr) {
    return absl::OkStatus();
  }
  CopyToNote copy = {.source = source,
                     .source_parent = nullptr,
                     .copy = result.copy,
                     .copy_parent = std::nullopt,
                     .needs = *needs,
                     .find = [this](const BlobHandle& handle) { return Find(handle); }};
  const auto parent = copies_.find(source.snapshot.parent.value_or(Id()));
  if (!result.was_there && parent != copies_.end()) {
    copy.source_parent = sources_.at(parent->first);
    copy.copy_parent = parent->second;
  }
  return options_.note(ctx_, copy);
}

std::optional<BlobLocation> Copier::Find(const BlobHandle& handle) const {
  const auto written = places_.find(handle.id);
  return written != places_.end() ? std::optional(written->second) : stored_->Find(handle);
}

absl::Status Copier::CopyBlobs(const BlobId& root, BlobWriter& writer) {
  const auto copy_tree = [&](const BlobId& tree, const absl::StatusOr<absl::string_view>& text,
                             std::vector<BlobId>& below) {
    return CopyTree(tree, text, tree == root, below, writer);
  };
  return WalkTrees(ctx_, from_, absl::MakeConstSpan(&root, 1), *visited_, copy_tree,
                   {.batch_trees = kBatchTrees, .sink_writes = true, .after_batch = [&] {
                      return CopyData(TakeWaiting(), writer);
                    }});
}

std::vector<BlobToFetch> Copier::TakeWaiting() {
  const MutexLock lock(mutex_);
  return std::exchange(waiting_, {});
}

absl::Status Copier::CopyTree(const BlobId& tree, const absl::StatusOr<absl::string_view>& text,
                              bool is_root, std::vector<BlobId>& below, BlobWriter& writer) {
  RETURN_IF_ERROR(text.status());
  RETURN_IF_ERROR(writer.AddBlob(BlobType::kTree, tree, *text).status());
  std::vector<BlobToFetch> wanted;
  const absl::Status read = ReadTreeNodes(*text, below, [&](const Node& node) {
    absl::Status status;
    for (const BlobId& id : node.content.value_or(std::vector<BlobId>())) {
      if (is_root) {
        writer.RememberLocation(id);  // Of volume.json.
      }
      status.Update(Want({.type = BlobType::kData, .id = id}, writer, wanted));
    }
    return status;
  });
  RETURN_IF_ERROR(read);
  const MutexLock lock(mutex_);
  waiting_.insert(waiting_.end(), wanted.begin(), wanted.end());
  return absl::OkStatus();
}

absl::Status Copier::Want(const BlobHandle& blob, const BlobWriter& writer,
                          std::vector<BlobToFetch>& wanted) {
  ASSIGN_OR_RETURN(const std::optional<IndexedCopy> copy, from_.index().Find(blob));
  if (!copy.has_value()) {
    return absl::DataLossError(absl::StrCat(Describe(blob), " is in no index"));
  }
  if (copied_->Mark(copy->first) && !writer.IsKnown(blob)) {
    wanted.push_back({.handle = blob, .location = from_.index().LocationOf(*copy)});
  }
  return absl::OkStatus();
}

absl::Status Copier::CopyData(std::vector<BlobToFetch> blobs, BlobWriter& writer) {
  if (blobs.empty()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const MemoryBudget::Share share,
                   from_.memory().Take(std::ssize(blobs) * kPassBytesPerBlob, "copying blobs"));
  return FetchBlobs(
      ctx_, from_, std::move(blobs),
      [&](const FetchedBlob& blob) {
        RETURN_IF_ERROR(blob.plaintext.status());
        Report(options_.progress, kCopying, bytes_done_ += std::ssize(*blob.plaintext), 0);
        return writer.AddBlob(blob.handle.type, blob.handle.id, *blob.plaintext, blob.frame)
            .status();
      },
      {.sink_writes = true});
}

// The snapshots to copy, oldest first.
absl::StatusOr<std::vector<StoredSnapshot>> Select(const CallContext& ctx, const Repository& from,
                                                   absl::Span<const Id> ids) {
  if (ids.empty()) {
    return from.ListSnapshots(ctx, [](const Id& id, const absl::Status& why) {
      CSIDELTA_LOG(kWarn, "a snapshot cannot be read, and is not copied", {"snapshot", id.Hex()},
                   {"error", std::string(why.message())});
    });
  }
  std::vector<StoredSnapshot> selected;
  for (const Id& id : ids) {
    ASSIGN_OR_RETURN(RepoSnapshot snapshot, from.LoadSnapshot(ctx, id));
    selected.push_back({.id = id, .snapshot = std::move(snapshot)});
  }
  std::stable_sort(selected.begin(), selected.end(),
                   [](const StoredSnapshot& left, const StoredSnapshot& right) {
                     return left.snapshot.time < right.snapshot.time;
                   });
  return selected;
}

}  // namespace

absl::StatusOr<std::vector<CopiedSnapshot>> CopySnapshots(const CallContext& ctx, Repository& from,
                                                          Repository& to, Lock& lock,
                                                          absl::Span<const Id> ids,
                                                          const CopyOptions& options) {
  CSIDELTA_CHECK(&from != &to);
  if (from.config().id == to.config().id) {
    return absl::InvalidArgumentError("source and target are the same repository");
  }
  ASSIGN_OR_RETURN(const std::vector<StoredSnapshot> snapshots, Select(ctx, from, ids));
  RETURN_IF_ERROR(from.LoadReadableIndex(ctx));
  RETURN_IF_ERROR(to.LoadReadableIndex(ctx));
  MemoryBudget& memory = from.memory();
  const int64_t copies = from.index().entry_count();
  ASSIGN_OR_RETURN(
      const MemoryBudget::Share marks_share,
      memory.Take(copies * kCopyBitsPerBlob / 8, absl::StrCat("copying of ", copies, " blobs")));
  ASSIGN_OR_RETURN(const WriterRoom room, TakeWriterRoomLike(memory, from.index(), options.writer));
  CopyOptions bounded = options;
  bounded.writer = room.options;
  return Copier(ctx, from, to, lock, bounded).Run(snapshots);
}

}  // namespace csidelta::repository
