#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/json.h"
#include "base/mutex.h"
#include "k8s/api_client.h"
#include "k8s/cached_client.h"

namespace csidelta::k8s {

// Objects that many ask for at the same moment and that may not be watched, such as Secrets: what
// was read of them in the last `age_max`. Thread-safe.
class RecentReads {
 public:
  explicit RecentReads(absl::Duration age_max) : age_max_(age_max) {}

 private:
  friend class RecentReader;
  struct Read {
    absl::Time at;
    Json object;
  };

  const absl::Duration age_max_;
  Mutex mutex_;
  std::map<std::string, Read> reads_ ABSL_GUARDED_BY(mutex_);  // by key
};

// Answers Get() from `reads` where it has the object, and asks `client` for everything else. What
// is written through it is read again. Only for reads of which an answer that is a moment old does
// no harm.
class RecentReader : public ForwardingClient {
 public:
  // Borrows both; `reads` null: each read is asked for.
  RecentReader(ApiClient& client, RecentReads* reads) : ForwardingClient(client), reads_(reads) {}

  absl::StatusOr<Json> Get(const CallContext& ctx, const ObjectKey& key) override;
  absl::StatusOr<Json> Update(const CallContext& ctx, const ObjectKey& key,
                              const Json& object) override;
  absl::StatusOr<Json> Patch(const CallContext& ctx, const ObjectKey& key, PatchKind kind,
                             const Json& patch, absl::string_view subresource) override;
  absl::Status Delete(const CallContext& ctx, const ObjectKey& key,
                      const DeleteOptions& options) override;

 private:
  void Forget(const ObjectKey& key);

  RecentReads* const reads_;
};

}  // namespace csidelta::k8s
