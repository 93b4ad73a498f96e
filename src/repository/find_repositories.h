#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "storage/object_store.h"

namespace csidelta::repository {

inline constexpr int64_t kFoldersMax = 200'000;  // looked into by one search

// The folders of `store` in which repositories are, at most `depth_max` folders deep: "" for the
// place itself, else ending in "/"; ascending. What has a config is one, and what has lost it, but
// has index, keys and snapshots; below it nothing is looked for.
//
// One listing for each folder, of what lies directly in it: the cost does not grow with what
// repositories hold. A folder other than the place itself that cannot be listed is given to
// `unseen`, from one thread at a time. RESOURCE_EXHAUSTED when there are more than kFoldersMax.
absl::StatusOr<std::vector<std::string>> FindRepositories(
    const CallContext& ctx, storage::ObjectStore& store, int depth_max,
    const std::function<void(const std::string& folder, const absl::Status&)>& unseen);

// What lies below a folder that holds repositories alone, whether or not their parts are whole.
struct StoredSize {
  int64_t objects = 0;
  int64_t bytes = 0;
};
absl::StatusOr<StoredSize> SizeOfAll(const CallContext& ctx, storage::ObjectStore& store,
                                     const std::string& folder);

// Deletes all of it, of each repository first what refers to other parts. `folder` ends in "/"; the
// repositories lie `depth` folders below it. Idempotent.
absl::Status DeleteAll(const CallContext& ctx, storage::ObjectStore& store,
                       const std::string& folder, std::size_t depth);

}  // namespace csidelta::repository
