#include "longhorn/types.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"

namespace csidelta::longhorn {
namespace {

const k8s::ResourceType& TypeOf(const char* plural, const char* kind) {
  return *new k8s::ResourceType{
      .group = kGroup, .version = kVersion, .plural = plural, .kind = kind, .namespaced = true};
}

}  // namespace

const k8s::ResourceType& SnapshotType() {
  static const k8s::ResourceType& type = TypeOf("snapshots", "Snapshot");
  return type;
}

const k8s::ResourceType& VolumeType() {
  static const k8s::ResourceType& type = TypeOf("volumes", "Volume");
  return type;
}

absl::StatusOr<Snapshot> Snapshot::Of(Json json) {
  RETURN_IF_ERROR(CheckKind(json, SnapshotType().kind));
  return Snapshot(std::move(json));
}

std::string Snapshot::volume() const { return GetString(json(), {"spec", "volume"}); }

bool Snapshot::is_to_be_taken() const { return GetBool(json(), {"spec", "createSnapshot"}); }

std::map<std::string, std::string> Snapshot::engine_labels() const {
  return GetStringMap(json(), {"spec", "labels"});
}

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

int64_t Snapshot::size_bytes() const { return GetInt(json(), {"status", "size"}); }

int64_t Snapshot::restore_size_bytes() const { return GetInt(json(), {"status", "restoreSize"}); }

std::string Snapshot::error() const { return GetString(json(), {"status", "error"}); }

absl::StatusOr<Volume> Volume::Of(Json json) {
  RETURN_IF_ERROR(CheckKind(json, VolumeType().kind));
  return Volume(std::move(json));
}

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

std::string Volume::clone_state() const {
  return GetString(json(), {"status", "cloneStatus", "state"});
}

std::string Volume::pvc_namespace() const {
  return GetString(json(), {"status", "kubernetesStatus", "namespace"});
}

std::string Volume::pvc_name() const {
  return GetString(json(), {"status", "kubernetesStatus", "pvcName"});
}

}  // namespace csidelta::longhorn
