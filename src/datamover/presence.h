#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "k8s/api_client.h"

namespace csidelta::datamover {

// For so long a BackupStorageLocation or a Backup must be missing before anything is done about it:
// a chart that replaces its BackupStorageLocations, or a Velero that is installed again, misses
// them for minutes.
inline constexpr absl::Duration kMissingGracePeriod = absl::Hours(1);

// Whether objects are there: one request for each within 5 minutes. What is not asked for in 2
// hours is not remembered. Not thread-safe.
class ObjectPresence {
 public:
  // Since it was missed first; zero: it is there, or cannot be read.
  absl::StatusOr<absl::Duration> MissingFor(const CallContext& ctx, k8s::ApiClient& api,
                                            const k8s::ObjectKey& key);

  // Its uid; "" if it is missing. PERMISSION_DENIED if it cannot be read.
  absl::StatusOr<std::string> UidOf(const CallContext& ctx, k8s::ApiClient& api,
                                    const k8s::ObjectKey& key);

 private:
  struct Answer {
    absl::Time asked_at = absl::InfinitePast();
    absl::Status status = {};  // OK: it is there
    std::string uid = {};
    std::optional<absl::Time> missing_since = {};
  };
  // What the API server said at most 5 minutes ago. Errors: those that may be other the next time.
  absl::StatusOr<Answer> AnswerFor(const CallContext& ctx, k8s::ApiClient& api,
                                   const k8s::ObjectKey& key);
  void EraseOld(absl::Time now);

  std::map<std::string, Answer> answers_;  // by key
  absl::Time cleaned_at_ = absl::InfinitePast();
};

}  // namespace csidelta::datamover
