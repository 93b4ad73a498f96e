#include "objects/event.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/human_text.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "objects/client.h"

namespace csidelta::objects {
namespace {

constexpr std::size_t kWhyBytesMax = 512;
// Of the time before the Pod had a node.
constexpr char kSchedulingFailed[] = "FailedScheduling";

// Whether the kubelet has begun to start it, and its status names no obstacle.
bool IsStarting(const Pod& pod) {
  const std::vector<ContainerStatus> containers = pod.containers();
  return !pod.node().empty() && pod.is_active() && !pod.is_running() && pod.reason().empty() &&
         std::all_of(containers.begin(), containers.end(), [](const ContainerStatus& one) {
           const std::string reason = one.waiting.has_value() ? one.waiting->reason : "";
           return !one.terminated.has_value() &&
                  (reason.empty() || reason == "ContainerCreating" || reason == "PodInitializing");
         });
}

}  // namespace

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

absl::StatusOr<std::vector<Event>> ReadEvents(const CallContext& ctx, k8s::ApiClient& api,
                                              absl::string_view namespace_name,
                                              absl::string_view uid) {
  ASSIGN_OR_RETURN(std::vector<Event> events,
                   List<Event>(ctx, api, namespace_name,
                               {.field_selector = absl::StrCat("involvedObject.uid=", uid)}));
  std::erase_if(events, [&](const Event& event) { return event.involved_uid() != uid; });
  std::stable_sort(events.begin(), events.end(), [](const Event& left, const Event& right) {
    return left.last_seen_at() < right.last_seen_at();
  });
  return events;
}

std::string WhyPodWaits(const CallContext& ctx, k8s::ApiClient& api, const Pod& pod,
                        absl::Duration after) {
  const absl::Time since = pod.scheduled_at().value_or(absl::InfiniteFuture());
  if (!IsStarting(pod) || ctx.clock->Now() < since + after) {
    return "";
  }
  const auto events = ReadEvents(ctx, api, pod.namespace_name(), pod.uid());
  std::string why;
  for (const Event& event : events.value_or(std::vector<Event>())) {
    if (event.type() == "Warning" && event.reason() != kSchedulingFailed) {
      why = CutText(absl::StrCat(event.reason(), ": ", event.message()), kWhyBytesMax);
    }
  }
  return why;
}

void TryEmitEvent(const CallContext& ctx, k8s::ApiClient& api, const Object& about,
                  k8s::EventType type, absl::string_view reason, absl::string_view message) {
  if (const absl::Status made = EmitEvent(ctx, api, about, type, reason, message); !made.ok()) {
    CSIDELTA_LOG(kInfo, "an event could not be written", {"namespace", about.namespace_name()},
                 {"name", about.name()}, {"reason", std::string(reason)},
                 {"error", made.ToString()});
  }
}

}  // namespace csidelta::objects
