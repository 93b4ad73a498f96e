#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "k8s/api_client.h"

namespace csidelta::datamover {

// How long a BackupStorageLocation or a Backup must be missing before anything is done about it. A
// chart that replaces its BackupStorageLocations, or a Velero that is installed again, misses them
// for minutes.
inline constexpr absl::Duration kMissingGracePeriod = absl::Hours(1);

// Whether objects exist, by one request for each within 5 minutes. Answers that are not used for 2
// hours are dropped. Not thread-safe.
class ObjectPresence {
 public:
  // How long the object has been missing; zero if it is there, or cannot be read (no permission).
  // Transient errors are returned.
  absl::StatusOr<absl::Duration> MissingFor(const CallContext& ctx, k8s::ApiClient& api,
                                            const k8s::ObjectKey& key);

 private:
  struct Answer {
    absl::Time asked_at = absl::InfinitePast();
    std::optional<absl::Time> missing_since = {};
  };

  std::map<std::string, Answer> answers_;  // by key
  absl::Time cleaned_at_ = absl::InfinitePast();
};

}  // namespace csidelta::datamover
