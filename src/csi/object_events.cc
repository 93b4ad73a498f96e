#include "csi/object_events.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/snapshot_types.h"

namespace csidelta::csi {

absl::StatusOr<std::vector<objects::Event>> ReadEvents(const CallContext& ctx, k8s::ApiClient& api,
                                                       absl::string_view namespace_name,
                                                       absl::string_view uid) {
  ASSIGN_OR_RETURN(
      k8s::ObjectList list,
      api.List(ctx, EventType(), namespace_name,
               {.label_selector = "", .field_selector = absl::StrCat("involvedObject.uid=", uid)}));
  std::vector<objects::Event> events;
  events.reserve(list.items.size());
  for (Json& item : list.items) {
    absl::StatusOr<objects::Event> event = objects::Event::Of(std::move(item));
    if (event.ok() && event->involved_uid() == uid) {
      events.push_back(*std::move(event));
    }
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const objects::Event& left, const objects::Event& right) {
                     return left.last_seen_at() < right.last_seen_at();
                   });
  return events;
}

}  // namespace csidelta::csi
