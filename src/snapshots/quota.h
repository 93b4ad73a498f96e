#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "k8s/api_client.h"

// Quotas on the number of VolumeSnapshots.
namespace csidelta::snapshots {

// A used-up quota, as the API server reports it.
struct QuotaUse {
  std::string name;
  int64_t used = 0;
  int64_t limit = 0;
};
// Nothing if `message` is not about a number of VolumeSnapshots. Pure.
std::optional<QuotaUse> ParseQuotaRefusal(absl::string_view message);

// Checks that the ResourceQuotas of a namespace allow `needed` more VolumeSnapshots:
// OutOfRoomError(), with a message like the API server's, if one does not. A dry run proves room
// for one only, and the snapshot controller, which makes those of a group, retries for ever. Other
// errors are those of a LIST.
absl::Status CheckQuotas(const CallContext& ctx, k8s::ApiClient& api,
                         absl::string_view namespace_name, int needed);

}  // namespace csidelta::snapshots
