#include "repository/snapshot_proof.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "repository/index_rewriter.h"
#include "repository/maintenance.h"

namespace csidelta::repository {
namespace {

// Of the chunks of a volume, which are many.
constexpr int64_t kBlobSortBytes = int64_t{8} << 20;
// In a sorter: what is listed stands before what is needed of the same name.
constexpr uint8_t kListed = 0;
constexpr uint8_t kNeeded = 1;

absl::Status ConfirmSnapshot(const CallContext& ctx, Repository& repository, const Id& snapshot,
                             const LockFence& fence) {
  absl::Status held = fence(ctx);
  if (!held.ok() && !ctx.Check().ok()) {
    // A stop that comes now does not make it right to doubt what is stored.
    held = fence(FinalContext(ctx));
  }
  if (held.ok()) {
    return held;
  }
  const absl::Status removed =
      repository.RemoveFile(FinalContext(ctx), FileKind::kSnapshot, snapshot);
  return Annotate(
      held, removed.ok()
                ? absl::StrCat("snapshot ", snapshot.ShortHex(),
                               " was removed again, data that it needs may be gone")
                : absl::StrCat("snapshot ", snapshot.ShortHex(),
                               " may need data that is gone, and could not be removed again (",
                               removed.message(), "); forget it"));
}

// A client whose exclusive lock ran out may still delete index files that it has replaced, without
// the packs that it means to delete next: what the snapshot needs of these is listed elsewhere too.
absl::Status ListWhatMayGo(const CallContext& ctx, Repository& repository, const BlobWriter& writer,
                           const SnapshotProof& proof, const LockFence& fence) {
  const StoredBlobs* known = writer.known();
  if (known == nullptr && proof.needs() == SnapshotNeeds{}) {
    return absl::OkStatus();
  }
  const std::optional<absl::Time> since = MayStillDeleteSince(ctx, repository);
  if (!since.has_value()) {
    return absl::OkStatus();
  }
  if (known == nullptr) {
    RETURN_IF_ERROR(repository.LoadReadableIndex(ctx));
  }
  const BlobIndex& index = repository.index();
  PackBits needed(index.pack_count());
  if (known != nullptr) {
    known->AddUsed(needed);
  }
  RETURN_IF_ERROR(
      ForEachId(ctx, repository, proof.needs().packs, [&](absl::Span<const PackId> packs) {
        for (const PackId& pack : packs) {
          const std::optional<uint32_t> ordinal = index.FindPack(pack);
          if (ordinal.has_value()) {  // Else it is of this run, which has listed it.
            needed[*ordinal] = true;
          }
        }
        return absl::OkStatus();
      }));
  return ListAgain(ctx, repository, std::move(needed), *since, fence);
}

absl::StatusOr<SnapshotNeeds> NeedsOf(const CallContext& ctx, Repository& repository,
                                      BlobWriter& writer, const SnapshotProof& proof,
                                      const ProofLimits& limits, int64_t& stored_bytes) {
  SnapshotNeeds needs = proof.needs();
  IdSetBuilder packs(repository, std::move(needs.packs), limits.recent_ids_max);
  IdSetBuilder files(repository, std::move(needs.index_files), limits.recent_ids_max);
  RETURN_IF_ERROR(writer.TakeStored(packs, files));
  if (writer.known() != nullptr) {
    RETURN_IF_ERROR(
        writer.known()->TakeUsed([&](absl::Span<const PackId> some) { return packs.Add(some); }));
  }
  ASSIGN_OR_RETURN(needs.packs, packs.Finish(ctx, stored_bytes));
  ASSIGN_OR_RETURN(needs.index_files, files.Finish(ctx, stored_bytes));
  return needs;
}

}  // namespace

class Prover {
 public:
  Prover(const CallContext& ctx, Repository& repository, const ProofLimits& limits)
      : ctx_(ctx), repository_(repository), limits_(limits) {}

  absl::StatusOr<SnapshotProof> Run(const StoredBlobs* known, const Inherited* inherited) const;

 private:
  // By listings alone. Notes in `needs` what they showed.
  absl::StatusOr<bool> AreThere(SnapshotNeeds& needs) const;
  absl::StatusOr<bool> AreIndexFilesThere(const IdSet& files) const;
  absl::StatusOr<SnapshotNeeds> ProveByIndex(const StoredBlobs* known,
                                             const Inherited* inherited) const;
  absl::StatusOr<PackBits> FindAbsent(const StoredBlobs* known) const;
  absl::Status ProveKnown(const StoredBlobs& known, const PackBits& absent) const;

  bool IsOld(absl::Time listed_at) const {
    const absl::Duration age = ctx_.clock->Now() - listed_at;
    return age < absl::ZeroDuration() || age > limits_.listing_age_max;
  }

  const CallContext& ctx_;
  Repository& repository_;
  const ProofLimits& limits_;
};

absl::StatusOr<SnapshotProof> Prover::Run(const StoredBlobs* known,
                                          const Inherited* inherited) const {
  if (known == nullptr && inherited == nullptr) {
    return SnapshotProof(SnapshotNeeds{});
  }
  const bool of_this_run = inherited != nullptr && inherited->walk == nullptr;
  if (inherited != nullptr && inherited->needs.has_value() && (known == nullptr || of_this_run)) {
    SnapshotNeeds needs = *inherited->needs;
    const absl::StatusOr<bool> there = AreThere(needs);
    if (!there.ok() && !IsDamage(there.status())) {
      return there.status();
    }
    if (there.value_or(false)) {
      if (known != nullptr) {
        ASSIGN_OR_RETURN(const PackBits absent, FindAbsent(known));
        RETURN_IF_ERROR(ProveKnown(*known, absent));
      }
      return SnapshotProof(std::move(needs));
    }
  }
  if (of_this_run) {
    return absl::DataLossError(
        "a pack or an index file of this run is gone since it was stored; run it again");
  }
  ASSIGN_OR_RETURN(SnapshotNeeds needs, ProveByIndex(known, inherited));
  return SnapshotProof(std::move(needs));
}

absl::StatusOr<bool> Prover::AreIndexFilesThere(const IdSet& files) const {
  ASSIGN_OR_RETURN(const std::vector<FileInfo> listed,
                   repository_.ListFiles(ctx_, FileKind::kIndex));
  const std::vector<Id> listed_ids = IdsOf(listed);
  const absl::flat_hash_set<Id> there(listed_ids.begin(), listed_ids.end());
  bool all = true;
  RETURN_IF_ERROR(ForEachId(ctx_, repository_, files, [&](absl::Span<const Id> ids) {
    all = all &&
          std::all_of(ids.begin(), ids.end(), [&](const Id& id) { return there.contains(id); });
    return absl::OkStatus();
  }));
  return all;
}

absl::StatusOr<bool> Prover::AreThere(SnapshotNeeds& needs) const {
  ASSIGN_OR_RETURN(const bool files_there, AreIndexFilesThere(needs.index_files));
  if (!files_there) {
    return false;
  }
  const bool is_old = IsOld(needs.listed_at);
  if (!is_old && needs.packs_listed > limits_.packs_listed_at_once) {
    return true;
  }
  IdSorter sorter(repository_.scratch(), kIdSortBytes);
  const auto take = [&](const FileInfo& file) {
    return AddIds(sorter, absl::MakeConstSpan(&file.id, 1), kListed);
  };
  const absl::Time now = ctx_.clock->Now();
  int64_t seen = 0;
  const auto take_few = [&](const FileInfo& file) {
    return ++seen > limits_.packs_listed_at_once ? absl::OutOfRangeError("enough") : take(file);
  };
  const absl::Status listed_all =
      is_old ? ListPacksFast(ctx_, repository_, take) : repository_.ListPacks(ctx_, take_few);
  if (seen > limits_.packs_listed_at_once) {
    needs.packs_listed = static_cast<uint32_t>(limits_.packs_listed_at_once + 1);
    return true;
  }
  RETURN_IF_ERROR(listed_all);
  RETURN_IF_ERROR(ForEachId(ctx_, repository_, needs.packs, [&](absl::Span<const Id> ids) {
    return AddIds(sorter, ids, kNeeded);
  }));
  needs.packs_listed = 0;
  Id listed;
  bool all_there = true;
  RETURN_IF_ERROR(sorter.Drain([&](absl::Span<const MarkedId> ids) {
    for (const MarkedId& one : ids) {
      if (one.mark == kListed) {
        needs.packs_listed += one.id != listed ? 1 : 0;
        listed = one.id;
      }
      all_there = all_there && one.id == listed;
    }
    return absl::OkStatus();
  }));
  needs.listed_at = now;
  return all_there;
}

absl::StatusOr<SnapshotNeeds> Prover::ProveByIndex(const StoredBlobs* known,
                                                   const Inherited* inherited) const {
  if (known == nullptr) {
    RETURN_IF_ERROR(repository_.LoadReadableIndex(ctx_));
  }
  const absl::Time now = ctx_.clock->Now();
  ASSIGN_OR_RETURN(const PackBits absent, FindAbsent(known));
  NeededBlobs blobs(repository_, absent);
  bool is_indexed = inherited == nullptr;
  if (inherited != nullptr && inherited->needs.has_value()) {
    ASSIGN_OR_RETURN(is_indexed, AreIndexed(ctx_, repository_, *inherited->needs, absent));
  }
  if (!is_indexed) {
    RETURN_IF_ERROR(inherited->walk(blobs));
  }
  ASSIGN_OR_RETURN(SnapshotNeeds needs, blobs.ToNeeds(ctx_, repository_, now, limits_));
  if (is_indexed && inherited != nullptr) {
    needs.packs = inherited->needs->packs;
  }
  if (known != nullptr) {
    ASSIGN_OR_RETURN(const bool files_there, AreIndexFilesThere(needs.index_files));
    if (!files_there) {
      return absl::DataLossError(
          "an index file that this run relies on is gone since it began; nothing was saved, run it "
          "again");
    }
    RETURN_IF_ERROR(ProveKnown(*known, absent));
  }
  return needs;
}

absl::StatusOr<PackBits> Prover::FindAbsent(const StoredBlobs* known) const {
  const BlobIndex& index = repository_.index();
  if (known != nullptr && index.pack_count() > limits_.packs_listed_at_once &&
      !IsOld(known->listed_at())) {
    return known->unusable();
  }
  return FindAbsentPacks(ctx_, repository_, index);
}

// The run relied on these since it began, which may be long ago.
absl::Status Prover::ProveKnown(const StoredBlobs& known, const PackBits& absent) const {
  const std::optional<PackId> gone = known.FindUsed(absent);
  return gone.has_value()
             ? absl::DataLossError(absl::StrCat(
                   "pack ", gone->ShortHex(),
                   ", which this run relies on, is gone since it began; nothing was saved, run it "
                   "again"))
             : absl::OkStatus();
}

NeededBlobs::NeededBlobs(const Repository& repository, PackBits unusable,
                         const DistrustedPacks& distrusted)
    : index_(repository.index()),
      stored_(repository.index(), std::move(unusable)),
      distrusted_(distrusted),
      data_(repository.scratch(), kBlobSortBytes) {}

absl::Status NeededBlobs::AddData(absl::Span<const BlobId> blobs) {
  std::vector<MarkedId> some;
  {
    const MutexLock lock(mutex_);
    for (const BlobId& blob : blobs) {
      if (std::exchange(last_, blob) != blob) {
        some.push_back({.id = blob});
      }
    }
  }
  return data_.Add(some);
}

absl::Status NeededBlobs::Resolve() {
  BlobId last;
  return data_.Drain([&](absl::Span<const MarkedId> blobs) -> absl::Status {
    for (const MarkedId& blob : blobs) {
      if (std::exchange(last, blob.id) != blob.id) {
        RETURN_IF_ERROR(LookUp({.type = BlobType::kData, .id = blob.id}));
      }
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<SnapshotNeeds> NeededBlobs::ToNeeds(const CallContext& ctx, Repository& repository,
                                                   absl::Time listed_at,
                                                   const ProofLimits& limits) {
  RETURN_IF_ERROR(Resolve());
  IdSetBuilder packs(repository, {}, limits.recent_ids_max);
  IdSetBuilder files(repository, {}, limits.recent_ids_max);
  RETURN_IF_ERROR(stored_.TakeUsed([&](absl::Span<const PackId> some) { return packs.Add(some); }));
  RETURN_IF_ERROR(files.Add(repository.index_files()));
  SnapshotNeeds needs = {.listed_at = listed_at,
                         .packs_listed = static_cast<uint32_t>(index_.pack_count())};
  int64_t stored_bytes = 0;
  ASSIGN_OR_RETURN(needs.packs, packs.Finish(ctx, stored_bytes));
  ASSIGN_OR_RETURN(needs.index_files, files.Finish(ctx, stored_bytes));
  return needs;
}

absl::Status NeededBlobs::LookUp(const BlobHandle& handle) {
  if (stored_.Find(handle).has_value()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<BlobLocation> copies, index_.Lookup(handle));
  return absl::DataLossError(absl::StrCat(
      Describe(handle), copies.empty()
                            ? std::string(" is in no index")
                            : absl::StrCat(" lies in ", WhyUnusable(copies.front().pack))));
}

std::string NeededBlobs::WhyUnusable(const PackId& pack) const {
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

absl::StatusOr<SnapshotProof> ProveNeeds(const CallContext& ctx, Repository& repository,
                                         const BlobWriter& writer, const Inherited* inherited,
                                         const ProofLimits& limits) {
  return Prover(ctx, repository, limits).Run(writer.known(), inherited);
}

absl::StatusOr<bool> AreIndexed(const CallContext& ctx, const Repository& repository,
                                const SnapshotNeeds& needs, const PackBits& unusable) {
  const BlobIndex& index = repository.index();
  bool all = true;
  const absl::Status read =
      ForEachId(ctx, repository, needs.packs, [&](absl::Span<const Id> packs) {
        all = all && std::all_of(packs.begin(), packs.end(), [&](const PackId& pack) {
                const std::optional<uint32_t> ordinal = index.FindPack(pack);
                return ordinal.has_value() && !unusable[*ordinal];
              });
        return absl::OkStatus();
      });
  if (!read.ok() && !IsDamage(read)) {
    return read;
  }
  return all && read.ok();
}

absl::StatusOr<CommittedSnapshot> CommitSnapshot(const CallContext& ctx, Repository& repository,
                                                 BlobWriter& writer, const SnapshotProof& proof,
                                                 const LockFence& fence,
                                                 absl::FunctionRef<RepoSnapshot()> record,
                                                 const ProofLimits& limits) {
  RETURN_IF_ERROR(writer.Flush());
  RETURN_IF_ERROR(ListWhatMayGo(ctx, repository, writer, proof, fence));
  if (fence) {
    RETURN_IF_ERROR(fence(ctx));
  }
  CommittedSnapshot committed{.id = {}, .needs = SnapshotNeeds{}};
  ASSIGN_OR_RETURN(committed.id,
                   repository.SaveSnapshot(ctx, record(), proof, &committed.stored_bytes));
  if (fence) {
    RETURN_IF_ERROR(ConfirmSnapshot(ctx, repository, committed.id, fence));
  }
  committed.needs = NeedsOf(ctx, repository, writer, proof, limits, committed.stored_bytes);
  return committed;
}

}  // namespace csidelta::repository
