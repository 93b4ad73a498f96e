#include "incremental/held_proof.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "repository/stored_packs.h"

namespace csidelta::incremental {
namespace {

using repository::BlobHandle;
using repository::BlobId;
using repository::BlobIndex;
using repository::BlobLocation;
using repository::BlobType;
using repository::DistrustedPacks;
using repository::Id;
using repository::kFanout;
using repository::PackId;
using repository::PackSample;
using repository::Repository;

// Two pages of a listing, and the third that says that there are more. Then some packs are looked
// for one by one.
constexpr std::size_t kPacksListedMax = 2000;
constexpr std::size_t kTreePacksMax = 5;
constexpr std::size_t kDataPacksMax = 6;
static_assert(kPacksListedMax / 1000 + 1 + kTreePacksMax + kDataPacksMax == kHeldRequestsMax);

// Looks up by the index, which is loaded, which packs hold what of a volume.
class IndexProof {
 public:
  // Borrows all.
  IndexProof(const CallContext& ctx, const BlobIndex& index, const VolumeRecord& parent,
             TreeFetcher& fetcher, const absl::flat_hash_set<PackId>& unusable,
             const DistrustedPacks& distrusted)
      : ctx_(ctx),
        index_(index),
        parent_(parent),
        fetcher_(fetcher),
        unusable_(unusable),
        distrusted_(distrusted) {}

  // DATA_LOSS when only unusable packs hold the blob, or none.
  absl::Status LookUp(BlobType type, const BlobId& id) const;
  absl::Status LookUpUpperTrees() const;
  absl::Status LookUpVolume() const;
  absl::Status LookUpReliedOn(const ReliedOn& relied_on) const;

 private:
  std::string WhyUnusable(const PackId& pack) const;

  const CallContext& ctx_;
  const BlobIndex& index_;
  const VolumeRecord& parent_;
  TreeFetcher& fetcher_;
  const absl::flat_hash_set<PackId>& unusable_;
  const DistrustedPacks& distrusted_;
};

class HeldProof {
 public:
  HeldProof(const CallContext& ctx, Repository& repository, const VolumeRecord& parent,
            TreeFetcher& fetcher, const ReliedOn& relied_on, Random& random);
  absl::StatusOr<PackSample> Run();

 private:
  // The packs of trees whose places are known.
  std::vector<PackId> TreePacks() const;
  absl::StatusOr<bool> LookForAll(const PackSample& sample);

  // Takes what is stored out of `missing`. False when there are too many packs to be listed.
  absl::StatusOr<bool> Cross(absl::flat_hash_set<PackId>& missing) const;
  absl::StatusOr<bool> LookForSome(std::vector<PackId> packs, std::size_t max) const;

  const CallContext& ctx_;
  Repository& repository_;
  const VolumeRecord& parent_;
  TreeFetcher& fetcher_;
  const ReliedOn& relied_on_;
  Random& random_;
};

HeldProof::HeldProof(const CallContext& ctx, Repository& repository, const VolumeRecord& parent,
                     TreeFetcher& fetcher, const ReliedOn& relied_on, Random& random)
    : ctx_(ctx),
      repository_(repository),
      parent_(parent),
      fetcher_(fetcher),
      relied_on_(relied_on),
      random_(random) {}

absl::StatusOr<PackSample> HeldProof::Run() {
  const PackSample& sample = parent_.places->locator().data_packs;
  // What a locator that is not bound says of packs is not known.
  const bool is_known = parent_.places->locator().is_bound;
  ASSIGN_OR_RETURN(const bool are_there,
                   is_known ? LookForAll(sample) : absl::StatusOr<bool>(false));
  if (are_there) {
    return sample;
  }
  RETURN_IF_ERROR(repository_.LoadReadableIndex(ctx_));
  ASSIGN_OR_RETURN(const absl::flat_hash_set<PackId> absent,
                   repository::FindAbsentPacks(ctx_, repository_, repository_.index()));
  const DistrustedPacks none;
  const IndexProof proof(ctx_, repository_.index(), parent_, fetcher_, absent, none);
  RETURN_IF_ERROR(proof.LookUpUpperTrees());
  RETURN_IF_ERROR(parent_.layout.leaf_count() <= kLeavesWalkedMax
                      ? proof.LookUpVolume()
                      : proof.LookUpReliedOn(relied_on_));
  // Repacked since, or of no use to the parent.
  return repository::SampleDataPacks(repository_.index(), absent);
}

std::vector<PackId> HeldProof::TreePacks() const {
  std::vector<PackId> packs;
  for (const WantedTree& leaf : relied_on_.leaves) {
    if (const std::optional<BlobLocation> place = parent_.places->Find(leaf.position)) {
      packs.push_back(place->pack);
    }
  }
  std::sort(packs.begin(), packs.end());
  packs.erase(std::unique(packs.begin(), packs.end()), packs.end());
  return packs;
}

absl::StatusOr<bool> HeldProof::LookForAll(const PackSample& sample) {
  const std::vector<PackId> trees = TreePacks();
  if (sample.count + trees.size() <= PackSample::kMax) {
    absl::flat_hash_set<PackId> missing(sample.packs.begin(), sample.packs.end());
    missing.insert(trees.begin(), trees.end());
    ASSIGN_OR_RETURN(const bool all_listed, Cross(missing));
    if (all_listed) {
      return missing.empty();
    }
  }
  ASSIGN_OR_RETURN(const bool trees_there, LookForSome(trees, kTreePacksMax));
  ASSIGN_OR_RETURN(const bool data_there, LookForSome(sample.packs, kDataPacksMax));
  return trees_there && data_there;
}

absl::StatusOr<bool> HeldProof::Cross(absl::flat_hash_set<PackId>& missing) const {
  std::size_t seen = 0;
  const absl::Status listed = repository_.store().List(
      ctx_, "data/", [&](const storage::ObjectInfo& object) -> absl::Status {
        if (++seen > kPacksListedMax) {
          return absl::OutOfRangeError("enough");  // Ends the listing.
        }
        const absl::StatusOr<Id> id =
            Id::Parse(absl::string_view(object.key).substr(object.key.rfind('/') + 1));
        if (id.ok()) {
          missing.erase(*id);
        }
        return absl::OkStatus();
      });
  if (seen > kPacksListedMax) {
    return false;
  }
  RETURN_IF_ERROR(listed);
  return true;
}

absl::StatusOr<bool> HeldProof::LookForSome(std::vector<PackId> packs, std::size_t max) const {
  for (std::size_t i = 0; i < std::min(max, packs.size()); ++i) {
    std::swap(packs[i], packs[i + random_.Below(packs.size() - i)]);
    const absl::Status found =
        repository_.store().Stat(ctx_, repository::PackKey(packs[i])).status();
    if (absl::IsNotFound(found)) {
      return false;
    }
    RETURN_IF_ERROR(found);
  }
  return true;
}

absl::Status IndexProof::LookUp(BlobType type, const BlobId& id) const {
  const BlobHandle handle = {.type = type, .id = id};
  ASSIGN_OR_RETURN(const std::vector<BlobLocation> copies, index_.Lookup(handle));
  const bool held = std::any_of(copies.begin(), copies.end(), [this](const BlobLocation& copy) {
    return !unusable_.contains(copy.pack);
  });
  if (held) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      Describe(handle), copies.empty()
                            ? std::string(" is in no index")
                            : absl::StrCat(" lies in ", WhyUnusable(copies.front().pack))));
}

std::string IndexProof::WhyUnusable(const PackId& pack) const {
  const std::string name = absl::StrCat("pack ", pack.ShortHex());
  if (distrusted_.packs.contains(pack)) {
    return absl::StrCat(name, ", which a check found damaged");
  }
  return distrusted_.written_until > absl::InfinitePast()
             ? absl::StrCat(name,
                            ", which is not stored, or no newer than those that a check found "
                            "damaged")
             : absl::StrCat(name, ", which is not stored");
}

absl::Status IndexProof::LookUpUpperTrees() const {
  RETURN_IF_ERROR(LookUp(BlobType::kTree, parent_.stored.snapshot.tree));
  RETURN_IF_ERROR(LookUp(BlobType::kTree, parent_.root.image_tree));
  for (const BlobId& tree : parent_.level1_trees) {
    RETURN_IF_ERROR(LookUp(BlobType::kTree, tree));
  }
  return absl::OkStatus();
}

absl::Status IndexProof::LookUpVolume() const {
  for (int64_t level1 = 0; level1 < parent_.layout.level1_count(); ++level1) {
    RETURN_IF_ERROR(ctx_.Check());
    ASSIGN_OR_RETURN(const std::vector<BlobId> trees, LoadLeafIds(ctx_, parent_, fetcher_, level1));
    for (const BlobId& tree : trees) {
      RETURN_IF_ERROR(LookUp(BlobType::kTree, tree));
    }
    std::vector<int64_t> leaves(trees.size());
    std::iota(leaves.begin(), leaves.end(), level1 * kFanout);
    ASSIGN_OR_RETURN(const std::vector<std::vector<BlobId>> chunks,
                     LoadChunkIds(ctx_, parent_, fetcher_, leaves, trees));
    for (const std::vector<BlobId>& ids : chunks) {
      for (const BlobId& id : ids) {
        RETURN_IF_ERROR(LookUp(BlobType::kData, id));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status IndexProof::LookUpReliedOn(const ReliedOn& relied_on) const {
  for (const WantedTree& leaf : relied_on.leaves) {
    RETURN_IF_ERROR(LookUp(BlobType::kTree, leaf.id));
  }
  for (const BlobId& chunk : relied_on.chunks) {
    RETURN_IF_ERROR(LookUp(BlobType::kData, chunk));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PackSample> ProveHeld(const CallContext& ctx, Repository& repository,
                                     const VolumeRecord& parent, TreeFetcher& fetcher,
                                     const ReliedOn& relied_on, Random& random) {
  return HeldProof(ctx, repository, parent, fetcher, relied_on, random).Run();
}

absl::Status ProveWhole(const CallContext& ctx, const BlobIndex& index, const VolumeRecord& parent,
                        TreeFetcher& fetcher, const absl::flat_hash_set<PackId>& unusable,
                        const DistrustedPacks& distrusted) {
  const IndexProof proof(ctx, index, parent, fetcher, unusable, distrusted);
  RETURN_IF_ERROR(proof.LookUpUpperTrees());
  return proof.LookUpVolume();
}

}  // namespace csidelta::incremental
