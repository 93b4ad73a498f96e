#include "repository/find_repositories.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "base/worker_pool.h"
#include "repository/repository.h"
#include "storage/object_store.h"

namespace csidelta::repository {
namespace {

constexpr std::size_t kListingsAtOnce = 8;
// What a repository with a snapshot has besides its data.
constexpr absl::string_view kParts[] = {"index/", "keys/", "snapshots/"};

// The parts of a repository in the order in which they are deleted: at no time does one refer to
// what is gone.
constexpr std::array<absl::string_view, 6> kPartsInOrder = {"snapshots", "index", "data",
                                                            "",  // all others
                                                            "keys",      "config"};

std::size_t OrderOf(absl::string_view part) {
  const auto* found = absl::c_find(kPartsInOrder, part);
  found = found == kPartsInOrder.end() ? absl::c_find(kPartsInOrder, "") : found;
  return static_cast<std::size_t>(found - kPartsInOrder.begin());
}

struct Folder {
  bool is_repository = false;
  std::vector<std::string> inner;  // with their whole paths
};

absl::StatusOr<Folder> ListOneFolder(const CallContext& ctx, storage::ObjectStore& store,
                                     const std::string& path) {
  Folder folder;
  RETURN_IF_ERROR(store.ListFolder(ctx, path, [&](const storage::ObjectInfo& found) {
    if (found.key == absl::StrCat(path, kConfigKey)) {
      folder.is_repository = true;
    }
    if (!found.key.ends_with('/')) {
      return absl::OkStatus();
    }
    folder.inner.push_back(found.key);
    return std::ssize(folder.inner) > kFoldersMax
               ? absl::ResourceExhaustedError(absl::StrCat("more than ", kFoldersMax, " folders"))
               : absl::OkStatus();
  }));
  const bool has_parts = absl::c_all_of(kParts, [&](absl::string_view part) {
    return absl::c_linear_search(folder.inner, absl::StrCat(path, part));
  });
  folder.is_repository = folder.is_repository || has_parts;
  return folder;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> FindRepositories(
    const CallContext& ctx, storage::ObjectStore& store, int depth_max,
    const std::function<void(const std::string& folder, const absl::Status&)>& unseen) {
  std::vector<std::string> repositories;
  std::vector<std::string> level = {""};
  int64_t folders = 1;
  for (int depth = 0; depth <= depth_max && !level.empty(); ++depth) {
    Mutex mutex;
    std::vector<std::string> next;
    const auto look = [&](std::size_t i) -> absl::Status {
      absl::StatusOr<Folder> folder = ListOneFolder(ctx, store, level[i]);
      RETURN_IF_ERROR(ctx.Check());
      const MutexLock lock(mutex);
      if (!folder.ok() && depth > 0) {
        unseen(level[i], folder.status());
        return absl::OkStatus();
      }
      RETURN_IF_ERROR(folder.status());
      if (folder->is_repository) {
        repositories.push_back(level[i]);
        return absl::OkStatus();
      }
      folders += depth < depth_max ? std::ssize(folder->inner) : 0;
      if (folders > kFoldersMax) {
        return absl::ResourceExhaustedError(absl::StrCat("more than ", kFoldersMax,
                                                         " folders below ", store.Describe(),
                                                         "; name one of them, with fewer in it"));
      }
      std::move(folder->inner.begin(), folder->inner.end(), std::back_inserter(next));
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(ParallelFor(level.size(), kListingsAtOnce, look));
    level = std::move(next);
  }
  std::sort(repositories.begin(), repositories.end());
  return repositories;
}

absl::StatusOr<StoredSize> SizeOfAll(const CallContext& ctx, storage::ObjectStore& store,
                                     const std::string& folder) {
  StoredSize size;
  RETURN_IF_ERROR(store.List(ctx, folder, [&](const storage::ObjectInfo& object) {
    ++size.objects;
    size.bytes += object.size_bytes;
    return absl::OkStatus();
  }));
  return size;
}

absl::Status DeleteAll(const CallContext& ctx, storage::ObjectStore& store,
                       const std::string& folder, std::size_t depth) {
  std::array<std::vector<std::string>, kPartsInOrder.size()> parts;
  RETURN_IF_ERROR(store.List(ctx, folder, [&](const storage::ObjectInfo& object) {
    CSIDELTA_CHECK(absl::StartsWith(object.key, folder));
    const std::vector<absl::string_view> names =
        absl::StrSplit(absl::string_view(object.key).substr(folder.size()), '/');
    parts[OrderOf(names.size() > depth ? names[depth] : "")].push_back(object.key);
    return absl::OkStatus();
  }));
  for (const std::vector<std::string>& keys : parts) {
    RETURN_IF_ERROR(storage::DeleteObjects(
        ctx, store, keys, [](std::size_t, const absl::Status& deleted) { return deleted; }));
  }
  return absl::OkStatus();
}

}  // namespace csidelta::repository
