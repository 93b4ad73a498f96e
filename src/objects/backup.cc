#include "objects/backup.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json_fields.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "objects/field_rules.h"

namespace csidelta::objects {
namespace {

constexpr FieldRule kBackupRules[] = {
    {"metadata.name", IsTextThatIsSet},
    {"metadata.namespace", IsTextThatIsSet},
    {"metadata.uid", IsText},
    {"metadata.creationTimestamp", IsText},
    {"metadata.labels", IsTextMap},
    {"metadata.annotations", IsTextMap},
    {"status.phase", IsText},
    {"spec.itemOperationTimeout", IsTimeout},
    {"spec.snapshotVolumes", IsFlag},
    {"spec.snapshotMoveData", IsFlag},
    {"spec.datamover", IsText},
    {"spec.backupType", IsText},
    {"spec.storageLocation", IsText},
    {"spec.volumeGroupSnapshotLabelKey", IsText},
    {"spec.csiSnapshotTimeout", IsTimeout},
    {"spec.defaultVolumesToFsBackup", IsFlag},
    {"spec.defaultVolumesToRestic", IsFlag},
    {"spec.resourcePolicy.kind", IsText},
    {"spec.resourcePolicy.name", IsText},
    {"spec.includedNamespaces", IsTextList},
    {"spec.excludedNamespaces", IsTextList},
    {"spec.includedResources", IsTextList},
    {"spec.excludedResources", IsTextList},
    {"spec.includeClusterResources", IsFlag},
};

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

constexpr FieldRule kRestoreRules[] = {
    {"metadata.name", IsTextThatIsSet},
    {"metadata.namespace", IsTextThatIsSet},
    {"metadata.uid", IsText},
    {"metadata.labels", IsTextMap},
    {"metadata.annotations", IsTextMap},
    {"status.phase", IsText},
    {"spec.itemOperationTimeout", IsTimeout},
    {"spec.backupName", IsText},
    {"spec.restorePVs", IsFlag},
    {"spec.namespaceMapping", IsTextMap},
};

// Groups of built-in kinds, besides those of k8s.io. Kinds of other groups are an operator's.
constexpr absl::string_view kBuiltInGroups = "apps autoscaling batch extensions policy velero.io";
// Pods, and the built-in kinds that make them, by all names that Velero takes.
constexpr absl::string_view kPodMakers =
    "* po pod pods deploy deployment deployments sts statefulset statefulsets ds daemonset "
    "daemonsets rs replicaset replicasets rc replicationcontroller replicationcontrollers job jobs "
    "cj cronjob cronjobs";

constexpr auto kPvcWithoutDataFields = [](auto& fields, auto& pvc) {
  fields("namespace", pvc.namespace_name);
  fields("name", pvc.name);
  fields("uid", pvc.uid);
  fields("command", pvc.command);
};

}  // namespace

absl::Status Backup::Validate() const {
  RETURN_IF_ERROR(Annotate(CheckFields(json(), kBackupRules), "parse Backup"));
  const Json resource_timeout = Annotation(kResourceTimeoutAnnotation);
  return Annotate(IsTimeout(&resource_timeout),
                  absl::StrCat("parse Backup: annotation ", kResourceTimeoutAnnotation));
}

absl::StatusOr<Backup> Backup::OfSchedule(const Object& schedule) {
  const Json* const metadata = FindJson(schedule.json(), {"metadata"});
  const Json* const spec = FindJson(schedule.json(), {"spec", "template"});
  return Parse(Object(Json{{"metadata", metadata == nullptr ? Json() : *metadata},
                           {"spec", spec == nullptr ? Json() : *spec}}));
}

bool Backup::defaults_to_fs_backup() const {
  return FlagIfSet({"spec", "defaultVolumesToFsBackup"})
      .value_or(Flag({"spec", "defaultVolumesToRestic"}));  // as it was called once
}

std::string Backup::resource_policy_config_map() const {
  return absl::EqualsIgnoreCase(Text({"spec", "resourcePolicy", "kind"}), "configmap")
             ? Text({"spec", "resourcePolicy", "name"})
             : "";
}

bool Backup::IncludesNamespace(absl::string_view name) const {
  const std::vector<std::string> included = Texts({"spec", "includedNamespaces"});
  const std::vector<std::string> excluded = Texts({"spec", "excludedNamespaces"});
  const bool is_excluded = std::any_of(excluded.begin(), excluded.end(), [&](const auto& pattern) {
    return IsPlainPattern(pattern) && FitsPattern(name, pattern);
  });
  const bool is_included =
      included.empty() || std::any_of(included.begin(), included.end(), [&](const auto& pattern) {
        return !IsPlainPattern(pattern) || FitsPattern(name, pattern);
      });
  return is_included && !is_excluded;
}

absl::Status Restore::Validate() const {
  RETURN_IF_ERROR(Annotate(CheckFields(json(), kRestoreRules), "parse Restore"));
  const Json resource_timeout = Annotation(kResourceTimeoutAnnotation);
  return Annotate(IsTimeout(&resource_timeout),
                  absl::StrCat("parse Restore: annotation ", kResourceTimeoutAnnotation));
}

std::string Restore::MapNamespace(absl::string_view namespace_in_backup) const {
  const Json* const mapped = Find({"spec", "namespaceMapping", namespace_in_backup});
  return mapped == nullptr ? std::string(namespace_in_backup) : GetString(*mapped, {});
}

bool Restore::RestoresPods() const {
  const std::vector<std::string> included = Texts({"spec", "includedResources"});
  const std::vector<std::string> excluded = Texts({"spec", "excludedResources"});
  return included.empty() || absl::c_any_of(included, [&](const std::string& name) {
           const std::vector<std::string> parts =
               absl::StrSplit(absl::AsciiStrToLower(name), absl::MaxSplits('.', 1));
           const bool is_built_in =
               parts.size() == 1 || absl::EndsWith(parts[1], ".k8s.io") ||
               absl::c_linear_search(absl::StrSplit(kBuiltInGroups, ' '), parts[1]);
           const bool may_make_pods =
               !is_built_in || absl::c_linear_search(absl::StrSplit(kPodMakers, ' '), parts[0]);
           return may_make_pods && absl::c_none_of(excluded, [&](const std::string& other) {
                    return absl::EqualsIgnoreCase(name, other);
                  });
         });
}

std::vector<PvcWithoutData> Restore::pvcs_without_data() const {
  const absl::StatusOr<Json> json = ParseJson(Annotation(kWithoutDataAnnotation));
  std::vector<PvcWithoutData> pvcs;
  JsonFieldReader::Read(json.ok() ? *json : Json(), pvcs, CountMax{kPvcsWithoutDataMax},
                        kPvcWithoutDataFields);
  return pvcs;
}

bool Restore::IsStillWithoutData(const PvcWithoutData& left,
                                 const PersistentVolumeClaim& pvc) const {
  const auto restored_at = ParseRfc3339(pvc.Annotation(kRestoredAtAnnotation));
  return left.uid == pvc.uid() && (!restored_at.has_value() || restored_at < created_at());
}

Patch Restore::PatchOfPvcsWithoutData(const std::vector<PvcWithoutData>& pvcs) const {
  return Patch().IfUid(uid()).SetAnnotation(
      kWithoutDataAnnotation,
      DumpJson(JsonFieldWriter::Write(pvcs, CountMax{kPvcsWithoutDataMax}, kPvcWithoutDataFields)));
}

bool Restore::RestoresItems() const {
  // All that a Velero of today writes afterwards; what a later one may write is waited for.
  const std::string now = phase();
  return !absl::StartsWith(now, "WaitingForPluginOperations") &&
         !absl::StartsWith(now, "Finalizing") && now != "Completed" && now != "PartiallyFailed" &&
         !absl::StartsWith(now, "Failed");
}

}  // namespace csidelta::objects
