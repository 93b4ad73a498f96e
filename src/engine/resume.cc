#include "engine/resume.h"

#include <algorithm>

#include "base/status_macros.h"
#include "repository/blob_writer.h"

namespace csidelta::engine {
namespace {

using repository::FileInfo;
using repository::Repository;

// Beside the sidecars, where stock restic does not look.
constexpr char kMarkKey[] = "aux/v1/unfinished";
// Tables that are sorted, and of the index the part that stays, take so much of what there is: as
// much again holds what of an index is never in a scratch file.
constexpr int64_t kTablesShare = 2;
constexpr int64_t kTableBytesLeast = 16 << 10;
// An index entry takes 49 bytes in the store, and 1 to 3 in memory of one that is in a scratch
// file: its share of the table of packs. Where that alone is too much, nothing need be loaded to
// know it.
constexpr int64_t kStoredPerMemory = 48;

}  // namespace

void MarkUnfinished(const CallContext& ctx, Repository& repository) {
  repository.store().Put(ctx, kMarkKey, "1", {}).IgnoreError();
}

bool IsUnfinished(const CallContext& ctx, const Repository& repository) {
  return repository.store().Stat(ctx, kMarkKey).ok();
}

absl::StatusOr<ResumeAnswer> FindUnfinished(const CallContext& ctx, Repository& repository,
                                            bool look, int64_t memory_bytes_max,
                                            const OrphanScope& scope) {
  ResumeAnswer answer;
  answer.marked = scope.all && IsUnfinished(ctx, repository);
  if (!look && !answer.marked) {
    return answer;
  }
  answer.held_back = repository::MayStillDelete(ctx, repository);
  if (answer.held_back) {
    answer.marked = false;  // What was left stays, and so does the mark.
    if (!look) {
      return answer;
    }
  }
  ASSIGN_OR_RETURN(const std::vector<FileInfo> files,
                   repository.ListFiles(ctx, repository::FileKind::kIndex));
  int64_t stored_bytes = 0;
  for (const FileInfo& file : files) {
    stored_bytes += file.size_bytes;
  }
  answer.memory_bytes_missing = stored_bytes / kStoredPerMemory - memory_bytes_max;
  if (answer.memory_bytes_missing > 0) {
    return answer;
  }
  repository.scratch().LimitTables(std::max(memory_bytes_max / kTablesShare, kTableBytesLeast));
  RETURN_IF_ERROR(repository.LoadReadableIndex(ctx));
  if ((scope.all || !scope.own.empty()) && !answer.held_back) {
    ASSIGN_OR_RETURN(answer.packs_found,
                     repository::AdoptOrphanPacks(ctx, repository, scope.fence,
                                                  scope.all ? nullptr : &scope.own));
  }
  answer.memory_bytes_missing =
      std::max<int64_t>(0, repository.index().memory_bytes() - memory_bytes_max);
  if (answer.memory_bytes_missing > 0) {
    repository.DropIndex();
    return answer;
  }
  answer.known = &repository.index();
  return answer;
}

void RecordEnd(const CallContext& ctx, Repository& repository, const ResumeAnswer& found,
               bool finished) {
  if (!finished) {
    MarkUnfinished(FinalContext(ctx), repository);
  } else if (found.marked) {
    repository.store().Delete(ctx, kMarkKey).IgnoreError();
  }
}

}  // namespace csidelta::engine
