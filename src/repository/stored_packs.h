#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "repository/blob.h"
#include "repository/index.h"
#include "repository/repository.h"
#include "repository/tree_locator.h"

// Whether packs are where an index, or the answer of a store, says that they are.
namespace csidelta::repository {

// Packs that `index` lists and that are not stored, or not in their whole length. Lists data/:
// of an index that was loaded before, every pack that was there then is seen.
absl::StatusOr<absl::flat_hash_set<PackId>> FindAbsentPacks(const CallContext& ctx,
                                                            const Repository& repository,
                                                            const BlobIndex& index);

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

// Absent packs, and those of `distrusted`.
absl::StatusOr<absl::flat_hash_set<PackId>> FindUnusablePacks(const CallContext& ctx,
                                                              const Repository& repository,
                                                              const BlobIndex& index,
                                                              const DistrustedPacks& distrusted);

// The packs of `index` that hold data and are not unusable.
PackSample SampleDataPacks(const BlobIndex& index, const absl::flat_hash_set<PackId>& unusable);

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
