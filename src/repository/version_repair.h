#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "storage/object_store.h"

namespace csidelta::repository {

struct RepairVersionsOptions {
  absl::Time as_of = absl::InfinitePast();
  // Also hide what was put since then, with delete markers: what an attacker added, and what
  // backups did.
  bool hide_newer = false;
  bool dry_run = false;
};

struct RepairVersionsResult {
  int64_t objects = 0;                 // that were there at the time
  int64_t shown = 0;                   // delete markers were removed
  int64_t restored = 0;                // an older version was put again
  int64_t hidden = 0;                  // put since then
  int64_t newer = 0;                   // put since then, and left
  std::vector<std::string> lost = {};  // cannot be brought back, with the reason; the first 100
  int64_t lost_count = 0;
};

// Makes the current versions of a repository's objects those of `as_of`, by the clock of the store,
// but for locks. Needs no key: config and keys may be among what was deleted. Versions that a store
// has removed since then cannot be brought back, and do not show. Nothing is removed but delete
// markers, so it can be undone by another `as_of`. Memory: that of one page of versions.
absl::StatusOr<RepairVersionsResult> RepairVersions(const CallContext& ctx,
                                                    storage::ObjectStore& store,
                                                    const RepairVersionsOptions& options);

}  // namespace csidelta::repository
