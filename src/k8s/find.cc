#include "k8s/find.h"

#include <utility>

#include "base/status_macros.h"

namespace csidelta::k8s {

absl::StatusOr<std::optional<Json>> Find(const CallContext& ctx, ApiClient& api,
                                         const ObjectKey& key) {
  absl::StatusOr<Json> object = api.Get(ctx, key);
  if (absl::IsNotFound(object.status())) {
    return std::optional<Json>();
  }
  RETURN_IF_ERROR(object.status());
  return std::optional<Json>(*std::move(object));
}

absl::Status IgnoreNotFound(const absl::Status& status) {
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status IgnoreGone(const absl::Status& status) {
  return absl::IsAborted(status) ? absl::OkStatus() : IgnoreNotFound(status);
}

}  // namespace csidelta::k8s
