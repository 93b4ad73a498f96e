#include "velero/plugin_config.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/enum_names.h"
#include "base/go_duration.h"
#include "base/human_text.h"
#include "base/status_macros.h"
#include "objects/keys.h"
#include "velero/data_reference.h"

namespace csidelta::velero {
namespace {

constexpr absl::string_view kFlagForm = "true or false";
constexpr absl::string_view kWaitForm = "a duration from 1s to 1h";

constexpr EnumNames<bool, 2> kFlags = {{{true, "true"}, {false, "false"}}};
constexpr EnumNames<bool, 2> kSwitches = {{{true, "on"}, {false, "off"}}};
constexpr EnumNames<GroupFallback, 2> kFallbacks = {
    {{GroupFallback::kIndividual, "individual"}, {GroupFallback::kFail, "fail"}}};
constexpr EnumNames<GroupRestore, 2> kGroupRestores = {
    {{GroupRestore::kMembers, "members"}, {GroupRestore::kPreprovisioned, "preprovisioned"}}};
constexpr EnumNames<LonghornItems, 2> kItems = {
    {{LonghornItems::kSkip, "skip"}, {LonghornItems::kKeep, "keep"}}};
constexpr std::size_t kKeyBytesCompared = 64;

// Each says whether the value is legal, and if so puts it into the member.

template <const auto& kNames, auto kMember>
bool ReadChoice(const std::string& value, PluginConfig& config) {
  const auto choice = EnumValue(kNames, value);
  config.*kMember = choice.value_or(config.*kMember);
  return choice.has_value();
}

bool ReadDuration(const std::string& value, absl::Duration least, absl::Duration most,
                  absl::Duration& out) {
  const absl::StatusOr<absl::Duration> duration = ParseGoDuration(value);
  if (!duration.ok() || *duration < least || *duration > most) {
    return false;
  }
  out = *duration;
  return true;
}

template <absl::Duration PluginConfig::*kMember>
bool ReadWait(const std::string& value, PluginConfig& config) {
  return ReadDuration(value, absl::Seconds(1), absl::Hours(1), config.*kMember);
}

// How many letters must be inserted, removed or replaced to make one of the other.
std::size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

absl::string_view NearestKey(absl::string_view unknown) {
  const std::string lower = absl::AsciiStrToLower(unknown.substr(0, kKeyBytesCompared));
  const auto distance = [&lower](const PluginConfigKey& key) {
    return EditDistance(lower, absl::AsciiStrToLower(key.name));
  };
  const std::vector<PluginConfigKey>& keys = PluginConfigKeys();
  return std::min_element(keys.begin(), keys.end(),
                          [&distance](const PluginConfigKey& a, const PluginConfigKey& b) {
                            return distance(a) < distance(b);
                          })
      ->name;
}

absl::Status ReadKey(const std::string& key, const std::string& value, PluginConfig& config) {
  const std::vector<PluginConfigKey>& keys = PluginConfigKeys();
  const auto known = std::find_if(keys.begin(), keys.end(),
                                  [&](const PluginConfigKey& one) { return one.name == key; });
  if (known == keys.end()) {
    config.warnings.push_back(absl::StrCat(
        "unknown key ", Quoted(key), " is ignored; the nearest known key is ", NearestKey(key)));
    return absl::OkStatus();
  }
  return known->read(value, config) ? absl::OkStatus()
                                    : absl::InvalidArgumentError(absl::StrCat(
                                          key, ": ", Quoted(value), " is not ", known->legal_form));
}

std::string FullName(const objects::ConfigMap& config_map) {
  return absl::StrCat(config_map.namespace_name(), "/", config_map.name());
}

bool IsManaged(const objects::ConfigMap& config_map) {
  return config_map.HasLabel(objects::kPluginConfigLabel) &&
         config_map.HasLabel(objects::kCsiDeltaLabel);
}

}  // namespace

const std::vector<PluginConfigKey>& PluginConfigKeys() {
  static const auto& keys = *new std::vector<PluginConfigKey>{
      {"sweepOrphans", "true", kFlagForm,
       "Once per backup, remove the volume snapshots that failed backups of this plugin left.",
       ReadChoice<kFlags, &PluginConfig::sweep_orphans>},
      {"orphanGracePeriod", "24h", "a duration from 1m to 8760h",
       "How long nothing may have been seen of a Backup before its volume snapshots are orphans.",
       [](const std::string& value, PluginConfig& config) {
         return ReadDuration(value, absl::Minutes(1), absl::Hours(8760),
                             config.orphan_grace_period);
       }},
      {"restoreContentWait", "1m", kWaitForm,
       "How long a restore waits to hear whether the driver still has a snapshot.",
       ReadWait<&PluginConfig::restore_content_wait>},
      {"deletionWait", "1m", kWaitForm,
       "How long deleting a backup waits, per snapshot, for the driver to delete it.",
       ReadWait<&PluginConfig::deletion_wait>},
      {"groupFallback", "individual", "individual or fail",
       "What becomes of the PVCs of a volume group that cannot be snapshotted as one.",
       ReadChoice<kFallbacks, &PluginConfig::group_fallback>},
      {"groupRestore", "members", "members or preprovisioned",
       "What a volume group is restored as: single volume snapshots, or the group too.",
       ReadChoice<kGroupRestores, &PluginConfig::group_restore>},
      {"longhornNamespace", "longhorn-system", "the name of a namespace",
       "Where Longhorn is installed.",
       [](const std::string& value, PluginConfig& config) {
         config.longhorn_namespace = value;
         return IsNamespaceName(value);
       }},
      {"longhornGuard", "on", "on or off",
       "Leave out of restores which objects of Longhorn would do harm there.",
       ReadChoice<kSwitches, &PluginConfig::longhorn_guard>},
      {"longhornItems", "skip", "skip or keep",
       "Whether backups leave Longhorn's own snapshot objects out.",
       ReadChoice<kItems, &PluginConfig::longhorn_items>},
  };
  return keys;
}

absl::StatusOr<PluginConfig> ParsePluginConfig(const objects::ConfigMap& config_map) {
  PluginConfig config;
  const std::string name = absl::StrCat("ConfigMap ", FullName(config_map));
  RETURN_IF_ERROR(Annotate(config_map.Validate(), name));
  for (const auto& [key, value] : config_map.data()) {
    RETURN_IF_ERROR(Annotate(ReadKey(key, value, config), name));
  }
  return config;
}

absl::StatusOr<const objects::ConfigMap*> SelectPluginConfig(
    const std::vector<objects::ConfigMap>& config_maps) {
  const objects::ConfigMap* selected = nullptr;
  std::vector<std::string> names;
  for (const objects::ConfigMap& config_map : config_maps) {
    if (IsManaged(config_map)) {
      selected = &config_map;
      names.push_back(FullName(config_map));
    }
  }
  if (names.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("more than one ConfigMap is labelled ", objects::kPluginConfigLabel, " and ",
                     objects::kCsiDeltaLabel, ": ", absl::StrJoin(names, ", ")));
  }
  return selected;
}

}  // namespace csidelta::velero
