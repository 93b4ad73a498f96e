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

// What the API server says of a quota that is used up.
struct QuotaUse {
  std::string name;
  int64_t used = 0;
  int64_t limit = 0;
};
// Nothing where `message` does not say it of a number of VolumeSnapshots. Pure.
std::optional<QuotaUse> ParseQuotaRefusal(absl::string_view message);

// Whether the ResourceQuotas of a namespace allow so many more VolumeSnapshots: OutOfRoomError(),
// in the words of the API server, where one does not. A dry run asks for one; those of a group are
// made by the snapshot controller, which tries again for ever. Errors of a LIST.
absl::Status CheckQuotas(const CallContext& ctx, k8s::ApiClient& api,
                         absl::string_view namespace_name, int needed);

}  // namespace csidelta::snapshots
