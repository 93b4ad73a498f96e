#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "k8s/event_recorder.h"
#include "objects/object.h"
#include "objects/workload.h"

namespace csidelta::objects {

// An Event of core/v1: what a controller or a driver reported about an object.
class Event : public ObjectOf<Event> {
 public:
  static constexpr KindName kKind = {"", "v1", "events", "Event"};

  std::string involved_uid() const { return Text({"involvedObject", "uid"}); }
  std::string type() const { return Text({"type"}); }  // Normal or Warning
  std::string reason() const { return Text({"reason"}); }
  std::string message() const { return Text({"message"}); }
  std::string reporter() const;  // the component, such as csi-snapshotter
  int64_t count() const;         // how often it was seen: at least 1
  // The last time, from the first of its fields that the reporter filled in.
  std::optional<absl::Time> last_seen_at() const;
};

// The Events of the object with this uid, the oldest first. Kubernetes keeps them for an hour
// unless configured otherwise, and may show them a few seconds late. PERMISSION_DENIED if they
// cannot be listed.
absl::StatusOr<std::vector<Event>> ReadEvents(const CallContext& ctx, k8s::ApiClient& api,
                                              absl::string_view namespace_name,
                                              absl::string_view uid);

// A Pod that has a node should run within this time.
inline constexpr absl::Duration kPodStartTime = absl::Seconds(30);

// Why a Pod that got its node more than `after` ago does not run: its newest Warning Event,
// "FailedMount: ...", cut to 512 bytes. Nothing else names a volume that cannot be attached or
// mounted. "" if the status of the Pod has a reason of its own, if there is no such Event, or if
// Events cannot be listed.
std::string WhyPodWaits(const CallContext& ctx, k8s::ApiClient& api, const Pod& pod,
                        absl::Duration after = kPodStartTime);

// As that of k8s/event_recorder.h.
inline absl::Status EmitEvent(const CallContext& ctx, k8s::ApiClient& api, const Object& about,
                              k8s::EventType type, absl::string_view reason,
                              absl::string_view message,
                              absl::string_view component = k8s::kPluginComponent) {
  return k8s::EmitEvent(ctx, api, about.json(), type, reason, message, component);
}

// The same of the plugin, which logs what fails: an Event is not worth the failure of an item.
void TryEmitEvent(const CallContext& ctx, k8s::ApiClient& api, const Object& about,
                  k8s::EventType type, absl::string_view reason, absl::string_view message);

}  // namespace csidelta::objects
