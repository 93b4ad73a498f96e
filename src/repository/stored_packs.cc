#include "repository/stored_packs.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "repository/parallel.h"

namespace csidelta::repository {
namespace {

constexpr std::size_t kLooksAtOnce = 8;
constexpr std::size_t kFolders = 256;

absl::Status NotStored(absl::string_view pack, int64_t bytes_found) {
  return absl::DataLossError(
      absl::StrCat("the store said that it has pack ", pack,
                   bytes_found < 0 ? ", and does not have it" : ", and has another length of it",
                   "; nothing was saved, run it again"));
}

}  // namespace

absl::StatusOr<absl::flat_hash_set<PackId>> FindAbsentPacks(const CallContext& ctx,
                                                            const Repository& repository,
                                                            const BlobIndex& index) {
  return FindUnusablePacks(ctx, repository, index, {});
}

absl::StatusOr<absl::flat_hash_set<PackId>> FindUnusablePacks(const CallContext& ctx,
                                                              const Repository& repository,
                                                              const BlobIndex& index,
                                                              const DistrustedPacks& distrusted) {
  std::vector<bool> usable(index.packs().size());
  RETURN_IF_ERROR(repository.ListPacks(ctx, [&](const FileInfo& file) {
    const std::optional<uint32_t> ordinal = index.FindPack(file.id);
    if (ordinal.has_value() && index.info(*ordinal).stored_bytes == file.size_bytes &&
        !distrusted.Contains(file)) {
      usable[*ordinal] = true;
    }
    return absl::OkStatus();
  }));
  absl::flat_hash_set<PackId> unusable;
  for (uint32_t i = 0; i < usable.size(); ++i) {
    if (!usable[i] && index.FindPack(index.packs()[i]) == i) {
      unusable.insert(index.packs()[i]);
    }
  }
  return unusable;
}

PackSample SampleDataPacks(const BlobIndex& index, const absl::flat_hash_set<PackId>& unusable) {
  PackSample sample;
  for (uint32_t i = 0; i < index.packs().size(); ++i) {
    if (index.info(i).has_data && !unusable.contains(index.packs()[i])) {
      sample.Add(index.packs()[i]);
    }
  }
  return sample;
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
    const std::string prefix = absl::StrFormat("data/%02x/", folder);
    RETURN_IF_ERROR(repository.store().List(
        ctx, prefix, [&](const storage::ObjectInfo& object) -> absl::Status {
          const absl::StatusOr<Id> id =
              Id::Parse(absl::string_view(object.key).substr(prefix.size()));
          if (id.ok()) {
            found.push_back({.name = id->Prefix64(), .stored_bytes = object.size_bytes});
          }
          return absl::OkStatus();
        }));
    std::sort(found.begin(), found.end());
    for (const Put& put : folders[folder]) {
      if (!std::binary_search(found.begin(), found.end(), put)) {
        return NotStored(absl::StrCat("of ", prefix), -1);
      }
    }
    return absl::OkStatus();
  });
}

}  // namespace csidelta::repository
