#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "repository/index_rewriter.h"
#include "repository/pack_headers.h"
#include "repository/pack_reader.h"
#include "repository/repairer.h"

namespace csidelta::repository {
namespace {

// What is known of a pack that is stored or listed.
struct PackState {
  int64_t stored_bytes = -1;  // Negative: not stored.
  bool listed = false;
  bool doubtful = false;     // Listed with another length, or twice, differently.
  uint64_t fingerprint = 0;  // Of what a file lists in it.
};

// What an index file lists of one pack.
struct ListedPack {
  PackId id;
  uint64_t fingerprint = 0;
  int64_t stored_bytes = 0;
};

// Writers list a pack's blobs in any order.
uint64_t FingerprintOf(IndexedPack pack) {
  std::sort(pack.entries.begin(), pack.entries.end(),
            [](const PackEntry& left, const PackEntry& right) {
              return left.span.offset_bytes < right.span.offset_bytes;
            });
  return Id::Of(EncodeIndex(absl::MakeConstSpan(&pack, 1))).Prefix64();
}

class IndexRepair {
 public:
  IndexRepair(const CallContext& ctx, Repository& repository, const RepairIndexOptions& options)
      : ctx_(ctx), repository_(repository), options_(options) {}

  absl::StatusOr<RepairIndexResult> Run(Lock& lock);

 private:
  absl::Status ReadFiles();
  void NoteListed(const ListedPack& pack);

  // Sorts the packs into those to drop, and those whose headers say what they hold.
  absl::Status ReadHeaders();
  absl::Status Rewrite(Lock& lock);

  // Replaces a file that lists any of `replaced` by one that does not.
  absl::Status MoveFile(const FileInfo& file, const absl::flat_hash_set<PackId>& replaced,
                        IndexRewriter& rewriter);

  const CallContext& ctx_;
  Repository& repository_;
  const RepairIndexOptions& options_;
  absl::flat_hash_map<PackId, PackState> packs_;
  std::vector<FileInfo> readable_files_;
  RepairIndexResult result_;
};

absl::StatusOr<RepairIndexResult> IndexRepair::Run(Lock& lock) {
  RETURN_IF_ERROR(repository_.ListPacks(ctx_, [this](const FileInfo& file) {
    packs_[file.id].stored_bytes = file.size_bytes;
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(ReadFiles());
  RETURN_IF_ERROR(ReadHeaders());
  if (options_.dry_run || !result_.changed()) {
    return std::move(result_);
  }
  RETURN_IF_ERROR(Rewrite(lock));
  return std::move(result_);
}

absl::Status IndexRepair::ReadFiles() {
  ASSIGN_OR_RETURN(const std::vector<FileInfo> files,
                   repository_.ListFiles(ctx_, FileKind::kIndex));
  for (std::size_t i = 0; i < files.size(); ++i) {
    RETURN_IF_ERROR(ctx_.Check());
    Report(options_.progress, "index files", static_cast<int64_t>(i),
           static_cast<int64_t>(files.size()));
    // What a file lists counts only if all of it reads.
    std::vector<ListedPack> listed;
    const absl::Status status =
        repository_.ReadIndexFile(ctx_, files[i], [&](const IndexedPack& pack) {
          listed.push_back({.id = pack.id,
                            .fingerprint = FingerprintOf(pack),
                            .stored_bytes = PackBytes(pack.entries)});
          return absl::OkStatus();
        });
    if (status.ok()) {
      readable_files_.push_back(files[i]);
      for (const ListedPack& pack : listed) {
        NoteListed(pack);
      }
    } else if (IsDamage(status)) {
      result_.unreadable_files.push_back(files[i].id);
    } else {
      return status;
    }
  }
  return absl::OkStatus();
}

void IndexRepair::NoteListed(const ListedPack& pack) {
  PackState& state = packs_[pack.id];
  const bool contradicts = state.listed && state.fingerprint != pack.fingerprint;
  const bool wrong_length = state.stored_bytes >= 0 && state.stored_bytes != pack.stored_bytes;
  state.doubtful |= contradicts || wrong_length || options_.read_all_packs;
  state.listed = true;
  state.fingerprint = pack.fingerprint;
}

absl::Status IndexRepair::ReadHeaders() {
  std::vector<FileInfo> to_read;
  for (const auto& [id, state] : packs_) {
    if (state.stored_bytes < 0) {
      result_.packs_dropped.push_back(id);
    } else if (!state.listed || state.doubtful) {
      to_read.push_back({.id = id, .size_bytes = state.stored_bytes});
    }
  }
  int64_t done = 0;
  return ReadPackHeaders(
      ctx_, repository_, to_read, PackProof::kHeader,
      [&](const FileInfo& pack, const absl::StatusOr<std::vector<PackEntry>>& entries) {
        Report(options_.progress, "packs", done++, static_cast<int64_t>(to_read.size()));
        if (!entries.ok() && !IsDamage(entries.status())) {
          return entries.status();
        }
        (entries.ok() ? result_.packs_added : result_.packs_unreadable).push_back(pack.id);
        return absl::OkStatus();
      });
}

absl::Status IndexRepair::Rewrite(Lock& lock) {
  RETURN_IF_ERROR(repository_.LoadReadableIndex(ctx_));
  IndexRewriter rewriter(repository_, lock);
  std::vector<FileInfo> added;
  for (const PackId& id : result_.packs_added) {
    added.push_back({.id = id, .size_bytes = packs_[id].stored_bytes});
  }
  const auto list = [&](const FileInfo& pack,
                        absl::StatusOr<std::vector<PackEntry>> entries) -> absl::Status {
    RETURN_IF_ERROR(entries.status());
    return rewriter.Add(ctx_, {.id = pack.id, .entries = *std::move(entries)});
  };
  RETURN_IF_ERROR(ReadPackHeaders(ctx_, repository_, added, PackProof::kHeader, list));
  absl::flat_hash_set<PackId> replaced(result_.packs_added.begin(), result_.packs_added.end());
  replaced.insert(result_.packs_dropped.begin(), result_.packs_dropped.end());
  for (const FileInfo& file : readable_files_) {
    RETURN_IF_ERROR(MoveFile(file, replaced, rewriter));
  }
  for (const Id& file : result_.unreadable_files) {
    rewriter.Supersede(file);
  }
  ASSIGN_OR_RETURN(const IndexRewriteCounts counts, rewriter.Commit(ctx_));
  result_.files_written = counts.files_written;
  result_.files_removed = counts.files_removed;
  return absl::OkStatus();
}

absl::Status IndexRepair::MoveFile(const FileInfo& file,
                                   const absl::flat_hash_set<PackId>& replaced,
                                   IndexRewriter& rewriter) {
  bool names_any = false;
  RETURN_IF_ERROR(repository_.ReadIndexFile(ctx_, file, [&](const IndexedPack& pack) {
    names_any |= replaced.contains(pack.id);
    return absl::OkStatus();
  }));
  const auto is_replaced = [&](const PackId& id) { return replaced.contains(id); };
  return names_any ? rewriter.Move(ctx_, file, is_replaced) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<RepairIndexResult> RepairIndex(const CallContext& ctx, Repository& repository,
                                              Lock& lock, const RepairIndexOptions& options) {
  return IndexRepair(ctx, repository, options).Run(lock);
}

}  // namespace csidelta::repository
