#include "repository/pruner.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "repository/blob_fetcher.h"
#include "repository/blob_writer.h"
#include "repository/maintenance_memory.h"
#include "repository/pack_contents.h"

namespace csidelta::repository {
namespace {

// No write takes this long; restic, too, holds a lock while it writes, but others may not.
constexpr absl::Duration kLeftoverAgeMin = absl::Hours(24);
// Where the files of a repository are; what else lies beside them is a stranger's.
constexpr char kKeyFolder[] = "keys/";

std::vector<std::string> OwnFolders() {
  return {"", "data/", "index/", "snapshots/", "locks/", kKeyFolder, kSidecarFolder};
}

// Whether a file of a repository has this key.
bool IsOwnKey(absl::string_view key) {
  if (key == kConfigKey || absl::StartsWith(key, kSidecarFolder)) {
    return true;
  }
  const absl::StatusOr<Id> id = IdOfKey(key);
  return id.ok() &&
         (key == PackKey(*id) || key == FileKey(FileKind::kIndex, *id) ||
          key == FileKey(FileKind::kSnapshot, *id) || key == FileKey(FileKind::kLock, *id) ||
          key == absl::StrCat(kKeyFolder, id->Hex()));
}

std::vector<BlobToFetch> BlobsToKeep(const BlobIndex& index, const PrunePlan& plan,
                                     const PackContents& contents) {
  std::vector<BlobToFetch> blobs;
  for (const auto& [pack, entries] : contents) {
    for (const NumberedEntry& numbered : entries) {
      if (plan.keepers[numbered.copy]) {
        blobs.push_back({.handle = numbered.entry.handle,
                         .location = {.pack = index.PackAt(pack), .span = numbered.entry.span}});
      }
    }
  }
  return blobs;
}

// As they are sealed, but for trees that format version 1 left uncompressed.
absl::Status MoveBlobs(const CallContext& ctx, const Repository& repository,
                       std::vector<BlobToFetch> blobs, BlobWriter& writer,
                       absl::FunctionRef<void(int64_t bytes)> report) {
  return FetchBlobs(ctx, repository, std::move(blobs), [&](const FetchedBlob& blob) {
    RETURN_IF_ERROR(blob.plaintext.status());
    const BlobHandle& handle = blob.handle;
    report(std::ssize(blob.envelope));
    const bool moves =
        blob.entry.has_value() && (handle.type == BlobType::kData || blob.entry->span.compressed());
    return moves ? writer.AddSealed(*blob.entry, blob.envelope).status()
                 : writer.AddBlob(handle.type, handle.id, *blob.plaintext).status();
  });
}

// Writes the blobs to keep of all packs that are repacked, and their index.
absl::Status RepackBlobs(const CallContext& ctx, Repository& repository, Lock& lock,
                         const PrunePlan& plan, const PruneOptions& options, PruneResult& result) {
  MemoryBudget& memory = repository.memory();
  const int64_t blobs_max = BlobsPerPass(memory.free_bytes());
  BlobWriterOptions like;
  like.data_compression_level = options.data_compression_level;
  like.fence = lock.AsFence();
  ASSIGN_OR_RETURN(const WriterRoom room,
                   TakeWriterRoom(memory,
                                  {.pack_bytes_wanted = options.pack_target_bytes,
                                   .blob_bytes_max = plan.blob_bytes_max},
                                  like));
  BlobWriter writer(ctx, repository, room.options);
  absl::Span<const uint32_t> packs = plan.repack;
  std::atomic<int64_t> done_bytes = 0;
  const auto report = [&](int64_t bytes) {  // Of the total, some are not written again.
    Report(options.progress, kRepacking, done_bytes += bytes, plan.figures.bytes_repacked);
  };
  while (!packs.empty()) {
    const std::size_t pass = PacksOfPass(repository.index(), packs, blobs_max);
    ASSIGN_OR_RETURN(const HeldContents held,
                     TakeContents(memory, repository.index(), packs.first(pass)));
    RETURN_IF_ERROR(MoveBlobs(ctx, repository, BlobsToKeep(repository.index(), plan, held.contents),
                              writer, report));
    packs.remove_prefix(pass);
  }
  RETURN_IF_ERROR(writer.Flush());
  result.packs_written = writer.counts().packs;
  result.index_files_written += writer.counts().index_files;
  return absl::OkStatus();
}

// First of all, since a full disk may need the space. A plan that was made with an index from
// before the lock would call packs unindexed that a backup has listed since: that must not cost
// data.
absl::StatusOr<int64_t> DeleteUnindexed(const CallContext& ctx, Repository& repository, Lock& lock,
                                        const PrunePlan& plan, const PruneOptions& options) {
  if (plan.unindexed.empty()) {
    return 0;
  }
  ASSIGN_OR_RETURN(const bool listed, IsAnyListed(ctx, repository, [&](const PackId& id) {
                     return std::binary_search(plan.unindexed.begin(), plan.unindexed.end(), id);
                   }));
  if (listed) {
    return absl::AbortedError("the index has changed since the prune was planned: run it again");
  }
  return DeletePacks(
      ctx, lock, plan.unindexed.size(), [&](std::size_t i) { return plan.unindexed[i]; },
      options.progress);
}

// Takes packs out of the index.
absl::Status DropPacks(const CallContext& ctx, Repository& repository, Lock& lock,
                       absl::Span<const uint32_t> packs, const PruneOptions& options,
                       PruneResult& result) {
  RETURN_IF_ERROR(lock.Fence(ctx));
  const BlobIndex& index = repository.index();
  PackBits dropped(index.pack_count());
  for (const uint32_t pack : packs) {
    dropped[pack] = true;
  }
  const auto is_dropped = [&](const PackId& id) {
    const std::optional<uint32_t> ordinal = index.FindPack(id);
    return ordinal.has_value() && dropped[*ordinal];
  };
  ASSIGN_OR_RETURN(const IndexRewriteCounts rewritten,
                   DropFromIndex(ctx, repository, lock, is_dropped, options.progress));
  result.index_files_written += rewritten.files_written;
  result.index_files_removed += rewritten.files_removed;
  return absl::OkStatus();
}

// Packs that an index file lists which is new since then stay: others rely on them again.
absl::Status LetOthersIn(const CallContext& ctx, Repository& repository, Lock& lock,
                         std::vector<uint32_t>& packs) {
  ASSIGN_OR_RETURN(const std::vector<FileInfo> before, repository.ListFiles(ctx, FileKind::kIndex));
  RETURN_IF_ERROR(Annotate(lock.LetOthersIn(ctx), "packs that no index lists stay for now"));
  ASSIGN_OR_RETURN(const std::vector<FileInfo> after, repository.ListFiles(ctx, FileKind::kIndex));
  const std::vector<Id> known = IdsOf(before);
  PackBits listed(repository.index().pack_count());
  for (const FileInfo& file : after) {
    if (!absl::c_linear_search(known, file.id)) {
      RETURN_IF_ERROR(repository.ReadIndexFile(ctx, file, [&](const IndexedPack& pack) {
        const std::optional<uint32_t> ordinal = repository.index().FindPack(pack.id);
        if (ordinal.has_value()) {
          listed[*ordinal] = true;
        }
        return absl::OkStatus();
      }));
    }
  }
  std::erase_if(packs, [&](uint32_t pack) { return listed[pack]; });
  return absl::OkStatus();
}

// Deletes packs that were taken out of the index, the last ones first. Returns whether others had
// the lock meanwhile.
absl::StatusOr<bool> DeleteDropped(const CallContext& ctx, Repository& repository, Lock& lock,
                                   std::vector<uint32_t> packs, bool lets_others_in,
                                   const PruneOptions& options, PruneResult& result) {
  const std::size_t total = packs.size();
  bool met_others = false;
  absl::Duration since = ctx.clock->Uptime();
  while (!packs.empty()) {
    const std::size_t left = packs.size() - std::min(packs.size(), options.packs_deleted_alone);
    const auto report = [&](absl::string_view stage, int64_t done, int64_t) {
      Report(options.progress, stage, total - packs.size() + static_cast<std::size_t>(done), total);
    };
    ASSIGN_OR_RETURN(
        const int64_t deleted,
        DeletePacks(
            ctx, lock, packs.size() - left,
            [&](std::size_t i) { return repository.index().PackAt(packs[left + i]); }, report));
    result.packs_deleted += deleted;
    packs.resize(left);
    if (lets_others_in && left > 0 && ctx.clock->Uptime() - since >= options.deletes_alone_max) {
      RETURN_IF_ERROR(LetOthersIn(ctx, repository, lock, packs));
      since = ctx.clock->Uptime();
      met_others = true;
    }
  }
  return met_others;
}

}  // namespace

absl::StatusOr<PruneResult> RunPrune(const CallContext& ctx, Repository& repository, Lock& lock,
                                     const PrunePlan& plan, const PruneOptions& options) {
  // Beside another deletion each could count on what the other removes.
  CSIDELTA_CHECK(lock.is_exclusive());
  CSIDELTA_CHECK(plan.keepers.size() == static_cast<std::size_t>(repository.index().entry_count()));
  PruneResult result;
  ASSIGN_OR_RETURN(result.packs_deleted, DeleteUnindexed(ctx, repository, lock, plan, options));
  std::vector<uint32_t> old_packs = plan.repack;
  if (!plan.repack.empty()) {
    if (!plan.unused.empty()) {
      // Makes room for what is written now: the disk may be full.
      RETURN_IF_ERROR(DropPacks(ctx, repository, lock, plan.unused, options, result));
      RETURN_IF_ERROR(
          DeleteDropped(ctx, repository, lock, plan.unused, false, options, result).status());
    }
    RETURN_IF_ERROR(RepackBlobs(ctx, repository, lock, plan, options, result));
  } else {
    old_packs = plan.unused;
  }
  old_packs.insert(old_packs.end(), plan.removed.begin(), plan.removed.end());
  RETURN_IF_ERROR(DropPacks(ctx, repository, lock, old_packs, options, result));
  RETURN_IF_ERROR(lock.TryDelete(ctx, plan.sidecar_keys, [](std::size_t, bool) {}));
  ASSIGN_OR_RETURN(const bool met_others, DeleteDropped(ctx, repository, lock, std::move(old_packs),
                                                        true, options, result));
  result.refused = lock.refused();
  if (result.refused.count == 0 && !met_others) {
    RETURN_IF_ERROR(lock.Delete(ctx, kMayStillDeleteKey));
  }
  RETURN_IF_ERROR(
      repository.store().RemoveLeftovers(ctx, OwnFolders(), IsOwnKey, kLeftoverAgeMin).status());
  return result;
}

}  // namespace csidelta::repository
