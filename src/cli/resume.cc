#include "cli/resume.h"

#include <vector>

#include "base/last_words.h"
#include "base/status_macros.h"
#include "repository/blob_writer.h"

namespace csidelta::cli {
namespace {

using repository::FileInfo;
using repository::Repository;

// Beside the sidecars, where stock restic does not look.
constexpr char kMarkKey[] = "aux/v1/unfinished";
// An index entry takes 49 bytes in the store and about 54 in memory; a third more for safety.
constexpr int64_t kMemoryPerStoredNumerator = 3;
constexpr int64_t kMemoryPerStoredDenominator = 2;

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
  ASSIGN_OR_RETURN(const std::vector<FileInfo> files,
                   repository.ListFiles(ctx, repository::FileKind::kIndex));
  int64_t stored_bytes = 0;
  for (const FileInfo& file : files) {
    stored_bytes += file.size_bytes;
  }
  if (stored_bytes / kMemoryPerStoredDenominator * kMemoryPerStoredNumerator > memory_bytes_max) {
    return answer;
  }
  RETURN_IF_ERROR(repository.LoadIndex(ctx));
  if (scope.all || !scope.ours.empty()) {
    ASSIGN_OR_RETURN(answer.packs_found, repository::AdoptOrphanPacks(
                                             ctx, repository, scope.all ? nullptr : &scope.ours));
  }
  answer.known = &repository.index();
  return answer;
}

void NoteEnd(const CallContext& ctx, Repository& repository, const ResumeAnswer& found,
             bool came_to_its_end) {
  if (!came_to_its_end) {
    MarkUnfinished(LastWords(ctx), repository);
  } else if (found.marked) {
    repository.store().Delete(ctx, kMarkKey).IgnoreError();
  }
}

}  // namespace csidelta::cli
