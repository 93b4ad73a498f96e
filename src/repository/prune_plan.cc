#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "repository/blob_references.h"
#include "repository/index.h"
#include "repository/maintenance_memory.h"
#include "repository/pack_reader.h"
#include "repository/pruner.h"
#include "repository/tree_walk.h"

namespace csidelta::repository {
namespace {

constexpr std::size_t kSmallPacksToMerge = 10;

absl::Status Refuse(absl::string_view what, absl::string_view next_step) {
  return absl::FailedPreconditionError(
      absl::StrCat("not pruning a damaged repository: ", what, "; ", next_step));
}

// What becomes of one pack. There are millions of them.
struct PackUse {
  uint32_t used_bytes = 0;  // Of the copies to keep; a pack is shorter than 4 GiB.
  uint32_t keepers : 29 = 0;
  uint32_t present : 1 = 0;  // Stored, with exactly the bytes that the index lists.
  uint32_t used : 1 = 0;     // Holds a used blob, which another pack may keep.
  uint32_t distrusted : 1 = 0;
};
static_assert(sizeof(PackUse) == 8);  // There are ten million of them, perhaps.

// The bits that plan and run hold for each copy: used, present, doubled, kept, keeper.
constexpr int64_t kPruneBitsPerCopy = 5;

int64_t BytesInPack(const PackEntry& entry) {
  return PackBytes(absl::MakeConstSpan(&entry, 1)) - PackBytes({});
}

class Planner {
 public:
  Planner(const CallContext& ctx, Repository& repository, const PruneOptions& options)
      : ctx_(ctx), repository_(repository), options_(options) {}
  absl::StatusOr<PrunePlan> Make();

 private:
  // A pack that may be written again, with what decides in which order.
  struct Candidate {
    uint32_t pack = 0;
    float unused_share = 0;
    bool must = false;  // whatever the limit of unused bytes
  };

  const BlobIndex& index() const { return repository_.index(); }

  // Marks every blob that a snapshot reaches.
  absl::Status FindUsed();
  static absl::Status RefuseTree(const BlobId& tree, absl::string_view why);
  absl::Status AddContent(const BlobId& tree, const absl::StatusOr<absl::string_view>& text,
                          std::vector<BlobId>& below);
  absl::Status MarkContent();
  absl::Status FindSidecars();

  // What is stored against what is indexed.
  absl::Status ComparePacks();
  void Keep(const IndexedCopy& copy);

  // Chooses one copy of each used blob: where there are several, one in a pack that is trusted, and
  // that stays anyway.
  absl::Status ChooseKeepers();

  // Calls `visit` for each stored copy of a used blob.
  template <typename Visit>
  absl::Status ForEachUsed(Visit visit) {
    return index().ForEach([&](const IndexedCopy& copy) {
      if (used_.Contains(copy.first) && packs_[copy.pack_ordinal].present) {
        visit(copy);
      }
    });
  }

  absl::Status SumUpBlobs();
  int64_t UnusedMax() const;
  absl::Status ChoosePacks();
  absl::Status ChooseRepacked(std::vector<Candidate> candidates);

  static bool MustBeRepacked(const PackInfo& info, const PackUse& use) {
    return (info.has_data && info.has_tree) || info.has_plain_tree ||
           (info.has_tree && use.keepers < info.blobs);
  }
  int64_t UnusedBlobBytes(uint32_t pack) const {
    return index().info(pack).stored_bytes - packs_[pack].used_bytes - PackBytes({});
  }

  // False when the limit is reached.
  absl::StatusOr<bool> Repack(uint32_t pack);
  template <typename T>
  absl::Status Note(std::vector<T>& list, const T& element) {
    return repository_.memory().Append(plan_.lists_share, list, element, "planning a prune");
  }
  // Packs below it are small ones.
  int64_t SmallPackBytes() const;
  void SumUpPlan();

  const CallContext& ctx_;
  Repository& repository_;
  const PruneOptions& options_;
  BlobMarks used_{repository_.index()};
  BlobReferences content_{repository_.scratch()};  // What trees name.
  std::vector<PackUse> packs_;                     // By ordinal.
  absl::flat_hash_set<Id> snapshots_;
  PrunePlan plan_;
};

absl::StatusOr<PrunePlan> Planner::Make() {
  const int64_t copies = index().entry_count();
  const int64_t packs = index().pack_count();
  ASSIGN_OR_RETURN(
      plan_.share,
      repository_.memory().Keep(
          copies * kPruneBitsPerCopy / 8 + packs * static_cast<int64_t>(sizeof(PackUse)),
          absl::StrCat("planning a prune of ", copies, " blobs in ", packs, " packs")));
  RETURN_IF_ERROR(FindUsed());
  RETURN_IF_ERROR(FindSidecars());
  malloc_trim(0);  // Else what the walk gave back stays, beside as much that is allocated now.
  RETURN_IF_ERROR(ComparePacks());
  RETURN_IF_ERROR(ChooseKeepers());
  RETURN_IF_ERROR(SumUpBlobs());
  RETURN_IF_ERROR(ChoosePacks());
  return std::move(plan_);
}

absl::Status Planner::FindUsed() {
  std::vector<Id> damaged;
  ASSIGN_OR_RETURN(const std::vector<StoredSnapshot> snapshots,
                   repository_.ListSnapshots(
                       ctx_, [&](const Id& id, const absl::Status&) { damaged.push_back(id); }));
  // What a snapshot needs whose file does not read is unknown: pruning could remove it.
  if (!damaged.empty()) {
    const std::string hex = damaged.front().Hex();
    return Refuse(absl::StrCat("the file snapshots/", hex, " cannot be read",
                               damaged.size() == 1 ? ""
                                                   : absl::StrCat(", nor do ", damaged.size() - 1,
                                                                  " others, which csi-delta check "
                                                                  "names")),
                  absl::StrCat("csi-delta forget ", hex, " removes this file"));
  }
  for (const StoredSnapshot& snapshot : snapshots) {
    snapshots_.insert(snapshot.id);
  }
  plan_.figures.snapshots = static_cast<int64_t>(snapshots.size());
  std::atomic<int64_t> trees = 0;
  RETURN_IF_ERROR(WalkTrees(ctx_, repository_, RootsOf(snapshots), used_,
                            [&](const BlobId& tree, const absl::StatusOr<absl::string_view>& text,
                                std::vector<BlobId>& below) {
                              Report(options_.progress, "trees", ++trees, 0);
                              return AddContent(tree, text, below);
                            }));
  return MarkContent();
}

absl::Status Planner::RefuseTree(const BlobId& tree, absl::string_view why) {
  return Refuse(absl::StrCat("tree ", tree.ShortHex(), ": ", why),
                "csi-delta check says what helps");
}

absl::Status Planner::AddContent(const BlobId& tree, const absl::StatusOr<absl::string_view>& text,
                                 std::vector<BlobId>& below) {
  absl::Status status = text.status();
  if (status.ok()) {
    ASSIGN_OR_RETURN(const std::optional<IndexedCopy> copy, index().FindTree(tree));
    status = ReadTreeNodes(*text, below, [&](const Node& node) {
      return node.content.has_value() ? content_.Add(copy->first, *node.content) : absl::OkStatus();
    });
  }
  return IsDamage(status) ? RefuseTree(tree, status.message()) : status;
}

absl::Status Planner::MarkContent() {
  return content_.Resolve(
      index(), [this](const BlobId& id, uint32_t tree, const IndexedCopy* copy) -> absl::Status {
        if (copy == nullptr) {
          ASSIGN_OR_RETURN(const PackEntry entry, index().EntryOf(tree));
          const BlobHandle blob = {.type = BlobType::kData, .id = id};
          return RefuseTree(entry.handle.id, absl::StrCat(Describe(blob), " is in no index"));
        }
        used_.Mark(copy->first);
        return absl::OkStatus();
      });
}

absl::Status Planner::FindSidecars() {
  absl::flat_hash_set<Id> needed;
  std::vector<std::string> parts;  // of locators: named by their content
  std::vector<Id> kept;
  RETURN_IF_ERROR(repository_.store().List(
      ctx_, kSidecarFolder, [&](const storage::ObjectInfo& object) -> absl::Status {
        const absl::StatusOr<Id> id = IdOfKey(object.key);
        if (!id.ok()) {
          return absl::OkStatus();
        }
        if (absl::StartsWith(object.key, kLocatorFolder) ||
            absl::StartsWith(object.key, kIdSetFolder)) {
          parts.push_back(object.key);
        } else if (object.key == SidecarKey(*id) && snapshots_.contains(*id)) {
          kept.push_back(*id);
        } else {
          plan_.sidecar_keys.push_back(object.key);
        }
        return absl::OkStatus();
      }));
  for (const Id& snapshot : kept) {
    // One that does not read is of no use to anybody.
    const absl::StatusOr<TreeLocator> locator = repository_.LoadLocator(ctx_, snapshot);
    RETURN_IF_ERROR(ctx_.Check());
    if (locator.ok()) {
      locator->AddFilesTo(needed);
    } else if (!IsDamage(locator.status())) {
      return locator.status();  // It may read another time.
    }
  }
  for (const std::string& part : parts) {
    if (!needed.contains(*IdOfKey(part))) {
      plan_.sidecar_keys.push_back(part);
    }
  }
  return absl::OkStatus();
}

absl::Status Planner::ComparePacks() {
  // A pack of another size than its index says was not written to its end, or was replaced: none of
  // its copies counts, and what only it holds is found missing in ChooseKeepers().
  packs_.resize(index().pack_count());
  RETURN_IF_ERROR(ListPacksFast(ctx_, repository_, [&](const FileInfo& file) -> absl::Status {
    const std::optional<uint32_t> ordinal = index().FindPack(file.id);
    if (!ordinal.has_value()) {
      RETURN_IF_ERROR(Note(plan_.unindexed, file.id));
      plan_.figures.bytes_unindexed += file.size_bytes;
    } else if (index().info(*ordinal).stored_bytes == file.size_bytes) {
      packs_[*ordinal].present = 1;
      packs_[*ordinal].distrusted = options_.distrusted.Contains(file) ? 1 : 0;
    }
    return absl::OkStatus();
  }));
  std::sort(plan_.unindexed.begin(), plan_.unindexed.end());
  return absl::OkStatus();
}

void Planner::Keep(const IndexedCopy& copy) {
  plan_.keepers[copy.number] = true;
  ++packs_[copy.pack_ordinal].keepers;
  packs_[copy.pack_ordinal].used_bytes += static_cast<uint32_t>(BytesInPack(copy.entry));
  plan_.blob_bytes_max = std::max(
      plan_.blob_bytes_max,
      std::min<int64_t>(std::max(copy.entry.span.sealed_bytes, copy.entry.span.plaintext_bytes()),
                        kLargeBlobBytes));
}

absl::Status Planner::ChooseKeepers() {
  plan_.keepers.resize(static_cast<std::size_t>(index().entry_count()));
  BlobMarks present(index());
  BlobMarks doubled(index());
  RETURN_IF_ERROR(ForEachUsed([&](const IndexedCopy& copy) {
    if (!present.Mark(copy.first)) {
      doubled.Mark(copy.first);
    }
  }));
  if (present.count() != used_.count()) {
    return Refuse(absl::StrCat(used_.count() - present.count(),
                               " used blobs lie only in packs that are missing or cut short"),
                  "csi-delta check says what helps");
  }
  RETURN_IF_ERROR(ForEachUsed([&](const IndexedCopy& copy) {
    if (!doubled.Contains(copy.first)) {
      Keep(copy);
    }
  }));
  // Of a blob with several copies one is kept. Packs that stay anyway come first, so that few packs
  // stay for such copies alone; passes over the index cost less memory than sorting the copies.
  struct Pass {
    bool only_in_used_packs;
    bool only_in_trusted_packs;
  };
  constexpr Pass kPasses[] = {{true, true}, {false, true}, {false, false}};
  BlobMarks kept(index());
  for (const Pass& pass : kPasses) {
    if (kept.count() == doubled.count()) {
      break;
    }
    RETURN_IF_ERROR(ForEachUsed([&](const IndexedCopy& copy) {
      const PackUse& pack = packs_[copy.pack_ordinal];
      const bool eligible = (pack.keepers > 0 || !pass.only_in_used_packs) &&
                            !(pack.distrusted && pass.only_in_trusted_packs);
      if (eligible && doubled.Contains(copy.first) && kept.Mark(copy.first)) {
        Keep(copy);
      }
    }));
  }
  return absl::OkStatus();
}

absl::Status Planner::SumUpBlobs() {
  PruneFigures& figures = plan_.figures;
  return index().ForEach([&](const IndexedCopy& copy) {
    const bool used = used_.Contains(copy.first);
    const bool keeper = plan_.keepers[copy.number];
    if (used) {
      packs_[copy.pack_ordinal].used = 1;
    }
    ++(keeper ? figures.blobs_used : used ? figures.blobs_duplicate : figures.blobs_unused);
    (keeper ? figures.bytes_used
     : used ? figures.bytes_duplicate
            : figures.bytes_unused) += copy.entry.span.sealed_bytes;
  });
}

int64_t Planner::UnusedMax() const {
  const UnusedLimit& limit = options_.unused_max;
  if (limit.bytes >= 0) {
    return limit.bytes;
  }
  if (limit.percent >= 100) {
    return std::numeric_limits<int64_t>::max();
  }
  return static_cast<int64_t>(static_cast<double>(plan_.figures.bytes_used) * limit.percent /
                              (100 - limit.percent));
}

int64_t Planner::SmallPackBytes() const {
  // What is written is no longer than memory allows, and must not be small in turn.
  const WriterPlan writer = PlanWriter({.free_bytes = repository_.memory().free_bytes(),
                                        .pack_bytes_wanted = options_.pack_target_bytes,
                                        .blob_bytes_max = plan_.blob_bytes_max});
  return writer.pack_bytes / 4;
}

absl::Status Planner::ChoosePacks() {
  const int64_t small_bytes = SmallPackBytes();
  std::vector<Candidate> candidates;
  std::vector<uint32_t> small[2];  // By type.
  int64_t small_found = 0;         // Of these bytes no more than may be repacked.
  for (uint32_t i = 0; i < packs_.size(); ++i) {
    const PackUse& use = packs_[i];
    const PackInfo info = index().info(i);
    if (use.keepers == 0) {
      RETURN_IF_ERROR(Note(use.used ? plan_.removed : plan_.unused, i));
      ++(use.present ? plan_.figures.packs_removed : plan_.figures.packs_missing);
      plan_.figures.bytes_removed += use.present ? info.stored_bytes : 0;
    } else if (use.distrusted) {
      continue;  // What it holds may not read, which would end the prune.
    } else if (MustBeRepacked(info, use) || use.keepers < info.blobs) {
      RETURN_IF_ERROR(
          Note(candidates, {.pack = i,
                            .unused_share = static_cast<float>(info.stored_bytes - use.used_bytes) /
                                            static_cast<float>(info.stored_bytes),
                            .must = MustBeRepacked(info, use)}));
    } else if (info.stored_bytes < small_bytes && info.blobs < kPackEntriesTarget / 4 &&
               info.stored_bytes <= options_.repack_bytes_max - small_found) {
      small_found += info.stored_bytes;
      RETURN_IF_ERROR(Note(small[info.has_tree ? 1 : 0], i));
    }
  }
  RETURN_IF_ERROR(ChooseRepacked(std::move(candidates)));
  for (const std::vector<uint32_t>& packs : small) {
    if (options_.merge_small_packs && packs.size() >= kSmallPacksToMerge) {
      for (const uint32_t pack : packs) {
        RETURN_IF_ERROR(Repack(pack).status());
      }
    }
  }
  SumUpPlan();
  return absl::OkStatus();
}

absl::Status Planner::ChooseRepacked(std::vector<Candidate> candidates) {
  // The greatest share of unused bytes first: it frees the most for the bytes that are written
  // again.
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& left, const Candidate& right) {
              return std::tuple(!left.must, -left.unused_share, left.pack) <
                     std::tuple(!right.must, -right.unused_share, right.pack);
            });
  int64_t& unused_after = plan_.figures.bytes_unused_after;
  for (const Candidate& one : candidates) {
    unused_after += UnusedBlobBytes(one.pack);
  }
  for (const Candidate& one : candidates) {
    if (one.must || unused_after > UnusedMax()) {
      ASSIGN_OR_RETURN(const bool is_repacked, Repack(one.pack));
      unused_after -= is_repacked ? UnusedBlobBytes(one.pack) : 0;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Planner::Repack(uint32_t pack) {
  // A pack that does not fit is left for the next prune, while smaller ones after it may still fit.
  int64_t& repacked = plan_.figures.bytes_repacked;
  const int64_t stored_bytes = index().info(pack).stored_bytes;
  if (stored_bytes > options_.repack_bytes_max - repacked) {
    return false;
  }
  repacked += stored_bytes;
  RETURN_IF_ERROR(Note(plan_.repack, pack));
  return true;
}

void Planner::SumUpPlan() {
  PruneFigures& figures = plan_.figures;
  figures.packs_repacked = static_cast<int64_t>(plan_.repack.size());
  figures.packs_unindexed = static_cast<int64_t>(plan_.unindexed.size());
  figures.packs_kept = static_cast<int64_t>(packs_.size() - plan_.repack.size()) -
                       figures.packs_removed - figures.packs_missing;
  figures.bytes_freed = figures.bytes_removed + figures.bytes_unindexed;
  for (const uint32_t pack : plan_.repack) {
    figures.bytes_freed +=
        packs_[pack].keepers < index().info(pack).blobs ? UnusedBlobBytes(pack) : 0;
  }
}

}  // namespace

absl::StatusOr<UnusedLimit> ParseUnusedLimit(absl::string_view text) {
  UnusedLimit limit;
  if (text == "unlimited") {
    limit.percent = 100;
  } else if (!text.empty() && text.back() == '%') {
    ASSIGN_OR_RETURN(limit.percent, ParsePercent(text));
  } else {
    ASSIGN_OR_RETURN(limit.bytes, ParseByteSize(text));
  }
  return limit;
}

absl::StatusOr<PrunePlan> PlanPrune(const CallContext& ctx, Repository& repository,
                                    const PruneOptions& options) {
  const absl::Status loaded = repository.LoadIndex(ctx);
  if (absl::IsDataLoss(loaded)) {
    return Refuse(loaded.message(), "run repair index");
  }
  RETURN_IF_ERROR(loaded);
  if (!repository.packs_listed_differently().empty()) {
    return Refuse(absl::StrCat("pack ", repository.packs_listed_differently().front().ShortHex(),
                               " is listed differently by two index files"),
                  "run repair index");
  }
  return Planner(ctx, repository, options).Make();
}

}  // namespace csidelta::repository
