#include "objects/differential_snapshot.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "base/enum_names.h"
#include "base/json_fields.h"
#include "base/rfc3339.h"
#include "objects/patch.h"

namespace csidelta::objects {
namespace {

constexpr std::size_t kParametersMax = 32;
constexpr std::size_t kParameterNameBytesMax = 253;
constexpr std::size_t kParameterTextBytesMax = 1024;
constexpr std::size_t kParametersBytesMax = 4096;  // All names and values, as CSI has it for maps.
constexpr char kReservedPrefix[] = "csi.storage.k8s.io/";

constexpr EnumNames<RequestState, 3> kStates = {{{RequestState::kPending, "Pending"},
                                                 {RequestState::kSuccess, "Success"},
                                                 {RequestState::kFailure, "Failure"}}};

constexpr auto kResolvedFields = [](auto& fields, auto& resolved) {
  fields("driver", resolved.driver);
  fields.IfSet("baseHandle", resolved.base_handle);
  fields.IfSet("targetHandle", resolved.target_handle);
  fields.IfSet("volumeHandle", resolved.volume_handle);
  fields.IfSet("volumeSnapshotClassName", resolved.class_name);
  fields.IfSet("volumeSize", resolved.volume_size_bytes);
};

// Since when it is as `condition` says: not now, where it was so before.
std::string LastTransition(const Json& object, const RequestCondition& condition,
                           absl::string_view status, absl::Time now) {
  for (const Json& before : JsonArrayAt(object, {"status", "conditions"})) {
    const std::string since = GetString(before, {"lastTransitionTime"});
    if (GetString(before, {"type"}) == condition.type && GetString(before, {"status"}) == status &&
        ParseRfc3339(since).has_value()) {
      return since;
    }
  }
  return FormatRfc3339Seconds(now);
}

Json ToJson(const Json& object, const RequestCondition& condition, absl::Time now) {
  const char* const status = condition.is_met ? "True" : "False";
  return {{"type", condition.type},
          {"status", status},
          {"reason", condition.reason},
          {"message", condition.message},
          {"lastTransitionTime", LastTransition(object, condition, status, now)},
          {"observedGeneration", GetInt(object, {"metadata", "generation"})}};
}

}  // namespace

std::string ToString(RequestState state) { return EnumName(kStates, state); }

bool AreDriverParameters(const std::map<std::string, std::string>& parameters) {
  std::size_t bytes = 0;
  bool all_good = parameters.size() <= kParametersMax;
  for (const auto& [name, value] : parameters) {
    bytes += name.size() + value.size();
    all_good = all_good && !name.empty() && name.size() <= kParameterNameBytesMax &&
               value.size() <= kParameterTextBytesMax && !absl::StartsWith(name, kReservedPrefix);
  }
  return all_good && bytes <= kParametersBytesMax;
}

std::map<std::string, std::string> DifferentialSnapshot::parameters() const {
  return GetStringMap(json(), {"spec", "parameters"});
}

RequestState DifferentialSnapshot::state() const {
  return EnumValue(kStates, Text({"status", "state"})).value_or(RequestState::kNone);
}

ResolvedNames DifferentialSnapshot::resolved() const {
  return ReadFields<ResolvedNames>(kResolvedFields, Find({"status", "resolved"}));
}

void DifferentialSnapshot::RemoveUnneeded(bool is_last_state) {
  RemoveManagedFields();
  for (const absl::string_view member : {"annotations", "labels", "ownerReferences"}) {
    Remove({"metadata", member});
  }
  if (is_last_state) {
    const std::string state = Text({"status", "state"});
    const std::string driver = resolved().driver;
    Remove({"spec"});
    Set({"status"}, {{"state", state}, {"resolved", {{"driver", driver}}}});
  }
}

Patch& Patch::SetRequestStatus(const DifferentialSnapshot& object, const RequestStatus& status,
                               absl::Time now) {
  Json json{{"state", ToString(status.state)},
            {"error", status.error.empty() ? Json() : Json(status.error)},
            {"resolved", WriteFields(kResolvedFields, status.resolved)},
            {"conditions", Json::array()}};
  for (const RequestCondition& condition : status.conditions) {
    json["conditions"].push_back(ToJson(object.json(), condition, now));
  }
  for (const auto& [member, text] :
       {std::pair("url", status.url), std::pair("audience", status.audience),
        std::pair("caBundle", absl::Base64Escape(status.ca_pem))}) {
    if (!text.empty()) {
      json[member] = text;
    }
  }
  return Set({"status"}, std::move(json));
}

}  // namespace csidelta::objects
