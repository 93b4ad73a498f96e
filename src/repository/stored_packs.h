#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "repository/blob.h"
#include "repository/index.h"
#include "repository/repository.h"

// Whether packs are where an index, or the answer of a store, says that they are.
namespace csidelta::repository {

// Some packs of an index: a bit for each that it lists, by its ordinal.
using PackBits = std::vector<bool>;

// Packs that are not to be relied on though they may be stored: a check found them damaged.
struct DistrustedPacks {
  absl::flat_hash_set<PackId> packs = {};  // those that no index lists are ignored
  // Besides, all that were written until then, by the clock of the store.
  absl::Time written_until = absl::InfinitePast();

  bool empty() const { return packs.empty() && written_until == absl::InfinitePast(); }
  bool Contains(const FileInfo& pack) const {
    return packs.contains(pack.id) ||
           (written_until > absl::InfinitePast() && pack.modified_at <= written_until);
  }
};

// Packs that checks found damaged, one id a line, of which later ones did not find that they are
// whole or gone. Of a note that does not read there are none.
inline constexpr char kDamagedKey[] = "aux/v1/damaged";
absl::StatusOr<DistrustedPacks> ReadDamaged(const CallContext& ctx, const Repository& repository);

// Packs that `index` lists and that are not stored, not in their whole length, or `distrusted`.
// Lists data/: of an index that was loaded before, every pack that was there then is seen.
absl::StatusOr<PackBits> FindAbsentPacks(const CallContext& ctx, const Repository& repository,
                                         const BlobIndex& index,
                                         const DistrustedPacks& distrusted = {});

// Repository::ListPacks() for a store that may be far away. If the first page shows that there are
// many packs, the rest is listed by folder, 16 at a time. Calls `take` once for each pack, one call
// at a time; by folder not in their order, which would take memory for whole folders.
absl::Status ListPacksFast(const CallContext& ctx, const Repository& repository,
                           absl::FunctionRef<absl::Status(const FileInfo&)> take);
inline constexpr int64_t kPacksListedAtOnce = 10'000;

// The blobs of an index that a run relies on, which are those in packs that are stored. Remembers
// which packs it was asked for. Thread-safe; borrows the index.
class StoredBlobs {
 public:
  // `listed_at` is when data/ was listed, by which `unusable` are known.
  StoredBlobs(const BlobIndex& index, PackBits unusable,
              absl::Time listed_at = absl::InfinitePast())
      : index_(index),
        unusable_(std::move(unusable)),
        listed_at_(listed_at),
        used_(index.pack_count()) {}

  const BlobIndex& index() const { return index_; }
  const PackBits& unusable() const { return unusable_; }
  absl::Time listed_at() const { return listed_at_; }
  // From then on no tree counts as stored. Not while other threads look for one.
  void DistrustTrees() { distrusts_trees_ = true; }

  // Where the blob is stored; from then on its pack is one that the run relies on. Absent also when
  // the index cannot be read: to store a blob twice is harmless.
  std::optional<BlobLocation> Find(const BlobHandle& handle);

  // The packs of which a blob was found, in no order, each of them once.
  absl::Status TakeUsed(absl::FunctionRef<absl::Status(absl::Span<const PackId>)> take);
  // One of these, if there is any that is among `packs`.
  std::optional<PackId> FindUsed(const PackBits& packs) const;
  // Adds all of them, taken or not.
  void AddUsed(PackBits& packs) const;

 private:
  enum Use : uint8_t { kUnused, kUsed, kTaken };

  const BlobIndex& index_;
  const PackBits unusable_;
  const absl::Time listed_at_;
  bool distrusts_trees_ = false;
  std::vector<std::atomic<Use>> used_;  // by the ordinals of the index
};

// Packs that were put, to be looked for before anything names them for good: some stores have
// answered that they stored what they then did not have. 16 bytes a pack. Thread-compatible.
class PutPacks {
 public:
  void Add(const PackId& pack, int64_t stored_bytes);

  // DATA_LOSS when one is not stored in its whole length. Costs a request for each of a few packs;
  // beyond kStatsMax one listing for each of the folders of data/ that have any.
  absl::Status Prove(const CallContext& ctx, const Repository& repository) const;

  static constexpr std::size_t kStatsMax = 64;

 private:
  struct Put {
    uint64_t name = 0;  // The first eight bytes of the pack's id.
    int64_t stored_bytes = 0;

    friend auto operator<=>(const Put&, const Put&) = default;
  };

  std::vector<PackId> few_;  // The whole names, while there are no more than kStatsMax.
  std::vector<Put> puts_;
};

}  // namespace csidelta::repository
