#include "csi/claim_provisioning.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/snapshot_types.h"

namespace csidelta::csi {
namespace {

constexpr char kProvisioningFailed[] = "ProvisioningFailed";

const k8s::ResourceType& EventsType() {
  static const k8s::ResourceType type{"", "v1", "events", "Event", true};
  return type;
}

}  // namespace

absl::StatusOr<std::string> LastProvisioningError(const CallContext& ctx, k8s::ApiClient& api,
                                                  const Json& claim) {
  ASSIGN_OR_RETURN(const k8s::ObjectList events,
                   api.List(ctx, EventsType(), Namespace(claim),
                            {.label_selector = "",
                             .field_selector = absl::StrCat("involvedObject.uid=", Uid(claim),
                                                            ",reason=", kProvisioningFailed)}));
  std::string newest_time;
  std::string message;
  for (const Json& event : events.items) {
    if (GetString(event, {"involvedObject", "uid"}) != Uid(claim) ||
        GetString(event, {"reason"}) != kProvisioningFailed) {
      continue;
    }
    const std::string time = GetString(event, {"lastTimestamp"});
    if (message.empty() || time >= newest_time) {
      newest_time = time;
      message = GetString(event, {"message"});
    }
  }
  return message;
}

bool IsDefiniteRefusal(absl::string_view message) {
  return absl::StrContains(message, "code = NotFound") ||
         absl::StrContains(message, "code = InvalidArgument") ||
         absl::StrContains(message, "code = OutOfRange") ||
         absl::StrContains(message, "code = Unimplemented") ||
         absl::StrContains(message, "is less than the size") ||
         absl::StrContains(message, "modifies the mode of the source volume");
}

absl::StatusOr<bool> WaitsForFirstConsumer(const CallContext& ctx, k8s::ApiClient& api,
                                           absl::string_view storage_class) {
  if (storage_class.empty()) {
    return false;
  }
  const absl::StatusOr<Json> found = api.Get(
      ctx, {.type = StorageClassType(), .namespace_name = "", .name = std::string(storage_class)});
  if (absl::IsNotFound(found.status())) {
    return false;
  }
  RETURN_IF_ERROR(found.status());
  return GetString(*found, {"volumeBindingMode"}) == "WaitForFirstConsumer";
}

}  // namespace csidelta::csi
