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
  void NoteListed(const IndexedPack& pack);

  // Sorts the packs into those to drop, and those whose headers say what they hold.
  absl::Status ReadHeaders();
  absl::Status Rewrite(Lock& lock);

  // Replaces a file that lists any of `replaced` by one that does not.
  absl::Status MoveFile(const Id& file, const absl::flat_hash_set<PackId>& replaced,
                        IndexRewriter& rewriter);

  const CallContext& ctx_;
  Repository& repository_;
  const RepairIndexOptions& options_;
  absl::flat_hash_map<PackId, PackState> packs_;
  std::vector<Id> readable_files_;
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
    const absl::StatusOr<std::vector<IndexedPack>> packs =
        LoadIndexFile(ctx_, repository_, files[i].id);
    if (packs.ok()) {
      readable_files_.push_back(files[i].id);
      for (const IndexedPack& pack : *packs) {
        NoteListed(pack);
      }
    } else if (IsDamage(packs.status())) {
      result_.unreadable_files.push_back(files[i].id);
    } else {
      return packs.status();
    }
  }
  return absl::OkStatus();
}

void IndexRepair::NoteListed(const IndexedPack& pack) {
  PackState& state = packs_[pack.id];
  const uint64_t fingerprint = FingerprintOf(pack);
  const bool contradicts = state.listed && state.fingerprint != fingerprint;
  const bool wrong_length =
      state.stored_bytes >= 0 && state.stored_bytes != PackBytes(pack.entries);
  state.doubtful |= contradicts || wrong_length || options_.read_all_packs;
  state.listed = true;
  state.fingerprint = fingerprint;
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
  for (const Id& file : readable_files_) {
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

absl::Status IndexRepair::MoveFile(const Id& file, const absl::flat_hash_set<PackId>& replaced,
                                   IndexRewriter& rewriter) {
  ASSIGN_OR_RETURN(const std::vector<IndexedPack> packs, LoadIndexFile(ctx_, repository_, file));
  bool names_any = false;
  for (const IndexedPack& pack : packs) {
    names_any |= replaced.contains(pack.id);
  }
  if (!names_any) {
    return absl::OkStatus();
  }
  for (const IndexedPack& pack : packs) {
    if (!replaced.contains(pack.id)) {
      RETURN_IF_ERROR(rewriter.Add(ctx_, pack));
    }
  }
  rewriter.Supersede(file);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RepairIndexResult> RepairIndex(const CallContext& ctx, Repository& repository,
                                              Lock& lock, const RepairIndexOptions& options) {
  return IndexRepair(ctx, repository, options).Run(lock);
}

}  // namespace csidelta::repository
