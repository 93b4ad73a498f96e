#include "velero/backup.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "objects/keys.h"
#include "velero/field_reader.h"

namespace csidelta::velero {
namespace {

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

constexpr char kOtherPatternSigns[] = "[]{}!|,";

// A pattern of `*` and `?` alone.
bool IsPlainPattern(absl::string_view pattern) {
  return pattern.find_first_of(kOtherPatternSigns) == absl::string_view::npos;
}

bool FitsPattern(absl::string_view text, absl::string_view pattern) {
  // Where to go on after a mismatch: behind the last `*`, which then takes one byte more.
  std::size_t star = absl::string_view::npos;
  std::size_t resume = 0;
  std::size_t p = 0;
  for (std::size_t t = 0; t < text.size();) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != absl::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == absl::string_view::npos;
}

// The members that Backup and Restore share.
template <typename T>
void ReadMetadata(FieldReader& reader, T& object) {
  object.name = reader.Text({"metadata", "name"});
  object.namespace_name = reader.Text({"metadata", "namespace"});
  object.uid = reader.Text({"metadata", "uid"});
  object.phase = reader.Text({"status", "phase"});
  object.labels = reader.Map({"metadata", "labels"});
  object.annotations = reader.Map({"metadata", "annotations"});
  object.item_operation_timeout =
      reader.Timeout({"spec", "itemOperationTimeout"}, kItemOperationTimeoutDefault);
  object.resource_timeout = reader.Timeout(
      Lookup(object.annotations, objects::kResourceTimeoutAnnotation),
      absl::StrCat("annotation ", objects::kResourceTimeoutAnnotation), kResourceTimeoutDefault);
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

bool Backup::Running() const { return !Finished() && phase != "Deleting"; }

bool Backup::IncludesNamespace(absl::string_view space) const {
  const auto fits = [&](const std::string& pattern) { return FitsPattern(space, pattern); };
  const bool is_excluded =
      std::any_of(excluded_namespaces.begin(), excluded_namespaces.end(),
                  [&](const std::string& one) { return IsPlainPattern(one) && fits(one); });
  const bool is_included =
      included_namespaces.empty() ||
      std::any_of(included_namespaces.begin(), included_namespaces.end(),
                  [&](const std::string& one) { return !IsPlainPattern(one) || fits(one); });
  return is_included && !is_excluded;
}

absl::StatusOr<Backup> ParseBackup(const Json& object) {
  if (!object.is_object()) {
    return absl::InvalidArgumentError("parse Backup: not an object");
  }
  FieldReader reader(object);
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
  backup.global_policy_config_map =
      Lookup(backup.annotations, objects::kGlobalVolumePolicyAnnotation);
  backup.included_namespaces = reader.Texts({"spec", "includedNamespaces"});
  backup.excluded_namespaces = reader.Texts({"spec", "excludedNamespaces"});
  backup.included_resources = reader.Texts({"spec", "includedResources"});
  backup.excluded_resources = reader.Texts({"spec", "excludedResources"});
  backup.include_cluster_resources = reader.Flag({"spec", "includeClusterResources"});
  RETURN_IF_ERROR(Annotate(reader.status(), "parse Backup"));
  return backup;
}

bool Restore::RestoresItems() const {
  // All that a Velero of today writes afterwards; what a later one may write is waited for.
  return !absl::StartsWith(phase, "WaitingForPluginOperations") &&
         !absl::StartsWith(phase, "Finalizing") && phase != "Completed" &&
         phase != "PartiallyFailed" && !absl::StartsWith(phase, "Failed");
}

std::string Restore::MapNamespace(absl::string_view namespace_in_backup) const {
  const auto found = namespace_mapping.find(std::string(namespace_in_backup));
  return found == namespace_mapping.end() ? std::string(namespace_in_backup) : found->second;
}

absl::StatusOr<Backup> BackupOfSchedule(const objects::Object& schedule) {
  const Json* const metadata = FindJson(schedule.json(), {"metadata"});
  const Json* const spec = FindJson(schedule.json(), {"spec", "template"});
  return ParseBackup(Json{{"metadata", metadata == nullptr ? Json() : *metadata},
                          {"spec", spec == nullptr ? Json() : *spec}});
}

absl::StatusOr<Restore> ParseRestore(const Json& object) {
  if (!object.is_object()) {
    return absl::InvalidArgumentError("parse Restore: not an object");
  }
  FieldReader reader(object);
  Restore restore;
  ReadMetadata(reader, restore);
  restore.backup_name = reader.Text({"spec", "backupName"});
  restore.restore_pvs = reader.Flag({"spec", "restorePVs"});
  restore.namespace_mapping = reader.Map({"spec", "namespaceMapping"});
  RETURN_IF_ERROR(Annotate(reader.status(), "parse Restore"));
  return restore;
}

}  // namespace csidelta::velero
