#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "base/call_context.h"

namespace csidelta::repository {

class Repository;

// What a repository weighs.
struct RepositorySize {
  int64_t pack_bytes = 0;
  int64_t snapshots = 0;
};

// By the lists of packs and snapshots: one request for a thousand of them.
absl::StatusOr<RepositorySize> MeasureRepository(const CallContext& ctx,
                                                 const Repository& repository);

}  // namespace csidelta::repository
