#include "snapshots/quota.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/driver_error.h"
#include "objects/client.h"
#include "objects/core.h"
#include "objects/volume_snapshot.h"

namespace csidelta::snapshots {
namespace {

// The resource of a quota on the number of VolumeSnapshots.
constexpr char kCounted[] = "count/volumesnapshots.snapshot.storage.k8s.io";

// The number of VolumeSnapshots in the list that begins with `title`:
// ", used: count/...=10, pods=3, limited: ...".
std::optional<int64_t> CountIn(absl::string_view message, absl::string_view title) {
  const std::size_t begin = message.find(title);
  if (begin == absl::string_view::npos) {
    return std::nullopt;
  }
  absl::string_view list = message.substr(begin + title.size());
  list = list.substr(0, list.find(": "));  // where the next list begins
  const std::string counted = absl::StrCat(kCounted, "=");
  const std::size_t at = list.find(counted);
  if (at == absl::string_view::npos) {
    return std::nullopt;
  }
  list.remove_prefix(at + counted.size());
  int64_t count = 0;
  if (!absl::SimpleAtoi(list.substr(0, list.find_first_not_of("0123456789")), &count)) {
    return std::nullopt;
  }
  return count;
}

}  // namespace

std::optional<QuotaUse> ParseQuotaRefusal(absl::string_view message) {
  const std::size_t begin = message.find(csi::kQuotaRefusal);
  if (begin == absl::string_view::npos) {
    return std::nullopt;
  }
  const absl::string_view usage = message.substr(begin + csi::kQuotaRefusal.size());
  const std::optional<int64_t> used = CountIn(usage, ", used: ");
  const std::optional<int64_t> limit = CountIn(usage, ", limited: ");
  if (!used.has_value() || !limit.has_value()) {
    return std::nullopt;
  }
  return QuotaUse{.name = std::string(usage.substr(0, usage.find(", requested: "))),
                  .used = *used,
                  .limit = *limit};
}

absl::Status CheckQuotas(const CallContext& ctx, k8s::ApiClient& api,
                         absl::string_view namespace_name, int needed) {
  ASSIGN_OR_RETURN(const auto quotas,
                   objects::List<objects::ResourceQuota>(ctx, api, namespace_name));
  for (const objects::ResourceQuota& quota : quotas) {
    const std::optional<int64_t> limit = quota.Hard(kCounted);
    const std::optional<int64_t> used = quota.Used(kCounted);
    if (limit.has_value() && used.has_value() && *limit - *used < needed) {
      return csi::OutOfRoomError(
          csi::RoomLimit::kQuota,
          absl::StrCat(csi::kQuotaRefusal, quota.name(), ", requested: ", kCounted, "=", needed,
                       ", used: ", kCounted, "=", *used, ", limited: ", kCounted, "=", *limit));
    }
  }
  return absl::OkStatus();
}

}  // namespace csidelta::snapshots
