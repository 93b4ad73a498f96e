#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/json.h"
#include "objects/object.h"

namespace csidelta::velero {

// Velero's own defaults, for servers that leave a field empty.
inline constexpr absl::Duration kCsiSnapshotTimeoutDefault = absl::Minutes(10);
inline constexpr absl::Duration kItemOperationTimeoutDefault = absl::Hours(4);
inline constexpr absl::Duration kResourceTimeoutDefault = absl::Minutes(10);

// What we read of Velero's Backup. A value; copied freely.
struct Backup {
  std::string name;
  std::string namespace_name;  // Velero's own namespace
  std::string uid;
  std::string phase;
  std::string creation_timestamp;  // RFC 3339, as the API server wrote it; "" when not told
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;

  std::optional<bool> snapshot_volumes;  // absent: Velero decides, which means yes
  bool snapshot_move_data = false;
  std::string data_mover;  // "" and "velero": Velero's own
  std::string storage_location;
  std::string volume_group_label_key;
  absl::Duration csi_snapshot_timeout = kCsiSnapshotTimeoutDefault;
  absl::Duration item_operation_timeout = kItemOperationTimeoutDefault;
  absl::Duration resource_timeout = kResourceTimeoutDefault;  // from an annotation
  std::optional<bool> default_volumes_to_fs_backup;

  // Names of ConfigMaps with volume policies in `namespace_name`; "" for none. Rules of the global
  // one come after the backup's own.
  std::string resource_policy_config_map;
  std::string global_policy_config_map;

  std::vector<std::string> included_namespaces, excluded_namespaces;
  std::vector<std::string> included_resources, excluded_resources;
  std::optional<bool> include_cluster_resources;

  // Velero calls the actions a second time for the items of finished operations: nothing is
  // created then, and an operation returned is an error.
  bool Finalizing() const;
  // Velero's final phase of the backup: Completed, PartiallyFailed, Failed, FailedValidation.
  bool Finished() const;
  // Velero works on it, or will: neither Finished() nor being deleted.
  bool Running() const;
  // Whether it takes what is in this namespace. Patterns of Velero 1.18 count: `*` and `?`; one
  // with other signs is taken for one that fits, so that this says yes when in doubt.
  bool IncludesNamespace(absl::string_view space) const;
};

// Reads a Backup as the host sends it or the API server returns it. `kind` and `apiVersion` may be
// missing. INVALID_ARGUMENT, naming the field, when the object has no name or namespace, or a
// field that we read has the wrong type or is no duration. Pure.
absl::StatusOr<Backup> ParseBackup(const Json& object);
inline absl::StatusOr<Backup> ParseBackup(const objects::Object& object) {
  return ParseBackup(object.json());
}

// The backups that a Schedule makes: without a name of their own. As ParseBackup.
absl::StatusOr<Backup> BackupOfSchedule(const objects::Object& schedule);

// What we read of Velero's Restore. A value; copied freely.
struct Restore {
  std::string name;
  std::string namespace_name;  // Velero's own namespace
  std::string uid;
  std::string phase;
  std::string backup_name;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  std::optional<bool> restore_pvs;  // false: claims without data
  std::map<std::string, std::string> namespace_mapping;
  absl::Duration item_operation_timeout = kItemOperationTimeoutDefault;
  absl::Duration resource_timeout = kResourceTimeoutDefault;  // from an annotation

  // It makes objects, or will. From then on Velero waits for what plugins do with them.
  bool RestoresItems() const;
  // Where what was in `namespace_in_backup` is restored.
  std::string MapNamespace(absl::string_view namespace_in_backup) const;
};

// As ParseBackup.
absl::StatusOr<Restore> ParseRestore(const Json& object);
inline absl::StatusOr<Restore> ParseRestore(const objects::Object& object) {
  return ParseRestore(object.json());
}

}  // namespace csidelta::velero
