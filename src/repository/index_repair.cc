#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "repository/index_rewriter.h"
#include "repository/pack_reader.h"
#include "repository/record_sorter.h"
#include "repository/repairer.h"
#include "repository/stored_packs.h"

namespace csidelta::repository {
namespace {

// That a pack is stored, or what an index file lists of it.
struct PackFact {
  PackId id;
  bool is_listed = false;  // Sorted, what is stored comes first.
  uint64_t fingerprint = 0;
  int64_t bytes = 0;

  uint64_t SortPrefix() const { return id.OrderedPrefix64(); }
  friend bool operator<(const PackFact& a, const PackFact& b) {
    return std::tie(a.id, a.is_listed, a.fingerprint) < std::tie(b.id, b.is_listed, b.fingerprint);
  }
};

// What is known of a pack.
struct PackState {
  PackId id;
  int64_t stored_bytes = -1;  // Negative: not stored.
  bool listed = false;
  bool doubtful = false;     // Listed with another length, or twice, differently.
  uint64_t fingerprint = 0;  // Of what a file lists in it.
};

constexpr int64_t kFactTableShare = 4;

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
      : ctx_(ctx),
        repository_(repository),
        options_(options),
        facts_(repository.scratch(),
               repository.scratch().options().table_memory_bytes_max / kFactTableShare) {}

  absl::StatusOr<RepairIndexResult> Run(Lock& lock);

 private:
  absl::Status ReadFiles();

  // Sorts the packs into those to drop, and those whose headers say what they hold.
  absl::Status JudgePacks();
  void Learn(const PackFact& fact, PackState& state) const;
  absl::Status Judge(const PackState& state);
  absl::Status ReadHeaders();
  template <typename T>
  absl::Status Note(std::vector<T>& list, const T& element) {
    return repository_.memory().Append(lists_share_, list, element, "repairing the index");
  }
  absl::Status Rewrite(Lock& lock);

  const CallContext& ctx_;
  Repository& repository_;
  const RepairIndexOptions& options_;
  RecordSorter<PackFact> facts_;
  MemoryBudget::Share lists_share_;
  bool has_unlisted_ = false;
  std::vector<FileInfo> to_read_;  // Packs, ascending.
  std::vector<FileInfo> readable_files_;
  RepairIndexResult result_;
};

absl::StatusOr<RepairIndexResult> IndexRepair::Run(Lock& lock) {
  RETURN_IF_ERROR(ListPacksFast(ctx_, repository_, [this](const FileInfo& file) {
    const PackFact fact = {.id = file.id, .bytes = file.size_bytes};
    return facts_.Add(absl::MakeConstSpan(&fact, 1));
  }));
  RETURN_IF_ERROR(ReadFiles());
  RETURN_IF_ERROR(JudgePacks());
  // A backup could come to rely on what is listed again, and lose it afterwards.
  if (has_unlisted_ && !options_.assume_ended && MayStillDelete(ctx_, repository_)) {
    return absl::FailedPreconditionError(
        "packs are in no index file, and a client whose exclusive lock ran out may still delete "
        "them; if the index has lost nothing, csi-delta prune ends this; else make sure that the "
        "client has ended, and pass --assume-ended");
  }
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
    Report(options_.progress, "index files", i, files.size());
    // What a file lists counts only if all of it reads.
    std::vector<PackFact> listed;
    const absl::Status status =
        repository_.ReadIndexFile(ctx_, files[i], [&](const IndexedPack& pack) {
          return Note(listed, {.id = pack.id,
                               .is_listed = true,
                               .fingerprint = FingerprintOf(pack),
                               .bytes = PackBytes(pack.entries)});
        });
    lists_share_.Reset();
    if (status.ok()) {
      readable_files_.push_back(files[i]);
      RETURN_IF_ERROR(facts_.Add(listed));
    } else if (IsDamage(status)) {
      result_.unreadable_files.push_back(files[i].id);
    } else {
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status IndexRepair::JudgePacks() {
  PackState state;
  RETURN_IF_ERROR(facts_.Drain([&](absl::Span<const PackFact> facts) -> absl::Status {
    for (const PackFact& fact : facts) {
      if (fact.id != state.id) {
        RETURN_IF_ERROR(Judge(state));
        state = {.id = fact.id};
      }
      Learn(fact, state);
    }
    return absl::OkStatus();
  }));
  return Judge(state);
}

void IndexRepair::Learn(const PackFact& fact, PackState& state) const {
  if (!fact.is_listed) {
    state.stored_bytes = fact.bytes;
    return;
  }
  const bool contradicts = state.listed && state.fingerprint != fact.fingerprint;
  const bool wrong_length = state.stored_bytes >= 0 && state.stored_bytes != fact.bytes;
  state.doubtful |= contradicts || wrong_length || options_.read_all_packs;
  state.listed = true;
  state.fingerprint = fact.fingerprint;
}

absl::Status IndexRepair::Judge(const PackState& state) {
  has_unlisted_ |= state.stored_bytes >= 0 && !state.listed;
  if (state.stored_bytes < 0) {
    return state.listed ? Note(result_.packs_dropped, state.id) : absl::OkStatus();
  }
  return state.listed && !state.doubtful
             ? absl::OkStatus()
             : Note(to_read_, {.id = state.id, .size_bytes = state.stored_bytes});
}

absl::Status IndexRepair::ReadHeaders() {
  int64_t done = 0;
  return ReadPackHeaders(
      ctx_, repository_, to_read_,
      [&](const FileInfo& pack,
          const absl::StatusOr<std::vector<PackEntry>>& entries) -> absl::Status {
        Report(options_.progress, "packs", done++, to_read_.size());
        if (!entries.ok()) {
          return IsDamage(entries.status()) ? Note(result_.packs_unreadable, pack.id)
                                            : entries.status();
        }
        return Note(result_.packs_added, pack.id);
      });
}

absl::Status IndexRepair::Rewrite(Lock& lock) {
  RETURN_IF_ERROR(repository_.LoadReadableIndex(ctx_));
  IndexRewriter rewriter(repository_, lock.AsFence());
  const auto list = [&](const FileInfo& pack,
                        absl::StatusOr<std::vector<PackEntry>> entries) -> absl::Status {
    RETURN_IF_ERROR(entries.status());
    return rewriter.Add(ctx_, {.id = pack.id, .entries = *std::move(entries)});
  };
  std::sort(result_.packs_added.begin(), result_.packs_added.end());
  std::erase_if(to_read_, [this](const FileInfo& pack) {
    return !absl::c_binary_search(result_.packs_added, pack.id);
  });
  RETURN_IF_ERROR(ReadPackHeaders(ctx_, repository_, to_read_, list));
  const auto is_replaced = [this](const PackId& id) {
    return absl::c_binary_search(result_.packs_added, id) ||
           absl::c_binary_search(result_.packs_dropped, id);
  };
  for (const FileInfo& file : readable_files_) {
    bool names_any = false;
    RETURN_IF_ERROR(repository_.ReadIndexFile(ctx_, file, [&](const IndexedPack& pack) {
      names_any |= is_replaced(pack.id);
      return absl::OkStatus();
    }));
    RETURN_IF_ERROR(names_any ? rewriter.Move(ctx_, file, is_replaced) : absl::OkStatus());
  }
  for (const Id& file : result_.unreadable_files) {
    rewriter.Supersede(file);
  }
  ASSIGN_OR_RETURN(const IndexRewriteCounts counts, rewriter.Commit(ctx_, lock));
  result_.files_written = counts.files_written;
  result_.files_removed = counts.files_removed;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RepairIndexResult> RepairIndex(const CallContext& ctx, Repository& repository,
                                              Lock& lock, const RepairIndexOptions& options) {
  // Beside another deletion each could count on what the other removes.
  CSIDELTA_CHECK(lock.is_exclusive());
  return IndexRepair(ctx, repository, options).Run(lock);
}

}  // namespace csidelta::repository
