#include "longhorn/types.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace csidelta::longhorn {
namespace {

constexpr char kEnabled[] = "enabled";
constexpr char kDefaultGroup[] = "default";
constexpr char kVolumeHead[] = "volume-head";

}  // namespace

// One that its engine had before it had an object names its labels in the status alone.
std::string Snapshot::EngineLabel(const char* key) const {
  std::string value = Text({"spec", "labels", key});
  return value.empty() ? Text({"status", "labels", key}) : value;
}

std::vector<std::string> Snapshot::children() const {
  std::vector<std::string> names;
  const Json* const children = FindJson(json(), {"status", "children"});
  if (children != nullptr && children->is_object()) {
    for (const auto& [name, is_there] : children->items()) {
      if (is_there == Json(true)) {
        names.push_back(name);
      }
    }
  }
  return names;
}

bool Snapshot::is_newest() const { return Flag({"status", "children", kVolumeHead}); }

std::optional<int64_t> Volume::size_bytes() const {
  int64_t size_bytes = 0;  // An int64 that Longhorn writes as a text.
  return absl::SimpleAtoi(Text({"spec", "size"}), &size_bytes) && size_bytes > 0
             ? std::optional(size_bytes)
             : std::nullopt;
}

std::optional<int64_t> Volume::snapshot_count_max() const {
  const int64_t count = Number({"spec", "snapshotMaxCount"});
  return count > 0 ? std::optional(count) : std::nullopt;
}

bool Volume::is_migrating() const {
  return !Text({"spec", "migrationNodeID"}).empty() ||
         !Text({"status", "currentMigrationNodeID"}).empty();
}

// The status has it once the copy has begun, the spec ("snap://VOLUME/SNAPSHOT") from the
// beginning.
std::string Volume::cloned_from() const {
  std::string snapshot = Text({"status", "cloneStatus", "snapshot"});
  if (!snapshot.empty()) {
    return snapshot;
  }
  const std::string source = Text({"spec", "dataSource"});
  return absl::StartsWith(source, kSnapshotHandlePrefix) ? source.substr(source.rfind('/') + 1)
                                                         : "";
}

std::string Volume::cloned_from_volume() const {
  const std::string source = data_source();
  absl::string_view rest = source;
  if (absl::ConsumePrefix(&rest, kSnapshotHandlePrefix) ||
      absl::ConsumePrefix(&rest, kVolumeHandlePrefix)) {
    return std::string(rest.substr(0, rest.find('/')));
  }
  return Text({"status", "cloneStatus", "sourceVolume"});
}

bool RecurringJob::AppliesTo(const Volume& volume) const {
  const std::map<std::string, std::string> labels = volume.labels();
  const bool has_any = std::any_of(labels.begin(), labels.end(), [](const auto& label) {
    return absl::StartsWith(label.first, objects::kLonghornJobLabelPrefix) ||
           absl::StartsWith(label.first, objects::kLonghornJobGroupLabelPrefix);
  });
  if (volume.Label(absl::StrCat(objects::kLonghornJobLabelPrefix, name())) == kEnabled) {
    return true;
  }
  const std::vector<std::string> all = groups();
  return std::any_of(all.begin(), all.end(), [&](const std::string& group) {
    return (!has_any && group == kDefaultGroup) ||
           volume.Label(absl::StrCat(objects::kLonghornJobGroupLabelPrefix, group)) == kEnabled;
  });
}

std::string Backup::snapshot() const {
  std::string name = Text({"spec", "snapshotName"});
  return name.empty() ? Text({"status", "snapshotName"}) : name;
}

bool Backup::is_over() const {
  const std::string now = state();
  return now == "Completed" || now == "Error" || now == "Unknown" || now == "Deleting";
}

}  // namespace csidelta::longhorn
