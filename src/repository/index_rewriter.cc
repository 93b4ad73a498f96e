#include "repository/index_rewriter.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "repository/format.h"
#include "repository/parallel.h"

namespace csidelta::repository {
namespace {

// A file with fewer blobs is merged with others.
constexpr int64_t kSmallIndexBlobs = kIndexBlobsTarget / 2;
constexpr char kStage[] = "index files";
// Each holds a file as text and as a list: 13 MB.
constexpr std::size_t kThreads = 4;

int64_t BlobsIn(const std::vector<IndexedPack>& packs) {
  int64_t blobs = 0;
  for (const IndexedPack& pack : packs) {
    blobs += static_cast<int64_t>(pack.entries.size());
  }
  return blobs;
}

bool NamesAny(const std::vector<IndexedPack>& packs, const absl::flat_hash_set<PackId>& dropped) {
  for (const IndexedPack& pack : packs) {
    if (dropped.contains(pack.id)) {
      return true;
    }
  }
  return false;
}

// What one index file lists.
struct IndexFileInfo {
  Id id;
  int64_t blobs = 0;
  bool names_any = false;
};

// All index files, with whether they name any of `packs`.
absl::StatusOr<std::vector<IndexFileInfo>> LookAtAll(const CallContext& ctx,
                                                     const Repository& repository,
                                                     const absl::flat_hash_set<PackId>& packs,
                                                     const ProgressReporter& progress) {
  ASSIGN_OR_RETURN(const std::vector<FileInfo> files, repository.ListFiles(ctx, FileKind::kIndex));
  std::vector<IndexFileInfo> info(files.size());
  std::atomic<int64_t> done = 0;
  const auto look = [&](std::size_t i) -> absl::Status {
    RETURN_IF_ERROR(ctx.Check());
    Report(progress, kStage, done++, static_cast<int64_t>(files.size()));
    ASSIGN_OR_RETURN(const std::vector<IndexedPack> listed,
                     LoadIndexFile(ctx, repository, files[i].id));
    info[i] = {.id = files[i].id, .blobs = BlobsIn(listed), .names_any = NamesAny(listed, packs)};
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(ParallelFor(files.size(), kThreads, look));
  return info;
}

absl::Status Move(const CallContext& ctx, const Id& file, const std::vector<IndexedPack>& packs,
                  const absl::flat_hash_set<PackId>& dropped, IndexRewriter& rewriter) {
  for (const IndexedPack& pack : packs) {
    if (!dropped.contains(pack.id)) {
      RETURN_IF_ERROR(rewriter.Add(ctx, pack));
    }
  }
  rewriter.Supersede(file);
  return absl::OkStatus();
}

}  // namespace

absl::Status IndexRewriter::Add(const CallContext& ctx, const IndexedPack& pack) {
  if (pack.entries.empty() || !added_.insert(pack.id).second) {
    return absl::OkStatus();
  }
  pending_blobs_ += static_cast<int64_t>(pack.entries.size());
  pending_.push_back(pack);
  return pending_blobs_ >= kIndexBlobsTarget ? Write(ctx) : absl::OkStatus();
}

absl::Status IndexRewriter::Write(const CallContext& ctx) {
  if (pending_.empty()) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(SaveIndex(ctx, repository_, pending_, [this](const CallContext& fence_ctx) {
    return lock_.FenceIfOld(fence_ctx);
  }));
  ++counts_.files_written;
  pending_.clear();
  pending_blobs_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<IndexRewriteCounts> IndexRewriter::Commit(const CallContext& ctx) {
  RETURN_IF_ERROR(Write(ctx));
  // What is deleted next must not be listed any more, whatever the store said of the old files.
  RETURN_IF_ERROR(lock_.Fence(ctx));
  RETURN_IF_ERROR(repository_.RemoveFiles(ctx, lock_, FileKind::kIndex, superseded_, [] {}));
  counts_.files_removed += std::ssize(superseded_);
  superseded_.clear();
  return counts_;
}

absl::StatusOr<std::vector<IndexedPack>> LoadIndexFile(const CallContext& ctx,
                                                       const Repository& repository,
                                                       const Id& file) {
  ASSIGN_OR_RETURN(const std::string text, repository.LoadFile(ctx, FileKind::kIndex, file));
  std::vector<IndexedPack> packs;
  const absl::Status decoded = DecodeIndex(text, [&packs](const IndexedPack& pack) {
    packs.push_back(pack);
    return absl::OkStatus();
  });
  if (!decoded.ok()) {
    return absl::DataLossError(absl::StrCat("index ", file.ShortHex(), ": ", decoded.message()));
  }
  return packs;
}

absl::StatusOr<bool> IsAnyListed(const CallContext& ctx, const Repository& repository,
                                 const absl::flat_hash_set<PackId>& packs) {
  ASSIGN_OR_RETURN(const std::vector<IndexFileInfo> files,
                   LookAtAll(ctx, repository, packs, nullptr));
  return std::any_of(files.begin(), files.end(),
                     [](const IndexFileInfo& file) { return file.names_any; });
}

absl::StatusOr<IndexRewriteCounts> DropFromIndex(const CallContext& ctx, Repository& repository,
                                                 Lock& lock,
                                                 const absl::flat_hash_set<PackId>& dropped,
                                                 const ProgressReporter& progress) {
  ASSIGN_OR_RETURN(const std::vector<IndexFileInfo> files,
                   LookAtAll(ctx, repository, dropped, progress));
  std::vector<Id> rewritten;
  std::vector<Id> small;
  for (const IndexFileInfo& file : files) {
    if (file.names_any) {
      rewritten.push_back(file.id);
    } else if (file.blobs < kSmallIndexBlobs) {
      small.push_back(file.id);
    }
  }
  // One small file alone would only become another small file.
  if (small.size() + (rewritten.empty() ? 0 : 1) >= 2) {
    rewritten.insert(rewritten.end(), small.begin(), small.end());
  }
  IndexRewriter rewriter(repository, lock);
  for (const Id& file : rewritten) {
    RETURN_IF_ERROR(ctx.Check());
    ASSIGN_OR_RETURN(const std::vector<IndexedPack> packs, LoadIndexFile(ctx, repository, file));
    RETURN_IF_ERROR(Move(ctx, file, packs, dropped, rewriter));
  }
  return rewriter.Commit(ctx);
}

}  // namespace csidelta::repository
