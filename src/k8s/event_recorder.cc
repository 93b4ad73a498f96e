#include "k8s/event_recorder.h"

#include <string>

#include "base/human_text.h"
#include "base/rfc3339.h"
#include "k8s/object.h"

namespace csidelta::k8s {
namespace {

constexpr std::size_t kMessageBytesMax = 1024;
constexpr std::size_t kNameBytesMax = 200;  // Room for what the server appends.

const ResourceType& EventsType() {
  static const auto& type = *new ResourceType{"", "v1", "events", "Event", true};
  return type;
}

}  // namespace

absl::Status EmitEvent(const CallContext& ctx, ApiClient& client, const Json& object,
                       EventType type, absl::string_view reason, absl::string_view message,
                       absl::string_view component) {
  const std::string object_namespace = Namespace(object);
  const std::string event_namespace = object_namespace.empty() ? "default" : object_namespace;
  const std::string name = Name(object);
  const std::string now = FormatRfc3339Seconds(ctx.clock->Now());
  Json involved = {{"apiVersion", GetString(object, {"apiVersion"})},
                   {"kind", GetString(object, {"kind"})},
                   {"name", name},
                   {"uid", Uid(object)}};
  if (!object_namespace.empty()) {
    involved["namespace"] = object_namespace;
  }
  const Json event = {
      {"apiVersion", "v1"},
      {"kind", "Event"},
      {"metadata",
       {{"generateName", CutText(name, kNameBytesMax) + "."}, {"namespace", event_namespace}}},
      {"involvedObject", std::move(involved)},
      {"type", type == EventType::kNormal ? "Normal" : "Warning"},
      {"reason", reason},
      {"message", CutText(message, kMessageBytesMax)},
      {"source", {{"component", component}}},
      {"reportingComponent", component},
      {"firstTimestamp", now},
      {"lastTimestamp", now},
      {"count", 1}};
  return client.Create(ctx, EventsType(), event_namespace, event).status();
}

}  // namespace csidelta::k8s
