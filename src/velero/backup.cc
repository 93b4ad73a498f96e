#include "velero/backup.h"

#include <initializer_list>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "velero/go_duration.h"
#include "velero/labels.h"

namespace csidelta::velero {
namespace {

// Reads typed fields of one object; the first one of the wrong type is remembered.
class Reader {
 public:
  explicit Reader(const Json& object) : object_(object) {}

  std::string Text(JsonPath path) {
    const Json* value = Find(path);
    if (value != nullptr && !value->is_string()) {
      Fail(path, "is not a string");
    }
    return GetString(object_, path);
  }

  std::optional<bool> Flag(JsonPath path) {
    const Json* value = Find(path);
    if (value == nullptr) {
      return std::nullopt;
    }
    if (!value->is_boolean()) {
      Fail(path, "is not true or false");
      return std::nullopt;
    }
    return value->get<bool>();
  }

  std::vector<std::string> Texts(JsonPath path) {
    std::vector<std::string> texts;
    const Json* value = Find(path);
    if (value == nullptr) {
      return texts;
    }
    if (!value->is_array()) {
      Fail(path, "is not a list");
      return texts;
    }
    for (const Json& element : *value) {
      if (!element.is_string()) {
        Fail(path, "holds something that is not a string");
        return texts;
      }
      texts.push_back(element.get<std::string>());
    }
    return texts;
  }

  std::map<std::string, std::string> Map(JsonPath path) {
    const Json* value = Find(path);
    std::map<std::string, std::string> map = GetStringMap(object_, path);
    if (value != nullptr && (!value->is_object() || map.size() != value->size())) {
      Fail(path, "is not a map of strings");
    }
    return map;
  }

  // Absent, empty and zero all mean `fallback`: Go writes a duration that was never set as "0s".
  absl::Duration Timeout(JsonPath path, absl::Duration fallback) {
    return Timeout(Text(path), absl::StrJoin(path, "."), fallback);
  }
  absl::Duration Timeout(absl::string_view text, absl::string_view field, absl::Duration fallback) {
    if (text.empty()) {
      return fallback;
    }
    const absl::StatusOr<absl::Duration> duration = ParseGoDuration(text);
    if (!duration.ok() || *duration < absl::ZeroDuration()) {
      Remember(duration.ok() ? absl::InvalidArgumentError(absl::StrCat(field, ": negative"))
                             : Annotate(duration.status(), field));
      return fallback;
    }
    return *duration == absl::ZeroDuration() ? fallback : *duration;
  }

  void Require(const std::string& value, absl::string_view field) {
    if (value.empty()) {
      Remember(absl::InvalidArgumentError(absl::StrCat(field, ": missing")));
    }
  }

  const absl::Status& status() const { return status_; }

 private:
  const Json* Find(JsonPath path) const {
    const Json* value = FindJson(object_, path);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  void Fail(JsonPath path, absl::string_view problem) {
    Remember(absl::InvalidArgumentError(absl::StrCat(absl::StrJoin(path, "."), ": ", problem)));
  }
  void Remember(const absl::Status& status) {
    if (status_.ok()) {
      status_ = status;
    }
  }

  const Json& object_;
  absl::Status status_;
};

std::string Lookup(const std::map<std::string, std::string>& map, const std::string& key) {
  const auto found = map.find(key);
  return found == map.end() ? std::string() : found->second;
}

bool IsOneOf(absl::string_view text, std::initializer_list<absl::string_view> texts) {
  for (const absl::string_view candidate : texts) {
    if (text == candidate) {
      return true;
    }
  }
  return false;
}

// The members that Backup and Restore share.
template <typename T>
void ReadMetadata(Reader& reader, T& object) {
  object.name = reader.Text({"metadata", "name"});
  object.namespace_name = reader.Text({"metadata", "namespace"});
  object.uid = reader.Text({"metadata", "uid"});
  object.phase = reader.Text({"status", "phase"});
  object.labels = reader.Map({"metadata", "labels"});
  object.annotations = reader.Map({"metadata", "annotations"});
  object.item_operation_timeout =
      reader.Timeout({"spec", "itemOperationTimeout"}, kItemOperationTimeoutDefault);
  object.resource_timeout = reader.Timeout(Lookup(object.annotations, kResourceTimeoutAnnotation),
                                           absl::StrCat("annotation ", kResourceTimeoutAnnotation),
                                           kResourceTimeoutDefault);
  reader.Require(object.name, "metadata.name");
  reader.Require(object.namespace_name, "metadata.namespace");
}

}  // namespace

bool Backup::Finalizing() const {
  return IsOneOf(phase, {"Finalizing", "FinalizingPartiallyFailed"});
}

bool Backup::Finished() const {
  return IsOneOf(phase, {"Completed", "PartiallyFailed", "Failed", "FailedValidation"});
}

absl::StatusOr<Backup> ParseBackup(const Json& object) {
  if (!object.is_object()) {
    return absl::InvalidArgumentError("parse Backup: not an object");
  }
  Reader reader(object);
  Backup backup;
  ReadMetadata(reader, backup);
  backup.creation_timestamp = reader.Text({"metadata", "creationTimestamp"});
  backup.snapshot_volumes = reader.Flag({"spec", "snapshotVolumes"});
  backup.snapshot_move_data = reader.Flag({"spec", "snapshotMoveData"}).value_or(false);
  backup.data_mover = reader.Text({"spec", "datamover"});
  backup.storage_location = reader.Text({"spec", "storageLocation"});
  backup.volume_group_label_key = reader.Text({"spec", "volumeGroupSnapshotLabelKey"});
  backup.csi_snapshot_timeout =
      reader.Timeout({"spec", "csiSnapshotTimeout"}, kCsiSnapshotTimeoutDefault);
  backup.default_volumes_to_fs_backup = reader.Flag({"spec", "defaultVolumesToFsBackup"});
  if (!backup.default_volumes_to_fs_backup.has_value()) {
    backup.default_volumes_to_fs_backup = reader.Flag({"spec", "defaultVolumesToRestic"});
  }
  if (absl::EqualsIgnoreCase(reader.Text({"spec", "resourcePolicy", "kind"}), "configmap")) {
    backup.resource_policy_config_map = reader.Text({"spec", "resourcePolicy", "name"});
  }
  backup.global_policy_config_map = Lookup(backup.annotations, kGlobalVolumePolicyAnnotation);
  backup.included_namespaces = reader.Texts({"spec", "includedNamespaces"});
  backup.excluded_namespaces = reader.Texts({"spec", "excludedNamespaces"});
  backup.included_resources = reader.Texts({"spec", "includedResources"});
  backup.excluded_resources = reader.Texts({"spec", "excludedResources"});
  backup.include_cluster_resources = reader.Flag({"spec", "includeClusterResources"});
  RETURN_IF_ERROR(Annotate(reader.status(), "parse Backup"));
  return backup;
}

std::string Restore::MapNamespace(absl::string_view namespace_in_backup) const {
  const auto found = namespace_mapping.find(std::string(namespace_in_backup));
  return found == namespace_mapping.end() ? std::string(namespace_in_backup) : found->second;
}

absl::StatusOr<Restore> ParseRestore(const Json& object) {
  if (!object.is_object()) {
    return absl::InvalidArgumentError("parse Restore: not an object");
  }
  Reader reader(object);
  Restore restore;
  ReadMetadata(reader, restore);
  restore.backup_name = reader.Text({"spec", "backupName"});
  restore.restore_pvs = reader.Flag({"spec", "restorePVs"});
  restore.namespace_mapping = reader.Map({"spec", "namespaceMapping"});
  RETURN_IF_ERROR(Annotate(reader.status(), "parse Restore"));
  return restore;
}

}  // namespace csidelta::velero
