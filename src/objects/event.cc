#include "objects/event.h"

#include <algorithm>
#include <utility>

#include "base/rfc3339.h"
#include "base/status_macros.h"

namespace csidelta::objects {

absl::StatusOr<Event> Event::Of(Json json) {
  RETURN_IF_ERROR(CheckKind(json, "Event"));
  return Event(std::move(json));
}

std::string Event::involved_uid() const { return GetString(json(), {"involvedObject", "uid"}); }

std::string Event::type() const { return GetString(json(), {"type"}); }

std::string Event::reason() const { return GetString(json(), {"reason"}); }

std::string Event::message() const { return GetString(json(), {"message"}); }

std::string Event::reporter() const {
  std::string component = GetString(json(), {"source", "component"});
  return component.empty() ? GetString(json(), {"reportingComponent"}) : component;
}

int64_t Event::count() const {
  return std::max<int64_t>({1, GetInt(json(), {"count"}), GetInt(json(), {"series", "count"})});
}

std::optional<absl::Time> Event::last_seen_at() const {
  for (const std::string& text :
       {GetString(json(), {"series", "lastObservedTime"}), GetString(json(), {"lastTimestamp"}),
        GetString(json(), {"eventTime"}), GetString(json(), {"firstTimestamp"})}) {
    if (const std::optional<absl::Time> time = ParseRfc3339(text); time.has_value()) {
      return time;
    }
  }
  return created_at();
}

}  // namespace csidelta::objects
