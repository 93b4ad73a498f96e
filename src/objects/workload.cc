#include "objects/workload.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace csidelta::objects {
namespace {

const Json& ArrayAt(const Json& json, JsonPath path) {
  static const Json kNone = Json::array();
  const Json* const found = FindJson(json, path);
  return found != nullptr && found->is_array() ? *found : kNone;
}

bool IsOrdinal(absl::string_view text) {
  return !text.empty() && (text == "0" || text.front() != '0') &&
         std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

}  // namespace

absl::StatusOr<Pod> Pod::Of(Json json) {
  RETURN_IF_ERROR(CheckKind(json, "Pod"));
  return Pod(std::move(json));
}

std::vector<std::string> Pod::pvcs() const {
  std::vector<std::string> names;
  for (const Json& volume : ArrayAt(json(), {"spec", "volumes"})) {
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

bool Pod::is_active() const { return phase() != "Succeeded" && phase() != "Failed"; }

std::string Pod::phase() const { return GetString(json(), {"status", "phase"}); }

std::string Pod::termination_message() const {
  for (const Json& container : ArrayAt(json(), {"status", "containerStatuses"})) {
    for (const char* state : {"state", "lastState"}) {
      std::string message = GetString(container, {state, "terminated", "message"});
      if (!message.empty()) {
        return message;
      }
    }
  }
  return GetString(json(), {"status", "message"});
}

std::string Pod::waiting_reason() const {
  for (const Json& container : ArrayAt(json(), {"status", "containerStatuses"})) {
    const std::string reason = GetString(container, {"state", "waiting", "reason"});
    const std::string message = GetString(container, {"state", "waiting", "message"});
    if (!reason.empty() && reason != "ContainerCreating") {
      return absl::StrCat(reason, message.empty() ? "" : ": ", message);
    }
  }
  for (const Json& condition : ArrayAt(json(), {"status", "conditions"})) {
    const std::string message = GetString(condition, {"message"});
    if (GetString(condition, {"status"}) == "False" && !message.empty()) {
      return absl::StrCat(GetString(condition, {"reason"}), ": ", message);
    }
  }
  return "";
}

std::string Pod::workload() const {
  for (const Json& owner : ArrayAt(json(), {"metadata", "ownerReferences"})) {
    if (!GetBool(owner, {"controller"})) {
      continue;
    }
    const std::string kind = GetString(owner, {"kind"});
    const std::string whole_name = GetString(owner, {"name"});
    absl::string_view owner_name = whole_name;
    // A Deployment names its ReplicaSets after itself and the hash that their Pods are labelled by.
    const std::string hash = Label("pod-template-hash");
    if (kind == "ReplicaSet" && !hash.empty() &&
        absl::ConsumeSuffix(&owner_name, absl::StrCat("-", hash))) {
      return absl::StrCat("Deployment/", owner_name);
    }
    return absl::StrCat(kind, "/", whole_name);
  }
  return absl::StrCat("Pod/", name());
}

absl::StatusOr<StatefulSet> StatefulSet::Of(Json json) {
  RETURN_IF_ERROR(CheckKind(json, "StatefulSet"));
  return StatefulSet(std::move(json));
}

bool StatefulSet::Uses(absl::string_view pvc) const {
  for (const Json& volume : ArrayAt(json(), {"spec", "template", "spec", "volumes"})) {
    if (GetString(volume, {"persistentVolumeClaim", "claimName"}) == pvc && !pvc.empty()) {
      return true;
    }
  }
  return OrdinalOf(pvc).has_value();
}

std::optional<int64_t> StatefulSet::OrdinalOf(absl::string_view pvc) const {
  for (const Json& one : ArrayAt(json(), {"spec", "volumeClaimTemplates"})) {
    absl::string_view rest = pvc;
    int64_t ordinal = 0;
    if (absl::ConsumePrefix(&rest, absl::StrCat(k8s::Name(one), "-", name(), "-")) &&
        IsOrdinal(rest) && absl::SimpleAtoi(rest, &ordinal)) {
      return ordinal;
    }
  }
  return std::nullopt;
}

int64_t StatefulSet::replicas() const { return GetInt(json(), {"spec", "replicas"}, 1); }

int64_t StatefulSet::first_ordinal() const { return GetInt(json(), {"spec", "ordinals", "start"}); }

bool StatefulSet::deletes_when_scaled() const {
  return GetString(json(), {"spec", "persistentVolumeClaimRetentionPolicy", "whenScaled"}) ==
         "Delete";
}

}  // namespace csidelta::objects
