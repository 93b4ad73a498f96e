#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "base/memory_budget.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "repository/blob_references.h"
#include "repository/format.h"
#include "repository/index.h"
#include "repository/index_rewriter.h"
#include "repository/maintenance_memory.h"
#include "repository/pack_contents.h"
#include "repository/pack_scanner.h"
#include "repository/repairer.h"
#include "repository/stored_packs.h"
#include "repository/tree_walk.h"
#include "repository/volume_layout.h"

namespace csidelta::repository {
namespace {

// Of one request that reads a pack.
constexpr int64_t kRepairPieceBytesMax = int64_t{8} << 20;
constexpr int kReadsMax = 3;

class PacksRepair {
 public:
  PacksRepair(const CallContext& ctx, Repository& repository, const RepairPacksOptions& options)
      : ctx_(ctx), repository_(repository), options_(options) {}
  absl::StatusOr<RepairPacksResult> Run(Lock& lock, absl::Span<const PackId> packs);

 private:
  std::vector<uint32_t> OrdinalsOf(absl::Span<const PackId> packs);

  // What snapshots name that no pack holds, but for the packs that are repaired anyway.
  absl::Status FindMissing(absl::Span<const uint32_t> repaired);

  // How long the chunks are of which a file of a volume may be made.
  void AddLengths(const Node& node);
  absl::Status PrepareRepairSource(const PackContents& contents);
  absl::Status FillInMissing();
  absl::StatusOr<PackRepair> Repair(const PackId& pack, std::vector<NumberedEntry>& numbered);

  // The pack in the length that is stored: 0 when it is gone.
  absl::StatusOr<FileInfo> WhatIsLeft(const PackId& pack);
  absl::Status Scan(const PackToScan& pack, const ScannedBlobSink& sink);
  absl::Status Move(const PackToScan& pack, const std::vector<bool>& intact);

  // Whether a copy in another pack reads. That pack may be one to repair as well: then the copy is
  // intact there, and moves with it.
  absl::StatusOr<bool> IsElsewhere(const BlobHandle& handle, const PackId& pack);
  absl::StatusOr<std::optional<std::string>> LoadFromSource(const BlobHandle& handle);

  const CallContext& ctx_;
  Repository& repository_;
  const RepairPacksOptions& options_;
  BlobWriter writer_{ctx_, repository_, options_.writer};
  PackBits absent_;
  absl::flat_hash_set<BlobId> missing_;
  WantedChunks wanted_;
  RepairPacksResult result_;
};

absl::StatusOr<RepairPacksResult> PacksRepair::Run(Lock& lock, absl::Span<const PackId> packs) {
  ASSIGN_OR_RETURN(absent_, FindAbsentPacks(ctx_, repository_, repository_.index()));
  const std::vector<uint32_t> ordinals = OrdinalsOf(packs);
  std::vector<PackId> removed;
  ASSIGN_OR_RETURN(HeldContents held,
                   TakeContents(repository_.memory(), repository_.index(), ordinals));
  RETURN_IF_ERROR(FindMissing(ordinals));
  RETURN_IF_ERROR(PrepareRepairSource(held.contents));
  for (const uint32_t ordinal : ordinals) {
    RETURN_IF_ERROR(ctx_.Check());
    Report(options_.progress, "packs", result_.packs.size(), ordinals.size());
    ASSIGN_OR_RETURN(PackRepair repair,
                     Repair(repository_.index().PackAt(ordinal), held.contents.at(ordinal)));
    if (repair.removed) {
      removed.push_back(repair.pack);
    }
    result_.packs.push_back(std::move(repair));
  }
  RETURN_IF_ERROR(FillInMissing());
  RETURN_IF_ERROR(writer_.Flush());
  RETURN_IF_ERROR(lock.Fence(ctx_));
  const absl::flat_hash_set<PackId> dropped(removed.begin(), removed.end());
  if (!dropped.empty()) {
    RETURN_IF_ERROR(DropFromIndex(
                        ctx_, repository_, lock,
                        [&](const PackId& id) { return dropped.contains(id); }, options_.progress)
                        .status());
    RETURN_IF_ERROR(DeletePacks(
                        ctx_, lock, removed.size(), [&](std::size_t i) { return removed[i]; },
                        options_.progress)
                        .status());
    RETURN_IF_ERROR(lock.refused().why);
  }
  return std::move(result_);
}

std::vector<uint32_t> PacksRepair::OrdinalsOf(absl::Span<const PackId> packs) {
  const BlobIndex& index = repository_.index();
  std::vector<uint32_t> ordinals;
  for (uint32_t i = 0; packs.empty() && i < index.pack_count(); ++i) {
    if (absent_[i] && index.FindPack(index.PackAt(i)) == i) {
      ordinals.push_back(i);
    }
  }
  for (const PackId& pack : absl::flat_hash_set<PackId>(packs.begin(), packs.end())) {
    if (const std::optional<uint32_t> found = index.FindPack(pack); found.has_value()) {
      ordinals.push_back(*found);
    } else {
      result_.unlisted.push_back(pack);
    }
  }
  std::sort(ordinals.begin(), ordinals.end());
  return ordinals;
}

absl::Status PacksRepair::FindMissing(absl::Span<const uint32_t> repaired) {
  // One that does not read names nothing that could be looked for.
  ASSIGN_OR_RETURN(const std::vector<StoredSnapshot> snapshots,
                   repository_.ListSnapshots(ctx_, [](const Id&, const absl::Status&) {}));
  const BlobIndex& index = repository_.index();
  BlobMarks visited(index);
  BlobReferences content(repository_.scratch());
  Mutex mutex;
  int64_t trees = 0;
  RETURN_IF_ERROR(WalkTrees(ctx_, repository_, RootsOf(snapshots), visited,
                            [&](const BlobId&, const absl::StatusOr<absl::string_view>& text,
                                std::vector<BlobId>& below) {
                              absl::Status status = text.status();
                              if (status.ok()) {
                                status = ReadTreeNodes(*text, below,
                                                       [&](const Node& node) -> absl::Status {
                                                         if (!node.content.has_value()) {
                                                           return absl::OkStatus();
                                                         }
                                                         {
                                                           const MutexLock lock(mutex);
                                                           AddLengths(node);
                                                         }
                                                         return content.Add(0, *node.content);
                                                       });
                              }
                              const MutexLock lock(mutex);
                              Report(options_.progress, "trees", ++trees, 0);
                              if (IsDamage(status)) {
                                ++result_.trees_unreadable;
                                return absl::OkStatus();
                              }
                              return status;
                            }));
  const absl::flat_hash_set<uint32_t> handled(repaired.begin(), repaired.end());
  const absl::Status resolved = content.Resolve(
      index, [&](const BlobId& blob, uint32_t, const IndexedCopy* copy) -> absl::Status {
        bool held = false;
        if (copy != nullptr) {
          RETURN_IF_ERROR(index.ForEachCopyOf(copy->entry.handle, [&](const IndexedCopy& one) {
            held = handled.contains(one.pack_ordinal) || !absent_[one.pack_ordinal];
            return !held;
          }));
        }
        if (!held) {
          missing_.insert(blob);
        }
        return absl::OkStatus();
      });
  RETURN_IF_ERROR(resolved);
  result_.blobs_missing = static_cast<int64_t>(missing_.size());
  return absl::OkStatus();
}

void PacksRepair::AddLengths(const Node& node) {
  const auto count = static_cast<int64_t>(node.content->size());
  if (node.name != kDataName || count == 0) {
    return;
  }
  const auto bytes = static_cast<int64_t>(node.size_bytes);
  for (int64_t chunk = kChunkBytesMin; chunk <= kChunkBytesMax; chunk *= 2) {
    if (bytes > (count - 1) * chunk && bytes <= count * chunk) {
      wanted_.chunk_bytes.insert(chunk);
      if (const int64_t tail = bytes - (count - 1) * chunk; tail < chunk) {
        wanted_.tail_bytes.insert(tail);
      }
      return;  // Of one chunk it may be a longer one's tail: that begins where a shorter does.
    }
  }
}

absl::Status PacksRepair::PrepareRepairSource(const PackContents& contents) {
  if (options_.prepare_repair_source == nullptr) {
    return absl::OkStatus();
  }
  wanted_.ids = missing_;
  for (const auto& [ordinal, entries] : contents) {
    for (const NumberedEntry& numbered : entries) {
      if (numbered.entry.handle.type == BlobType::kData) {
        wanted_.ids.insert(numbered.entry.handle.id);
      }
    }
  }
  return options_.prepare_repair_source(ctx_, wanted_);
}

absl::Status PacksRepair::FillInMissing() {
  for (const BlobId& blob : missing_) {
    RETURN_IF_ERROR(ctx_.Check());
    ASSIGN_OR_RETURN(const std::optional<std::string> plaintext,
                     LoadFromSource({.type = BlobType::kData, .id = blob}));
    if (plaintext.has_value()) {
      RETURN_IF_ERROR(writer_.AddBlob(BlobType::kData, blob, *plaintext).status());
      ++result_.missing_filled_in;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<PackRepair> PacksRepair::Repair(const PackId& pack,
                                               std::vector<NumberedEntry>& numbered) {
  PackRepair repair = {.pack = pack, .lost = {}};
  ASSIGN_OR_RETURN(const FileInfo file, WhatIsLeft(pack));
  const PackToScan left = {.file = file, .blobs = SortByOffset(numbered)};
  const std::vector<PackEntry>& entries = left.blobs;
  std::vector<bool> intact(entries.size());
  // What was read wrong may have been the way, not the pack, which may go for it.
  for (int reads = 0; reads < kReadsMax && absl::c_linear_search(intact, false); ++reads) {
    RETURN_IF_ERROR(
        Scan(left, [&](std::size_t number, const absl::StatusOr<absl::string_view>& plaintext) {
          intact[number] = intact[number] || plaintext.ok();
          return absl::OkStatus();
        }));
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const BlobHandle& handle = entries[i].handle;
    if (intact[i]) {
      ++repair.blobs_intact;
      continue;
    }
    ASSIGN_OR_RETURN(const bool elsewhere, IsElsewhere(handle, pack));
    if (elsewhere) {
      ++repair.blobs_elsewhere;
      continue;
    }
    ASSIGN_OR_RETURN(const std::optional<std::string> plaintext, LoadFromSource(handle));
    if (!plaintext.has_value()) {
      repair.lost.push_back(handle);
      continue;
    }
    // Worth keeping in any case: the volume may be gone tomorrow.
    RETURN_IF_ERROR(writer_.AddBlob(handle.type, handle.id, *plaintext).status());
    ++repair.blobs_filled_in;
  }
  repair.removed = repair.lost.empty() || (options_.drops_lost && options_.drops_lost(pack));
  if (repair.removed && repair.blobs_intact > 0) {
    RETURN_IF_ERROR(Move(left, intact));
  }
  return repair;
}

absl::StatusOr<FileInfo> PacksRepair::WhatIsLeft(const PackId& pack) {
  const absl::StatusOr<storage::ObjectInfo> object = repository_.store().Stat(ctx_, PackKey(pack));
  if (!object.ok() && !IsDamage(object.status())) {
    return object.status();
  }
  return FileInfo{.id = pack, .size_bytes = object.ok() ? object->size_bytes : 0};
}

absl::Status PacksRepair::Scan(const PackToScan& pack, const ScannedBlobSink& sink) {
  const auto ignore = [](std::size_t, const PackFindings&) { return absl::OkStatus(); };
  return ScanPacks(ctx_, repository_, absl::MakeConstSpan(&pack, 1), kRepairPieceBytesMax, ignore,
                   sink);
}

absl::Status PacksRepair::Move(const PackToScan& pack, const std::vector<bool>& intact) {
  return Scan(
      pack,
      [&](std::size_t number, const absl::StatusOr<absl::string_view>& plaintext) -> absl::Status {
        const BlobHandle& handle = pack.blobs[number].handle;
        if (!intact[number]) {
          return absl::OkStatus();
        }
        if (!plaintext.ok()) {
          return absl::DataLossError(
              absl::StrCat(Describe(handle), " read a moment ago and does not any more"));
        }
        return writer_.AddBlob(handle.type, handle.id, *plaintext).status();
      });
}

absl::StatusOr<bool> PacksRepair::IsElsewhere(const BlobHandle& handle, const PackId& pack) {
  ASSIGN_OR_RETURN(const std::vector<BlobLocation> locations, repository_.index().Lookup(handle));
  for (const BlobLocation& location : locations) {
    if (location.pack == pack) {
      continue;
    }
    const absl::Status status = repository_.LoadBlobAt(ctx_, handle, location).status();
    if (status.ok()) {
      return true;
    }
    if (!IsDamage(status)) {
      return status;
    }
  }
  return false;
}

absl::StatusOr<std::optional<std::string>> PacksRepair::LoadFromSource(const BlobHandle& handle) {
  absl::StatusOr<std::string> plaintext = options_.repair_source != nullptr
                                              ? options_.repair_source(ctx_, handle)
                                              : absl::NotFoundError("no source");
  if (absl::IsNotFound(plaintext.status())) {
    return std::optional<std::string>();
  }
  RETURN_IF_ERROR(plaintext.status());
  if (Id::Of(*plaintext) != handle.id) {
    CSIDELTA_LOG(kInfo, "the volume has changed since: not used for repair",
                 {"blob", handle.id.Hex()});
    return std::optional<std::string>();
  }
  return std::optional<std::string>(*std::move(plaintext));
}

}  // namespace

absl::StatusOr<RepairPacksResult> RepairPacks(const CallContext& ctx, Repository& repository,
                                              Lock& lock, absl::Span<const PackId> packs,
                                              const RepairPacksOptions& options) {
  // Beside another deletion each could count on what the other removes.
  CSIDELTA_CHECK(lock.is_exclusive());
  const absl::Status loaded = repository.LoadIndex(ctx);
  if (IsDamage(loaded)) {
    return absl::FailedPreconditionError(
        absl::StrCat(loaded.message(), ": run repair index first"));
  }
  RETURN_IF_ERROR(loaded);
  ASSIGN_OR_RETURN(const WriterRoom room,
                   TakeWriterRoomLike(repository.memory(), repository.index(), options.writer));
  RepairPacksOptions bounded = options;
  bounded.writer = room.options;
  bounded.writer.fence = lock.AsFence();
  return PacksRepair(ctx, repository, bounded).Run(lock, packs);
}

}  // namespace csidelta::repository
