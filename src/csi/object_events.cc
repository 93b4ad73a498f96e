#include "csi/object_events.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "objects/client.h"

namespace csidelta::csi {

absl::StatusOr<std::vector<objects::Event>> ReadEvents(const CallContext& ctx, k8s::ApiClient& api,
                                                       absl::string_view namespace_name,
                                                       absl::string_view uid) {
  ASSIGN_OR_RETURN(
      std::vector<objects::Event> events,
      objects::List<objects::Event>(ctx, api, namespace_name,
                                    {.field_selector = absl::StrCat("involvedObject.uid=", uid)}));
  std::erase_if(events, [&](const objects::Event& event) { return event.involved_uid() != uid; });
  std::stable_sort(events.begin(), events.end(),
                   [](const objects::Event& left, const objects::Event& right) {
                     return left.last_seen_at() < right.last_seen_at();
                   });
  return events;
}

}  // namespace csidelta::csi
