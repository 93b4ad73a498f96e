#include "longhorn/types.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "objects/keys.h"

namespace csidelta::longhorn {
namespace {

constexpr char kJobEngineLabel[] = "RecurringJob";
constexpr char kEnabled[] = "enabled";
constexpr char kDefaultGroup[] = "default";
constexpr char kVolumeHead[] = "volume-head";

}  // namespace

std::string Snapshot::volume() const { return GetString(json(), {"spec", "volume"}); }

bool Snapshot::is_to_be_taken() const { return GetBool(json(), {"spec", "createSnapshot"}); }

std::map<std::string, std::string> Snapshot::engine_labels() const {
  return GetStringMap(json(), {"spec", "labels"});
}

// One that its engine had before it had an object names its labels in the status alone.
std::string Snapshot::EngineLabel(const char* key) const {
  std::string value = GetString(json(), {"spec", "labels", key});
  return value.empty() ? GetString(json(), {"status", "labels", key}) : value;
}

std::string Snapshot::job() const { return EngineLabel(kJobEngineLabel); }

std::optional<absl::Time> Snapshot::requested_at() const {
  return ParseRfc3339(GetString(json(), {"status", "requestedTime"}));
}

std::optional<absl::Time> Snapshot::taken_at() const {
  return ParseRfc3339(GetString(json(), {"status", "creationTime"}));
}

bool Snapshot::is_ready() const {
  return GetBool(json(), {"status", "readyToUse"}) && !is_marked_removed() && !is_being_deleted();
}

bool Snapshot::is_marked_removed() const { return GetBool(json(), {"status", "markRemoved"}); }

bool Snapshot::is_user_created() const { return GetBool(json(), {"status", "userCreated"}); }

std::string Snapshot::parent() const { return GetString(json(), {"status", "parent"}); }

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

bool Snapshot::is_newest() const { return GetBool(json(), {"status", "children", kVolumeHead}); }

int64_t Snapshot::size_bytes() const { return GetInt(json(), {"status", "size"}); }

int64_t Snapshot::restore_size_bytes() const { return GetInt(json(), {"status", "restoreSize"}); }

std::string Snapshot::error() const { return GetString(json(), {"status", "error"}); }

std::optional<int64_t> Volume::size_bytes() const {
  int64_t size_bytes = 0;  // An int64 that Longhorn writes as a text.
  return absl::SimpleAtoi(GetString(json(), {"spec", "size"}), &size_bytes) && size_bytes > 0
             ? std::optional(size_bytes)
             : std::nullopt;
}

std::optional<int64_t> Volume::snapshot_count_max() const {
  const int64_t count = GetInt(json(), {"spec", "snapshotMaxCount"});
  return count > 0 ? std::optional(count) : std::nullopt;
}

bool Volume::is_standby() const { return GetBool(json(), {"spec", "Standby"}); }

std::string Volume::state() const { return GetString(json(), {"status", "state"}); }

std::string Volume::robustness() const { return GetString(json(), {"status", "robustness"}); }

std::string Volume::node() const { return GetString(json(), {"status", "currentNodeID"}); }

bool Volume::is_being_restored() const { return GetBool(json(), {"status", "restoreRequired"}); }

bool Volume::is_migrating() const {
  return !GetString(json(), {"spec", "migrationNodeID"}).empty() ||
         !GetString(json(), {"status", "currentMigrationNodeID"}).empty();
}

std::string Volume::clone_state() const {
  return GetString(json(), {"status", "cloneStatus", "state"});
}

// The status has it once the copy has begun, the spec ("snap://VOLUME/SNAPSHOT") from the
// beginning.
std::string Volume::cloned_from() const {
  std::string snapshot = GetString(json(), {"status", "cloneStatus", "snapshot"});
  if (!snapshot.empty()) {
    return snapshot;
  }
  const std::string source = GetString(json(), {"spec", "dataSource"});
  return absl::StartsWith(source, kSnapshotHandlePrefix) ? source.substr(source.rfind('/') + 1)
                                                         : "";
}

std::string Volume::linked_to() const { return Label(objects::kLonghornLinkedCloneLabel); }

std::string Volume::pvc_namespace() const {
  return GetString(json(), {"status", "kubernetesStatus", "namespace"});
}

std::string Volume::pvc_name() const {
  return GetString(json(), {"status", "kubernetesStatus", "pvcName"});
}

std::vector<std::string> RecurringJob::groups() const {
  std::vector<std::string> names;
  const Json* const groups = FindJson(json(), {"spec", "groups"});
  if (groups != nullptr && groups->is_array()) {
    for (const Json& group : *groups) {
      if (group.is_string()) {
        names.push_back(group.get<std::string>());
      }
    }
  }
  return names;
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
  std::string name = GetString(json(), {"spec", "snapshotName"});
  return name.empty() ? GetString(json(), {"status", "snapshotName"}) : name;
}

std::string Backup::volume() const { return GetString(json(), {"status", "volumeName"}); }

std::string Backup::target() const { return GetString(json(), {"status", "backupTargetName"}); }

std::string Backup::state() const { return GetString(json(), {"status", "state"}); }

bool Backup::is_over() const {
  const std::string now = state();
  return now == "Completed" || now == "Error" || now == "Unknown" || now == "Deleting";
}

std::optional<absl::Time> Backup::snapshot_taken_at() const {
  return ParseRfc3339(GetString(json(), {"status", "snapshotCreatedAt"}));
}

}  // namespace csidelta::longhorn
