#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/human_text.h"
#include "base/status_macros.h"
#include "repository/format.h"
#include "repository/repository.h"
#include "repository/sealer.h"

namespace csidelta::repository {
namespace {

// So many files of a kind are tried: all but the first are only needed where a stranger wrote some.
constexpr std::size_t kProofsMax = 8;

}  // namespace

// What was sealed with a master key proves which of the keys is the repository's: as `config`
// would.
absl::Status Repository::OpenWithoutConfig(const CallContext& ctx, absl::string_view password) {
  absl::Status last;
  for (const FileKind kind : {FileKind::kSnapshot, FileKind::kIndex}) {
    ASSIGN_OR_RETURN(const std::vector<FileInfo> files, ListFiles(ctx, kind));
    for (std::size_t i = 0; i < std::min(files.size(), kProofsMax); ++i) {
      const absl::StatusOr<std::string> sealed =
          store_.Get(ctx, FileKey(kind, files[i].id), kSnapshotTextBytesMax);
      last = sealed.ok() ? OpenWith(ctx, password, *sealed) : sealed.status();
      if (last.ok() || IsWrongPassword(last)) {
        return last;
      }
      last = Annotate(last, FileKey(kind, files[i].id));
    }
  }
  return last.ok() ? absl::FailedPreconditionError(
                         "there is no snapshot and no index file, which would prove that a key is "
                         "the repository's; csi-delta init makes a new repository")
                   : last;
}

absl::StatusOr<std::unique_ptr<Repository>> Repository::RepairConfig(
    const CallContext& ctx, storage::ObjectStore& store, absl::string_view password,
    const Environment& environment) {
  const absl::Status found = store.Stat(ctx, kConfigKey).status();
  if (!found.ok() && !absl::IsNotFound(found)) {
    return found;
  }
  if (found.ok()) {
    const absl::Status opened = Open(ctx, store, password, environment).status();
    if (opened.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the config of ", store.Describe(), " opens: there is nothing to repair"));
    }
    if (!absl::IsDataLoss(opened) && !absl::IsInvalidArgument(opened)) {
      return opened;
    }
  }
  std::unique_ptr<Repository> repository(new Repository(store, environment));
  RETURN_IF_ERROR(repository->OpenWithoutConfig(ctx, password));
  const std::string sealed =
      Sealer(repository->master_key_, *environment.random)
          .Seal(absl::string_view(EncodeConfig(MakeConfig(*environment.random))));
  RETURN_IF_ERROR(found.ok() ? store.Put(ctx, kConfigKey, sealed, {})
                             : repository->PutNewConfig(ctx, sealed));
  return Open(ctx, store, password, environment);
}

// Of a place without `config`.
absl::Status Repository::ExplainNoConfig(const CallContext& ctx) const {
  ASSIGN_OR_RETURN(const std::vector<FileInfo> snapshots, ListFiles(ctx, FileKind::kSnapshot));
  ASSIGN_OR_RETURN(const std::vector<FileInfo> index, ListFiles(ctx, FileKind::kIndex));
  if (snapshots.empty() && index.empty()) {
    return AsNoRepository(
        absl::NotFoundError(absl::StrCat("there is no repository in ", store_.Describe())));
  }
  return absl::DataLossError(absl::StrCat(
      store_.Describe(), " has lost its config; ", Counted(std::ssize(snapshots), "snapshot"),
      " and ", Counted(std::ssize(index), "index file"),
      " are there: put back a copy of this file, or run csi-delta repair config, which "
      "makes it again"));
}

}  // namespace csidelta::repository
