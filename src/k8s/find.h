#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/json.h"
#include "k8s/api_client.h"

namespace csidelta::k8s {

// The object, or nothing where none exists. Other errors are those of Get().
absl::StatusOr<std::optional<Json>> Find(const CallContext& ctx, ApiClient& api,
                                         const ObjectKey& key);

// OK for NOT_FOUND: for what is to go, or matters only while it is there. Pure.
absl::Status IgnoreNotFound(const absl::Status& status);

// OK for ABORTED as well: of what is to go, another one has taken the place. Pure.
absl::Status IgnoreGone(const absl::Status& status);

}  // namespace csidelta::k8s
