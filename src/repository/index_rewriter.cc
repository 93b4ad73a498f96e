#include "repository/index_rewriter.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>

#include "base/status_macros.h"
#include "base/worker_pool.h"
#include "repository/format.h"

namespace csidelta::repository {
namespace {

// A file with fewer blobs is merged with others.
constexpr int64_t kSmallIndexBlobs = kIndexBlobsTarget / 2;
constexpr char kStage[] = "index files";
constexpr std::size_t kThreads = 4;

// What one index file lists.
struct IndexFileInfo {
  FileInfo file;
  int64_t blobs = 0;
  bool names_any = false;
};

// All index files, with whether they name any of `packs`.
absl::StatusOr<std::vector<IndexFileInfo>> ReconcileAll(const CallContext& ctx,
                                                        const Repository& repository,
                                                        PackPredicate packs,
                                                        const ProgressReporter& progress) {
  ASSIGN_OR_RETURN(const std::vector<FileInfo> files, repository.ListFiles(ctx, FileKind::kIndex));
  std::vector<IndexFileInfo> info(files.size());
  std::atomic<int64_t> done = 0;
  const auto look = [&](std::size_t i) -> absl::Status {
    RETURN_IF_ERROR(ctx.Check());
    Report(progress, kStage, done++, files.size());
    info[i].file = files[i];
    return repository.ReadIndexFile(ctx, files[i], [&](const IndexedPack& pack) {
      info[i].blobs += std::ssize(pack.entries);
      info[i].names_any |= packs(pack.id);
      return absl::OkStatus();
    });
  };
  RETURN_IF_ERROR(ParallelFor(files.size(), kThreads, look));
  return info;
}

}  // namespace

absl::Status IndexRewriter::Add(const CallContext& ctx, const IndexedPack& pack) {
  if (pack.entries.empty()) {
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
  RETURN_IF_ERROR(SaveIndex(ctx, repository_, pending_, fence_).status());
  ++counts_.files_written;
  pending_.clear();
  pending_blobs_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<IndexRewriteCounts> IndexRewriter::Commit(const CallContext& ctx, Lock& lock) {
  RETURN_IF_ERROR(Write(ctx));
  // What is deleted next must not be listed any more, whatever the store said of the old files.
  RETURN_IF_ERROR(lock.Fence(ctx));
  RETURN_IF_ERROR(repository_.RemoveFiles(ctx, lock, FileKind::kIndex, superseded_, [] {}));
  counts_.files_removed += std::ssize(superseded_);
  superseded_.clear();
  return counts_;
}

absl::Status IndexRewriter::Move(const CallContext& ctx, const FileInfo& file,
                                 PackPredicate dropped) {
  const BlobIndex& index = repository_.index();
  RETURN_IF_ERROR(repository_.ReadIndexFile(ctx, file, [&](const IndexedPack& pack) {
    const std::optional<uint32_t> ordinal = index.FindPack(pack.id);
    const bool is_again = ordinal.has_value() && moved_[*ordinal];
    if (is_again || dropped(pack.id)) {
      return absl::OkStatus();
    }
    if (ordinal.has_value()) {
      moved_[*ordinal] = true;
    }
    return Add(ctx, pack);
  }));
  superseded_.push_back(file.id);
  return absl::OkStatus();
}

absl::StatusOr<bool> IsAnyListed(const CallContext& ctx, const Repository& repository,
                                 PackPredicate packs) {
  ASSIGN_OR_RETURN(const std::vector<IndexFileInfo> files,
                   ReconcileAll(ctx, repository, packs, nullptr));
  return std::any_of(files.begin(), files.end(),
                     [](const IndexFileInfo& file) { return file.names_any; });
}

absl::Status ListAgain(const CallContext& ctx, Repository& repository, PackBits packs,
                       absl::Time stays_since, const LockFence& fence) {
  ASSIGN_OR_RETURN(std::vector<FileInfo> files, repository.ListFiles(ctx, FileKind::kIndex));
  const auto stays = [&](const FileInfo& file) { return file.modified_at >= stays_since; };
  std::partition(files.begin(), files.end(), stays);
  IndexRewriter again(repository, fence);
  for (const FileInfo& file : files) {
    RETURN_IF_ERROR(repository.ReadIndexFile(ctx, file, [&](const IndexedPack& pack) {
      const std::optional<uint32_t> ordinal = repository.index().FindPack(pack.id);
      if (!ordinal.has_value() || !packs[*ordinal]) {
        return absl::OkStatus();
      }
      packs[*ordinal] = false;
      return stays(file) ? absl::OkStatus() : again.Add(ctx, pack);
    }));
  }
  return again.Write(ctx);
}

absl::StatusOr<IndexRewriteCounts> DropFromIndex(const CallContext& ctx, Repository& repository,
                                                 Lock& lock, PackPredicate dropped,
                                                 const ProgressReporter& progress) {
  ASSIGN_OR_RETURN(const std::vector<IndexFileInfo> files,
                   ReconcileAll(ctx, repository, dropped, progress));
  std::vector<FileInfo> rewritten;
  std::vector<FileInfo> small;
  for (const IndexFileInfo& file : files) {
    if (file.names_any) {
      rewritten.push_back(file.file);
    } else if (file.blobs < kSmallIndexBlobs) {
      small.push_back(file.file);
    }
  }
  // One small file alone would only become another small file.
  if (small.size() + (rewritten.empty() ? 0 : 1) >= 2) {
    rewritten.insert(rewritten.end(), small.begin(), small.end());
  }
  IndexRewriter rewriter(repository, lock.AsFence());
  for (const FileInfo& file : rewritten) {
    RETURN_IF_ERROR(ctx.Check());
    RETURN_IF_ERROR(rewriter.Move(ctx, file, dropped));
  }
  return rewriter.Commit(ctx, lock);
}

}  // namespace csidelta::repository
