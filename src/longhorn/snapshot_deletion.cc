#include "longhorn/snapshot_deletion.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/rate_limiter.h"
#include "base/status_macros.h"
#include "k8s/api_client.h"
#include "longhorn/types.h"

namespace csidelta::longhorn {
namespace {

// With the next step, where there is one.
absl::Status Explain(const absl::Status& status, absl::string_view namespace_name) {
  if (k8s::IsWebhookAway(status.message())) {
    return absl::Status(status.code(),
                        absl::StrCat("Longhorn does not answer: is longhorn-manager running? Run ",
                                     "the command again once it is: ", status.message()));
  }
  if (absl::IsPermissionDenied(status) && !k8s::IsDeniedByWebhook(status.message())) {
    return absl::PermissionDeniedError(absl::StrCat(
        "you may not delete ", k8s::ToString(Snapshot::Type()), " in namespace ", namespace_name,
        "; ask for the ClusterRole ", kPrunerRole, " there: ", status.message()));
  }
  return status;
}

// Whether the next deletion would end like this one.
bool EndsAll(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) ||
         absl::IsUnauthenticated(status) || absl::IsCancelled(status) ||
         absl::IsDeadlineExceeded(status) ||
         (absl::IsPermissionDenied(status) && !k8s::IsDeniedByWebhook(status.message()));
}

}  // namespace

absl::Status DeleteSnapshots(
    const CallContext& ctx, k8s::ApiClient& api, absl::string_view namespace_name,
    const std::vector<const SnapshotEntry*>& snapshots,
    absl::FunctionRef<void(std::size_t position, const absl::Status& end)> note) {
  RateLimiter limiter(kDeletionsPerSecond, /*burst=*/1);
  for (std::size_t i = 0; i < snapshots.size(); ++i) {
    RETURN_IF_ERROR(limiter.Take(ctx));
    const k8s::ObjectKey key{.type = Snapshot::Type(),
                             .namespace_name = std::string(namespace_name),
                             .name = snapshots[i]->name};
    // Without a uid the API server would delete whatever has the name.
    const absl::Status deleted =
        snapshots[i]->uid.empty()
            ? absl::FailedPreconditionError("the API server listed it without a uid")
            : k8s::IgnoreGone(api.Delete(ctx, key, {.uid = snapshots[i]->uid}));
    const absl::Status end = Explain(deleted, namespace_name);
    note(i, end);
    if (EndsAll(deleted)) {
      return end;
    }
  }
  return absl::OkStatus();
}

}  // namespace csidelta::longhorn
