#include "objects/workload.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace csidelta::objects {
namespace {

bool IsOrdinal(absl::string_view text) {
  return !text.empty() && (text == "0" || text.front() != '0') &&
         std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
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

std::string Pod::termination_message() const {
  for (const Json& container : ArrayAt({"status", "containerStatuses"})) {
    for (const char* state : {"state", "lastState"}) {
      std::string message = GetString(container, {state, "terminated", "message"});
      if (!message.empty()) {
        return message;
      }
    }
  }
  return Text({"status", "message"});
}

std::string Pod::waiting_reason() const {
  for (const Json& container : ArrayAt({"status", "containerStatuses"})) {
    const std::string reason = GetString(container, {"state", "waiting", "reason"});
    const std::string message = GetString(container, {"state", "waiting", "message"});
    if (!reason.empty() && reason != "ContainerCreating") {
      return absl::StrCat(reason, message.empty() ? "" : ": ", message);
    }
  }
  for (const Json& condition : ArrayAt({"status", "conditions"})) {
    const std::string message = GetString(condition, {"message"});
    if (GetString(condition, {"status"}) == "False" && !message.empty()) {
      return absl::StrCat(GetString(condition, {"reason"}), ": ", message);
    }
  }
  return "";
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

}  // namespace csidelta::objects
