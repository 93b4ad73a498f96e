#include "velero/plugin_config.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "objects/keys.h"
#include "velero/go_duration.h"
#include "velero/quote.h"

namespace csidelta::velero {
namespace {

constexpr absl::string_view kFlagForm = "true or false";
constexpr absl::string_view kGraceForm = "a duration from 1m to 8760h";
constexpr absl::string_view kWaitForm = "a duration from 1s to 1h";
constexpr absl::string_view kFallbackForm = "individual or fail";
constexpr absl::string_view kGroupRestoreForm = "members or preprovisioned";
constexpr absl::string_view kNamespaceForm = "the name of a namespace";
constexpr absl::string_view kSwitchForm = "on or off";
constexpr absl::string_view kItemsForm = "skip or keep";
constexpr std::size_t kKeyBytesCompared = 64;
constexpr std::size_t kNamespaceBytesMax = 63;

absl::Status WrongValue(absl::string_view key, absl::string_view value, absl::string_view form) {
  return absl::InvalidArgumentError(absl::StrCat(key, ": ", Quote(value), " is not ", form));
}

absl::StatusOr<bool> ReadFlag(absl::string_view key, absl::string_view value) {
  if (value != "true" && value != "false") {
    return WrongValue(key, value, kFlagForm);
  }
  return value == "true";
}

absl::StatusOr<absl::Duration> ReadDuration(absl::string_view key, absl::string_view value,
                                            absl::Duration least, absl::Duration most,
                                            absl::string_view form) {
  const absl::StatusOr<absl::Duration> duration = ParseGoDuration(value);
  if (!duration.ok() || *duration < least || *duration > most) {
    return WrongValue(key, value, form);
  }
  return *duration;
}

absl::StatusOr<absl::Duration> ReadWait(absl::string_view key, absl::string_view value) {
  return ReadDuration(key, value, absl::Seconds(1), absl::Hours(1), kWaitForm);
}

absl::StatusOr<GroupFallback> ReadFallback(absl::string_view key, absl::string_view value) {
  if (value != "individual" && value != "fail") {
    return WrongValue(key, value, kFallbackForm);
  }
  return value == "fail" ? GroupFallback::kFail : GroupFallback::kIndividual;
}

absl::StatusOr<GroupRestore> ReadGroupRestore(absl::string_view key, absl::string_view value) {
  if (value != "members" && value != "preprovisioned") {
    return WrongValue(key, value, kGroupRestoreForm);
  }
  return value == "members" ? GroupRestore::kMembers : GroupRestore::kPreprovisioned;
}

// A DNS label, as the API server wants it.
absl::StatusOr<std::string> ReadNamespace(absl::string_view key, const std::string& value) {
  const auto may_be_inside = [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
  };
  if (value.empty() || value.size() > kNamespaceBytesMax || value.front() == '-' ||
      value.back() == '-' || !std::all_of(value.begin(), value.end(), may_be_inside)) {
    return WrongValue(key, value, kNamespaceForm);
  }
  return value;
}

absl::StatusOr<bool> ReadSwitch(absl::string_view key, absl::string_view value) {
  if (value != "on" && value != "off") {
    return WrongValue(key, value, kSwitchForm);
  }
  return value == "on";
}

absl::StatusOr<LonghornItems> ReadItems(absl::string_view key, absl::string_view value) {
  if (value != "skip" && value != "keep") {
    return WrongValue(key, value, kItemsForm);
  }
  return value == "skip" ? LonghornItems::kSkip : LonghornItems::kKeep;
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
  if (key == "sweepOrphans") {
    ASSIGN_OR_RETURN(config.sweep_orphans, ReadFlag(key, value));
  } else if (key == "orphanGracePeriod") {
    ASSIGN_OR_RETURN(config.orphan_grace_period,
                     ReadDuration(key, value, absl::Minutes(1), absl::Hours(8760), kGraceForm));
  } else if (key == "restoreContentWait") {
    ASSIGN_OR_RETURN(config.restore_content_wait, ReadWait(key, value));
  } else if (key == "deletionWait") {
    ASSIGN_OR_RETURN(config.deletion_wait, ReadWait(key, value));
  } else if (key == "groupFallback") {
    ASSIGN_OR_RETURN(config.group_fallback, ReadFallback(key, value));
  } else if (key == "groupRestore") {
    ASSIGN_OR_RETURN(config.group_restore, ReadGroupRestore(key, value));
  } else if (key == "longhornNamespace") {
    ASSIGN_OR_RETURN(config.longhorn_namespace, ReadNamespace(key, value));
  } else if (key == "longhornGuard") {
    ASSIGN_OR_RETURN(config.longhorn_guard, ReadSwitch(key, value));
  } else if (key == "longhornItems") {
    ASSIGN_OR_RETURN(config.longhorn_items, ReadItems(key, value));
  } else if (key == "longhornRetake") {
    ASSIGN_OR_RETURN(config.longhorn_retake, ReadFlag(key, value));
  } else {
    config.warnings.push_back(absl::StrCat(
        "unknown key ", Quote(key), " is ignored; the nearest known key is ", NearestKey(key)));
  }
  return absl::OkStatus();
}

std::string FullName(const Json& config_map) {
  return absl::StrCat(GetString(config_map, {"metadata", "namespace"}), "/",
                      GetString(config_map, {"metadata", "name"}));
}

bool IsManaged(const objects::Object& config_map) {
  return config_map.HasLabel(objects::kPluginConfigLabel) &&
         config_map.HasLabel(objects::kCsiDeltaLabel);
}

}  // namespace

const std::vector<PluginConfigKey>& PluginConfigKeys() {
  static const auto& keys = *new std::vector<PluginConfigKey>{
      {"sweepOrphans", "true", kFlagForm,
       "Once per backup, remove the volume snapshots that failed backups of this plugin left."},
      {"orphanGracePeriod", "24h", kGraceForm,
       "How long nothing may have been seen of a Backup before its volume snapshots are orphans."},
      {"restoreContentWait", "1m", kWaitForm,
       "How long a restore waits to hear whether the driver still has a snapshot."},
      {"deletionWait", "1m", kWaitForm,
       "How long deleting a backup waits, per snapshot, for the driver to delete it."},
      {"groupFallback", "individual", kFallbackForm,
       "What becomes of the PVCs of a volume group that cannot be snapshotted as one."},
      {"groupRestore", "members", kGroupRestoreForm,
       "What a volume group is restored as: single volume snapshots, or the group too."},
      {"longhornNamespace", "longhorn-system", kNamespaceForm, "Where Longhorn is installed."},
      {"longhornGuard", "on", kSwitchForm,
       "Leave out of restores which objects of Longhorn would do harm there."},
      {"longhornItems", "skip", kItemsForm,
       "Whether backups leave Longhorn's own snapshot objects out."},
      {"longhornRetake", "false", kFlagForm,
       "Ask Longhorn for a snapshot of today's data for each of its own that a restore leaves "
       "out."},
  };
  return keys;
}

absl::StatusOr<PluginConfig> ParsePluginConfig(const Json& config_map) {
  PluginConfig config;
  const std::string name = absl::StrCat("ConfigMap ", FullName(config_map));
  const Json* data = FindJson(config_map, {"data"});
  if (data == nullptr || data->is_null()) {
    return config;
  }
  if (!data->is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": data: not a map"));
  }
  for (const auto& [key, value] : data->items()) {
    if (!value.is_string()) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": ", Quote(key), ": not a text"));
    }
    RETURN_IF_ERROR(Annotate(ReadKey(key, value.get<std::string>(), config), name));
  }
  return config;
}

absl::StatusOr<const objects::Object*> SelectPluginConfig(
    const std::vector<objects::Object>& config_maps) {
  const objects::Object* selected = nullptr;
  std::vector<std::string> names;
  for (const objects::Object& config_map : config_maps) {
    if (IsManaged(config_map)) {
      selected = &config_map;
      names.push_back(FullName(config_map.json()));
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
