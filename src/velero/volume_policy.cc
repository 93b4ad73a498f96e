#include "velero/volume_policy.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/enum_names.h"
#include "base/human_text.h"
#include "base/json.h"
#include "base/quantity.h"
#include "base/status_macros.h"
#include "base/yaml.h"

namespace csidelta::velero {

// One rule as it was read. A condition that was not given is empty and holds.
struct VolumeRule {
  // Inclusive; an upper bound of 0 means none.
  struct CapacityRange {
    int64_t lower_bytes = 0;
    int64_t upper_bytes = 0;
  };
  struct Nfs {
    std::string server, path;  // "" for any
  };
  struct Csi {
    std::string driver;  // "" for any
    std::map<std::string, std::string> volume_attributes;
  };

  std::string name;
  std::optional<CapacityRange> capacity;
  std::vector<std::string> storage_classes;
  std::optional<Nfs> nfs;
  std::optional<Csi> csi;
  std::vector<std::string> volume_types;
  std::map<std::string, std::string> pvc_labels;
  std::vector<std::string> pvc_phases;
  std::string pvc_volume_mode;
  std::set<std::string> pvc_access_modes;
  PolicyAction action = PolicyAction::kSkip;
  std::map<std::string, std::string> parameters;
  std::string not_understood;  // "" when the whole rule is
};

namespace {

using objects::PersistentVolume;
using objects::PersistentVolumeClaim;

// Fields of a PersistentVolume's spec, in the order in which Velero looks. Policies call them so,
// but for storageos.
constexpr absl::string_view kVolumeTypes[] = {"awsElasticBlockStore",
                                              "azureDisk",
                                              "azureFile",
                                              "cephfs",
                                              "cinder",
                                              "csi",
                                              "fc",
                                              "flocker",
                                              "flexVolume",
                                              "gcePersistentDisk",
                                              "glusterfs",
                                              "hostPath",
                                              "iscsi",
                                              "local",
                                              "nfs",
                                              "photonPersistentDisk",
                                              "portworxVolume",
                                              "quobyte",
                                              "rbd",
                                              "scaleIO",
                                              "storageos",
                                              "vsphereVolume"};

constexpr EnumNames<PolicyAction, 4> kActions = {{
    {PolicyAction::kSkip, "skip"},
    {PolicyAction::kSnapshot, "snapshot"},
    {PolicyAction::kFsBackup, "fs-backup"},
    {PolicyAction::kCustom, "custom"},
}};

absl::Status WrongValue(absl::string_view key, absl::string_view legal) {
  return absl::InvalidArgumentError(absl::StrCat(key, ": not ", legal));
}

// The readers below take YAML's null for "not given", as Go does.

absl::StatusOr<std::string> ReadText(const Json& value, absl::string_view key) {
  if (value.is_null()) {
    return std::string();
  }
  if (!value.is_string()) {
    return WrongValue(key, "a text");
  }
  return value.get<std::string>();
}

absl::StatusOr<std::vector<std::string>> ReadTexts(const Json& value, absl::string_view key) {
  std::vector<std::string> texts;
  if (value.is_null()) {
    return texts;
  }
  if (!value.is_array()) {
    return WrongValue(key, "a list of texts");
  }
  for (const Json& element : value) {
    ASSIGN_OR_RETURN(std::string text, ReadText(element, key));
    if (!element.is_null()) {
      texts.push_back(std::move(text));
    }
  }
  return texts;
}

absl::StatusOr<std::map<std::string, std::string>> ReadTextMap(const Json& value,
                                                               absl::string_view key) {
  std::map<std::string, std::string> map;
  if (value.is_null()) {
    return map;
  }
  if (!value.is_object()) {
    return WrongValue(key, "a map of texts");
  }
  for (const auto& [name, member] : value.items()) {
    ASSIGN_OR_RETURN(map[name], ReadText(member, absl::StrCat(key, ".", name)));
  }
  return map;
}

absl::StatusOr<int64_t> ReadBound(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (text.empty()) {
    return 0;
  }
  return ParseQuantity(text);
}

absl::Status ReadCapacity(const Json& value, VolumeRule& rule) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(value, "capacity"));
  if (text.empty()) {
    return absl::OkStatus();
  }
  const std::vector<std::string> bounds = absl::StrSplit(text, ',');
  if (bounds.size() != 2) {
    return WrongValue("capacity", "\"lowest,highest\", such as \"10Gi,100Gi\" or \"10Gi,\"");
  }
  VolumeRule::CapacityRange range;
  ASSIGN_OR_RETURN(range.lower_bytes, Annotate(ReadBound(bounds[0]), "capacity"));
  ASSIGN_OR_RETURN(range.upper_bytes, Annotate(ReadBound(bounds[1]), "capacity"));
  if (range.upper_bytes < range.lower_bytes && range.upper_bytes != 0) {
    return WrongValue("capacity", "a range: the highest is below the lowest");
  }
  rule.capacity = range;
  return absl::OkStatus();
}

void NotUnderstood(VolumeRule& rule, std::string what) {
  if (rule.not_understood.empty()) {
    rule.not_understood = std::move(what);
  }
}

void WarnOfUnknownKeys(const Json& map, std::initializer_list<absl::string_view> known,
                       absl::string_view where, VolumeRule& rule) {
  for (const auto& [key, value] : map.items()) {
    if (std::find(known.begin(), known.end(), absl::string_view(key)) == known.end()) {
      NotUnderstood(rule, absl::StrCat("key ", Quoted(key), " of ", where, " is not known"));
    }
  }
}

absl::Status ReadNfs(const Json& value, VolumeRule& rule) {
  if (value.is_null()) {
    return absl::OkStatus();
  }
  if (!value.is_object()) {
    return WrongValue("nfs", "a map with server and path");
  }
  WarnOfUnknownKeys(value, {"server", "path"}, "nfs", rule);
  VolumeRule::Nfs nfs;
  ASSIGN_OR_RETURN(nfs.server, ReadText(value.value("server", Json()), "nfs.server"));
  ASSIGN_OR_RETURN(nfs.path, ReadText(value.value("path", Json()), "nfs.path"));
  rule.nfs = nfs;
  return absl::OkStatus();
}

absl::Status ReadCsi(const Json& value, VolumeRule& rule) {
  if (value.is_null()) {
    return absl::OkStatus();
  }
  if (!value.is_object()) {
    return WrongValue("csi", "a map with driver and volumeAttributes");
  }
  WarnOfUnknownKeys(value, {"driver", "volumeAttributes"}, "csi", rule);
  VolumeRule::Csi csi;
  const Json attributes = value.value("volumeAttributes", Json());
  ASSIGN_OR_RETURN(csi.driver, ReadText(value.value("driver", Json()), "csi.driver"));
  ASSIGN_OR_RETURN(csi.volume_attributes, ReadTextMap(attributes, "csi.volumeAttributes"));
  if (csi.driver.empty() && !attributes.is_null()) {
    return absl::InvalidArgumentError("csi: volumeAttributes need a driver");
  }
  rule.csi = csi;
  return absl::OkStatus();
}

absl::Status ReadPvcLabels(const Json& value, VolumeRule& rule) {
  if (!value.is_object()) {
    return WrongValue("pvcLabels", "a map of texts");
  }
  ASSIGN_OR_RETURN(rule.pvc_labels, ReadTextMap(value, "pvcLabels"));
  return absl::OkStatus();
}

absl::Status ReadCondition(const std::string& key, const Json& value, VolumeRule& rule) {
  if (key == "capacity") {
    return ReadCapacity(value, rule);
  }
  if (key == "nfs") {
    return ReadNfs(value, rule);
  }
  if (key == "csi") {
    return ReadCsi(value, rule);
  }
  if (key == "pvcLabels") {
    return ReadPvcLabels(value, rule);
  }
  if (key == "storageClass") {
    ASSIGN_OR_RETURN(rule.storage_classes, ReadTexts(value, key));
  } else if (key == "volumeTypes") {
    ASSIGN_OR_RETURN(rule.volume_types, ReadTexts(value, key));
  } else if (key == "pvcPhase") {
    ASSIGN_OR_RETURN(rule.pvc_phases, ReadTexts(value, key));
  } else if (key == "pvcVolumeMode") {
    ASSIGN_OR_RETURN(rule.pvc_volume_mode, ReadText(value, key));
  } else if (key == "pvcAccessModes") {
    ASSIGN_OR_RETURN(const std::vector<std::string> modes, ReadTexts(value, key));
    rule.pvc_access_modes.insert(modes.begin(), modes.end());
  } else {
    NotUnderstood(rule, absl::StrCat("condition ", Quoted(key), " is not known"));
  }
  return absl::OkStatus();
}

// The text of a parameter. What is no text is shown as JSON: it cannot be taken for a legal value.
std::string ParameterText(const Json& value) {
  return value.is_string() ? value.get<std::string>() : DumpJson(value);
}

absl::Status ReadAction(const Json& action, VolumeRule& rule) {
  if (!action.is_object()) {
    return WrongValue("action", "a map with type and parameters");
  }
  WarnOfUnknownKeys(action, {"type", "parameters"}, "action", rule);
  ASSIGN_OR_RETURN(const std::string type, ReadText(action.value("type", Json()), "action.type"));
  if (type.empty()) {
    return absl::InvalidArgumentError("action.type: missing");
  }
  const std::optional<PolicyAction> known = EnumValue(kActions, type);
  if (!known.has_value()) {
    NotUnderstood(rule, absl::StrCat("action type ", Quoted(type), " is not known"));
  }
  rule.action = known.value_or(rule.action);
  const Json parameters = action.value("parameters", Json::object());
  if (!parameters.is_object() && !parameters.is_null()) {
    return WrongValue("action.parameters", "a map");
  }
  for (const auto& [key, value] : parameters.items()) {
    rule.parameters[key] = ParameterText(value);
  }
  return absl::OkStatus();
}

absl::Status ReadRule(const Json& object, VolumeRule& rule) {
  if (!object.is_object()) {
    return absl::InvalidArgumentError("not a map with conditions and action");
  }
  WarnOfUnknownKeys(object, {"conditions", "action"}, "the rule", rule);
  const Json conditions = object.value("conditions", Json());
  if (!conditions.is_object() && !conditions.is_null()) {
    return WrongValue("conditions", "a map");
  }
  for (const auto& [key, value] : conditions.items()) {
    RETURN_IF_ERROR(ReadCondition(key, value, rule));
  }
  return ReadAction(object.value("action", Json()), rule);
}

// --- Matching -----------------------------------------------------------------------------------

bool Contains(const std::vector<std::string>& texts, absl::string_view text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

bool IsSubset(const std::map<std::string, std::string>& subset,
              const std::map<std::string, std::string>& whole) {
  return std::all_of(subset.begin(), subset.end(), [&whole](const auto& member) {
    const auto found = whole.find(member.first);
    return found != whole.end() && found->second == member.second;
  });
}

absl::string_view VolumeTypeOf(const PersistentVolume& pv) {
  for (const absl::string_view type : kVolumeTypes) {
    if (pv.HasSource(type)) {
      return type == "storageos" ? "storageOS" : type;
    }
  }
  return "";
}

bool CapacityHolds(const VolumeRule& rule, const PersistentVolume& pv) {
  if (!rule.capacity.has_value()) {
    return true;
  }
  const std::string text = pv.capacity();
  const absl::StatusOr<int64_t> bytes = text.empty() ? 0 : ParseQuantity(text);
  const auto& [lower, upper] = *rule.capacity;
  return bytes.ok() && *bytes >= lower && (upper == 0 || *bytes <= upper);
}

bool NfsHolds(const VolumeRule& rule, const PersistentVolume& pv) {
  if (!rule.nfs.has_value()) {
    return true;
  }
  return pv.HasSource("nfs") && (rule.nfs->server.empty() || rule.nfs->server == pv.nfs_server()) &&
         (rule.nfs->path.empty() || rule.nfs->path == pv.nfs_path());
}

// Unlike a label, an attribute that the volume lacks equals "", if it has any at all.
bool AttributesHold(const std::map<std::string, std::string>& wanted,
                    const std::map<std::string, std::string>& attributes) {
  return wanted.empty() ||
         (!attributes.empty() &&
          std::all_of(wanted.begin(), wanted.end(), [&attributes](const auto& member) {
            const auto found = attributes.find(member.first);
            return member.second == (found == attributes.end() ? "" : found->second);
          }));
}

bool CsiHolds(const VolumeRule& rule, const PersistentVolume& pv) {
  if (!rule.csi.has_value()) {
    return true;
  }
  if (!pv.is_csi() || rule.csi->driver.empty()) {
    return pv.is_csi();
  }
  return rule.csi->driver == pv.driver() &&
         AttributesHold(rule.csi->volume_attributes, pv.attributes());
}

bool AccessModesHold(const VolumeRule& rule, const PersistentVolumeClaim& pvc) {
  if (rule.pvc_access_modes.empty()) {
    return true;
  }
  const std::vector<std::string> list = pvc.access_modes();
  return std::set<std::string>(list.begin(), list.end()) == rule.pvc_access_modes;
}

bool VolumeHolds(const VolumeRule& rule, const PersistentVolume& pv) {
  const std::string storage_class = pv.storage_class();
  return CapacityHolds(rule, pv) && NfsHolds(rule, pv) && CsiHolds(rule, pv) &&
         (rule.storage_classes.empty() ||
          (!storage_class.empty() && Contains(rule.storage_classes, storage_class))) &&
         (rule.volume_types.empty() || Contains(rule.volume_types, VolumeTypeOf(pv)));
}

bool ClaimHolds(const VolumeRule& rule, const PersistentVolumeClaim& pvc) {
  const std::string phase = pvc.phase();
  return IsSubset(rule.pvc_labels, pvc.labels()) &&
         (rule.pvc_phases.empty() || (!phase.empty() && Contains(rule.pvc_phases, phase))) &&
         (rule.pvc_volume_mode.empty() || rule.pvc_volume_mode == pvc.mode_text()) &&
         AccessModesHold(rule, pvc);
}

}  // namespace

absl::StatusOr<VolumePolicies> VolumePolicies::Parse(absl::string_view yaml,
                                                     absl::string_view source) {
  ASSIGN_OR_RETURN(const Json document, Annotate(ParseYaml(yaml), source));
  if (!document.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": not a map"));
  }
  if (GetString(document, {"version"}) != "v1") {
    return absl::InvalidArgumentError(absl::StrCat(source, ": version: not v1"));
  }
  const Json rules = document.value("volumePolicies", Json::array());
  if (!rules.is_array() && !rules.is_null()) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": volumePolicies: not a list"));
  }
  VolumePolicies policies;
  for (const Json& object : rules) {
    auto rule = std::make_shared<VolumeRule>();
    rule->name = absl::StrCat("volume policy ", policies.rules_.size() + 1, " of ", source);
    RETURN_IF_ERROR(Annotate(ReadRule(object, *rule), rule->name));
    policies.rules_.push_back(std::move(rule));
  }
  return policies;
}

absl::StatusOr<VolumePolicies> VolumePolicies::FromConfigMap(const objects::ConfigMap& config_map) {
  const std::string source =
      absl::StrCat("ConfigMap ", config_map.namespace_name(), "/", config_map.name());
  const std::map<std::string, std::string> data = config_map.data();
  if (!config_map.Validate().ok() || data.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": volume policies are the text of exactly one key of its data"));
  }
  return Parse(data.begin()->second, source);
}

VolumePolicies VolumePolicies::FollowedBy(const VolumePolicies& global) const {
  VolumePolicies both = *this;
  both.rules_.insert(both.rules_.end(), global.rules_.begin(), global.rules_.end());
  return both;
}

bool VolumePolicies::AnyRuleHas(const std::string& parameter, absl::string_view value) const {
  return std::any_of(rules_.begin(), rules_.end(), [&](const auto& rule) {
    const auto found = rule->parameters.find(parameter);
    return found != rule->parameters.end() && found->second == value;
  });
}

bool VolumePolicies::AnyRuleIs(PolicyAction action) const {
  return std::any_of(rules_.begin(), rules_.end(), [&](const auto& rule) {
    return rule->not_understood.empty() && rule->action == action;
  });
}

PolicyMatch VolumePolicies::Match(const VolumeInfo& volume) const {
  const PersistentVolume none;
  const PersistentVolume& pv = volume.pv != nullptr ? *volume.pv : none;
  for (const auto& rule : rules_) {
    if (!ClaimHolds(*rule, volume.pvc) || !VolumeHolds(*rule, pv)) {
      continue;
    }
    PolicyMatch match{.rule = rule->name, .action = rule->action, .parameters = rule->parameters};
    match.kind =
        rule->not_understood.empty() ? PolicyMatch::Kind::kRule : PolicyMatch::Kind::kUndecidable;
    if (!rule->not_understood.empty()) {
      match.reason = absl::StrCat(rule->name, ": ", rule->not_understood);
    }
    return match;
  }
  return PolicyMatch{};
}

}  // namespace csidelta::velero
