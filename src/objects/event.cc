#include "objects/event.h"

#include <algorithm>

#include "base/rfc3339.h"

namespace csidelta::objects {

std::string Event::reporter() const {
  std::string component = Text({"source", "component"});
  return component.empty() ? Text({"reportingComponent"}) : component;
}

int64_t Event::count() const {
  return std::max<int64_t>({1, Number({"count"}), Number({"series", "count"})});
}

std::optional<absl::Time> Event::last_seen_at() const {
  for (const std::string& text : {Text({"series", "lastObservedTime"}), Text({"lastTimestamp"}),
                                  Text({"eventTime"}), Text({"firstTimestamp"})}) {
    if (const std::optional<absl::Time> time = ParseRfc3339(text); time.has_value()) {
      return time;
    }
  }
  return created_at();
}

}  // namespace csidelta::objects
