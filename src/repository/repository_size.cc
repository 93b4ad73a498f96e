#include "repository/repository_size.h"

#include <iterator>
#include <vector>

#include "base/status_macros.h"
#include "repository/repository.h"

namespace csidelta::repository {

absl::StatusOr<RepositorySize> MeasureRepository(const CallContext& ctx,
                                                 const Repository& repository) {
  RepositorySize size;
  RETURN_IF_ERROR(repository.ListPacks(ctx, [&size](const FileInfo& pack) {
    size.pack_bytes += pack.size_bytes;
    return absl::OkStatus();
  }));
  ASSIGN_OR_RETURN(const std::vector<FileInfo> snapshots,
                   repository.ListFiles(ctx, FileKind::kSnapshot));
  size.snapshots = std::ssize(snapshots);
  return size;
}

}  // namespace csidelta::repository
