#include "repository/stored_packs.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "base/worker_pool.h"
#include "repository/maintenance.h"

namespace csidelta::repository {
namespace {

constexpr std::size_t kLooksAtOnce = 8;
constexpr std::size_t kFolders = 256;
constexpr std::size_t kFoldersListedAtOnce = 16;
// Names are hashes, so a page shows how many packs there are. If it fills no more folders than
// this, a request for each folder takes less time than the pages do.
constexpr int64_t kPacksOfPage = 1000;
constexpr std::size_t kFoldersOfPageMax = 8;

absl::Status NotStored(absl::string_view pack, int64_t bytes_found) {
  return absl::DataLossError(
      absl::StrCat("the store said that it has pack ", pack,
                   bytes_found < 0 ? ", and does not have it" : ", and has another length of it",
                   "; nothing was saved, run it again"));
}

}  // namespace

absl::StatusOr<DistrustedPacks> ReadDamaged(const CallContext& ctx, const Repository& repository) {
  DistrustedPacks damaged;
  const absl::StatusOr<std::string> ids = repository.LoadSidecar(ctx, kDamagedKey);
  if (!ids.ok()) {
    return IsDamage(ids.status()) ? absl::StatusOr<DistrustedPacks>(damaged) : ids.status();
  }
  for (const absl::string_view line : absl::StrSplit(*ids, '\n')) {
    if (const absl::StatusOr<PackId> id = PackId::Parse(line); id.ok()) {
      damaged.packs.insert(*id);
    }
  }
  return damaged;
}

absl::StatusOr<PackBits> FindAbsentPacks(const CallContext& ctx, const Repository& repository,
                                         const BlobIndex& index,
                                         const DistrustedPacks& distrusted) {
  PackBits unusable(index.pack_count(), true);
  const auto take = [&](const FileInfo& file) {
    const std::optional<uint32_t> first = index.FindPack(file.id);
    if (first.has_value() && index.info(*first).stored_bytes == file.size_bytes &&
        !distrusted.Contains(file)) {
      // One that is listed in two ways is here twice.
      for (uint32_t i = *first; i < index.pack_count() && index.PackAt(i) == file.id; ++i) {
        unusable[i] = false;
      }
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(ListPacksFast(ctx, repository, take));
  return unusable;
}

absl::Status ListPacksFast(const CallContext& ctx, const Repository& repository,
                           absl::FunctionRef<absl::Status(const FileInfo&)> take) {
  PackId last;
  int64_t seen = 0;
  bool in_order = true;
  bool is_many = false;
  const absl::Status listed = repository.ListPacks(ctx, [&](const FileInfo& file) -> absl::Status {
    in_order = in_order && last < file.id;
    last = file.id;
    RETURN_IF_ERROR(take(file));
    is_many = ++seen == kPacksOfPage && in_order && last.bytes()[0] < kFoldersOfPageMax;
    return is_many ? absl::OutOfRangeError("many") : absl::OkStatus();
  });
  if (!is_many) {
    return listed;
  }
  const std::size_t from = last.bytes()[0];
  Mutex mutex;
  return ParallelFor(kFolders - from, kFoldersListedAtOnce, [&](std::size_t i) {
    return repository.ListPacks(
        ctx,
        [&](const FileInfo& file) {
          const MutexLock lock(mutex);
          return i == 0 && file.id <= last ? absl::OkStatus() : take(file);
        },
        static_cast<uint8_t>(from + i));
  });
}

std::optional<BlobLocation> StoredBlobs::Find(const BlobHandle& handle) {
  if (distrusts_trees_ && handle.type == BlobType::kTree) {
    return std::nullopt;
  }
  std::optional<BlobLocation> found;
  const absl::Status read = index_.ForEachCopyOf(handle, [&](const IndexedCopy& copy) {
    if (unusable_[copy.pack_ordinal]) {
      return true;
    }
    found = index_.LocationOf(copy);
    Use unused = kUnused;
    used_[copy.pack_ordinal].compare_exchange_strong(unused, kUsed);
    return false;
  });
  return read.ok() ? found : std::nullopt;
}

std::optional<PackId> StoredBlobs::FindUsed(const PackBits& packs) const {
  for (uint32_t i = 0; i < used_.size(); ++i) {
    if (packs[i] && used_[i].load() != kUnused) {
      return index_.PackAt(i);
    }
  }
  return std::nullopt;
}

void StoredBlobs::AddUsed(PackBits& packs) const {
  for (uint32_t i = 0; i < used_.size(); ++i) {
    packs[i] = packs[i] || used_[i].load() != kUnused;
  }
}

absl::Status StoredBlobs::TakeUsed(absl::FunctionRef<absl::Status(absl::Span<const PackId>)> take) {
  for (uint32_t i = 0; i < used_.size(); ++i) {
    Use used = kUsed;
    if (used_[i].compare_exchange_strong(used, kTaken)) {
      const PackId pack = index_.PackAt(i);
      RETURN_IF_ERROR(take(absl::MakeConstSpan(&pack, 1)));
    }
  }
  return absl::OkStatus();
}

void PutPacks::Add(const PackId& pack, int64_t stored_bytes) {
  puts_.push_back({.name = pack.Prefix64(), .stored_bytes = stored_bytes});
  if (puts_.size() <= kStatsMax) {
    few_.push_back(pack);
  } else {
    few_ = {};
  }
}

absl::Status PutPacks::Prove(const CallContext& ctx, const Repository& repository) const {
  if (puts_.size() <= kStatsMax) {
    return ParallelFor(few_.size(), kLooksAtOnce, [&](std::size_t i) -> absl::Status {
      const absl::StatusOr<storage::ObjectInfo> found =
          repository.store().Stat(ctx, PackKey(few_[i]));
      if (absl::IsNotFound(found.status())) {
        return NotStored(few_[i].ShortHex(), -1);
      }
      RETURN_IF_ERROR(found.status());
      return found->size_bytes == puts_[i].stored_bytes
                 ? absl::OkStatus()
                 : NotStored(few_[i].ShortHex(), found->size_bytes);
    });
  }
  std::array<std::vector<Put>, kFolders> folders;
  for (const Put& put : puts_) {
    folders[static_cast<const unsigned char*>(static_cast<const void*>(&put.name))[0]].push_back(
        put);
  }
  return ParallelFor(kFolders, kLooksAtOnce, [&](std::size_t folder) -> absl::Status {
    if (folders[folder].empty()) {
      return absl::OkStatus();
    }
    std::vector<Put> found;
    RETURN_IF_ERROR(repository.ListPacks(
        ctx,
        [&found](const FileInfo& pack) {
          found.push_back({.name = pack.id.Prefix64(), .stored_bytes = pack.size_bytes});
          return absl::OkStatus();
        },
        static_cast<uint8_t>(folder)));
    std::sort(found.begin(), found.end());
    for (const Put& put : folders[folder]) {
      if (!std::binary_search(found.begin(), found.end(), put)) {
        return NotStored(absl::StrFormat("of data/%02x/", folder), -1);
      }
    }
    return absl::OkStatus();
  });
}

}  // namespace csidelta::repository
