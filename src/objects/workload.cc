#include "objects/workload.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/quantity.h"
#include "base/rfc3339.h"

namespace csidelta::objects {
namespace {

constexpr char kRequired[] = "requiredDuringSchedulingIgnoredDuringExecution";

bool IsOrdinal(absl::string_view text) {
  return !text.empty() && (text == "0" || text.front() != '0') &&
         std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

// The entries of a list of any other name.
Json Without(const Json& list, absl::string_view name) {
  Json others = Json::array();
  for (const Json& entry : list) {
    if (GetString(entry, {"name"}) != name) {
      others.push_back(entry);
    }
  }
  return others;
}

}  // namespace

std::vector<std::string> Pod::pvcs() const {
  std::vector<std::string> names;
  for (const Json& volume : ArrayAt({"spec", "volumes"})) {
    std::string claim = GetString(volume, {"persistentVolumeClaim", "claimName"});
    if (claim.empty() && FindJson(volume, {"ephemeral", "volumeClaimTemplate"}) != nullptr) {
      claim = absl::StrCat(name(), "-", GetString(volume, {"name"}));
    }
    if (!claim.empty() && std::find(names.begin(), names.end(), claim) == names.end()) {
      names.push_back(std::move(claim));
    }
  }
  return names;
}

std::vector<PodVolume> Pod::pvc_volumes() const {
  std::vector<PodVolume> volumes;
  for (const Json& volume : ArrayAt({"spec", "volumes"})) {
    std::string pvc = GetString(volume, {"persistentVolumeClaim", "claimName"});
    if (!pvc.empty()) {
      volumes.push_back({.name = GetString(volume, {"name"}), .pvc = std::move(pvc)});
    }
  }
  return volumes;
}

bool Pod::NamesPvc(absl::string_view pvc) const {
  const std::vector<PodVolume> volumes = pvc_volumes();
  return std::any_of(volumes.begin(), volumes.end(),
                     [&](const PodVolume& volume) { return volume.pvc == pvc; });
}

Pod Pod::Essence() const {
  Pod essence;
  if (const Json* const metadata = Find({"metadata"}); metadata != nullptr) {
    essence.Set({"metadata"}, *metadata);
  }
  essence.Remove({"metadata", "managedFields"});
  essence.Set({"spec", "volumes"}, ArrayAt({"spec", "volumes"}));
  essence.Set({"status", "phase"}, phase());
  return essence;
}

std::vector<Condition> Pod::conditions() const {
  std::vector<Condition> conditions;
  for (const Json& condition : ArrayAt({"status", "conditions"})) {
    conditions.push_back({.type = GetString(condition, {"type"}),
                          .status = GetString(condition, {"status"}),
                          .reason = GetString(condition, {"reason"}),
                          .message = GetString(condition, {"message"})});
  }
  return conditions;
}

std::optional<absl::Time> Pod::scheduled_at() const {
  for (const Json& condition : ArrayAt({"status", "conditions"})) {
    if (GetString(condition, {"type"}) == "PodScheduled" &&
        GetString(condition, {"status"}) == "True") {
      const auto time = ParseRfc3339(GetString(condition, {"lastTransitionTime"}));
      return time.has_value() ? time : created_at();
    }
  }
  return created_at();
}

std::vector<ContainerStatus> Pod::containers() const {
  std::vector<ContainerStatus> containers;
  for (const Json& json : ArrayAt({"status", "containerStatuses"})) {
    ContainerStatus& container = containers.emplace_back();
    if (const Json* waiting = FindJson(json, {"state", "waiting"}); waiting != nullptr) {
      container.waiting = {.reason = GetString(*waiting, {"reason"}),
                           .message = GetString(*waiting, {"message"})};
    }
    if (const Json* ended = FindJson(json, {"state", "terminated"}); ended != nullptr) {
      container.terminated = {.reason = GetString(*ended, {"reason"}),
                              .message = GetString(*ended, {"message"}),
                              .container_id = GetString(*ended, {"containerID"}),
                              .exit_code = GetInt(*ended, {"exitCode"}, -1)};
    }
  }
  return containers;
}

NodeSelector Pod::required_nodes() const {
  const Json* const nodes = Find({"spec", "affinity", "nodeAffinity", kRequired});
  return nodes == nullptr ? NodeSelector() : NodeSelector(*nodes);
}

void Pod::KeepAwayFrom(absl::string_view label, absl::string_view value) {
  Json term = {{"topologyKey", "kubernetes.io/hostname"}};
  SetJson(term, {"labelSelector", "matchLabels", label}, std::string(value));
  Json terms = Json::array({std::move(term)});
  const Json& others = ArrayAt({"spec", "affinity", "podAntiAffinity", kRequired});
  terms.insert(terms.end(), others.begin(), others.end());
  Set({"spec", "affinity", "podAntiAffinity", kRequired}, std::move(terms));
}

bool Pod::has_running_container() const {
  const Json& containers = ArrayAt({"status", "containerStatuses"});
  return !containers.empty() && FindJson(containers.front(), {"state", "running"}) != nullptr;
}

std::string Pod::last_message() const {
  for (const char* list : {"containerStatuses", "initContainerStatuses"}) {
    const Json& containers = ArrayAt({"status", list});
    std::string words =
        containers.empty() ? "" : GetString(containers.front(), {"state", "terminated", "message"});
    if (!words.empty()) {
      return words;
    }
  }
  return Text({"status", "message"});
}

std::string Pod::condition_message() const {
  for (const Json& condition : ArrayAt({"status", "conditions"})) {
    if (std::string message = GetString(condition, {"message"}); !message.empty()) {
      return message;
    }
  }
  return "";
}

void Pod::RemoveVolume(absl::string_view name) {
  Set({"spec", "volumes"}, Without(ArrayAt({"spec", "volumes"}), name));
  Json containers = ArrayAt({"spec", "containers"});
  for (Json& container : containers) {
    SetJson(container, {"volumeMounts"}, Without(JsonArrayAt(container, {"volumeMounts"}), name));
  }
  Set({"spec", "containers"}, std::move(containers));
}

void Pod::AddInitContainer(absl::string_view name, const std::vector<std::string>& arguments) {
  CSIDELTA_CHECK(!ArrayAt({"spec", "containers"}).empty());  // of MakePod()
  Json added = ArrayAt({"spec", "containers"}).front();
  added["name"] = std::string(name);
  added["args"] = arguments;
  added.erase("volumeDevices");
  Json containers = ArrayAt({"spec", "initContainers"});
  containers.push_back(std::move(added));
  Set({"spec", "initContainers"}, std::move(containers));
}

std::string Pod::workload() const {
  for (const OwnerReference& owner : owners()) {
    if (!owner.is_controller) {
      continue;
    }
    absl::string_view owner_name = owner.name;
    // A Deployment names its ReplicaSets after itself and the hash that their Pods are labelled by.
    const std::string hash = Label("pod-template-hash");
    if (owner.kind == "ReplicaSet" && !hash.empty() &&
        absl::ConsumeSuffix(&owner_name, absl::StrCat("-", hash))) {
      return absl::StrCat("Deployment/", owner_name);
    }
    return absl::StrCat(owner.kind, "/", owner.name);
  }
  return absl::StrCat("Pod/", name());
}

bool StatefulSet::Uses(absl::string_view pvc) const {
  for (const Json& volume : ArrayAt({"spec", "template", "spec", "volumes"})) {
    if (GetString(volume, {"persistentVolumeClaim", "claimName"}) == pvc && !pvc.empty()) {
      return true;
    }
  }
  return OrdinalOf(pvc).has_value();
}

std::optional<int64_t> StatefulSet::OrdinalOf(absl::string_view pvc) const {
  for (const Json& one : ArrayAt({"spec", "volumeClaimTemplates"})) {
    absl::string_view rest = pvc;
    int64_t ordinal = 0;
    if (absl::ConsumePrefix(&rest, absl::StrCat(k8s::Name(one), "-", name(), "-")) &&
        IsOrdinal(rest) && absl::SimpleAtoi(rest, &ordinal)) {
      return ordinal;
    }
  }
  return std::nullopt;
}

bool StatefulSet::deletes_when_scaled() const {
  return Text({"spec", "persistentVolumeClaimRetentionPolicy", "whenScaled"}) == "Delete";
}

std::vector<DeployedContainer> Deployment::ContainersAt(absl::string_view field) const {
  std::vector<DeployedContainer> containers;
  for (const Json& json : ArrayAt({"spec", "template", "spec", field})) {
    DeployedContainer container{.image = GetString(json, {"image"}), .arguments = {}};
    if (const auto limit = ParseQuantity(GetString(json, {"resources", "limits", "memory"}));
        limit.ok()) {
      container.memory_limit_bytes = *limit;
    }
    for (const char* const list : {"command", "args"}) {
      for (const Json& argument : JsonArrayAt(json, {list})) {
        container.arguments.push_back(argument.is_string() ? argument.get<std::string>() : "");
      }
    }
    containers.push_back(std::move(container));
  }
  return containers;
}

std::vector<std::string> Deployment::arguments() const {
  std::vector<std::string> all;
  for (const DeployedContainer& container : containers()) {
    all.insert(all.end(), container.arguments.begin(), container.arguments.end());
  }
  return all;
}

}  // namespace csidelta::objects
