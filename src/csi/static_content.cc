#include "csi/static_content.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/snapshot_types.h"
#include "k8s/object.h"
#include "objects/client.h"
#include "objects/keys.h"

namespace csidelta::csi {
namespace {

using objects::VolumeSnapshotContent;

bool EraseEntry(Json& object, absl::string_view map, absl::string_view key) {
  if (FindJson(object, {"metadata", map, key}) == nullptr) {
    return false;
  }
  EraseJson(object, {"metadata", map, key});
  return true;
}

bool StripFinalizer(Json& object, absl::string_view finalizer) {
  const Json* const found = FindJson(object, {"metadata", "finalizers"});
  if (found == nullptr || !found->is_array()) {
    return false;
  }
  Json kept = Json::array();
  std::copy_if(found->begin(), found->end(), std::back_inserter(kept),
               [finalizer](const Json& one) { return one != std::string(finalizer); });
  if (kept.size() == found->size()) {
    return false;
  }
  SetJson(object, {"metadata", "finalizers"}, std::move(kept));
  return true;
}

}  // namespace

VolumeSnapshotContent MakeStaticContent(const StaticContent& content) {
  auto made = VolumeSnapshotContent::Make("", content.name);
  made.SetLabels(content.labels);
  made.SetAnnotations(content.annotations);
  made.SetFinalizers(content.finalizers);
  made.SetDeletionPolicy(content.deletion_policy);
  made.SetDriver(content.driver);
  made.SetSourceHandle(content.handle);
  made.SetSnapshot(content.snapshot_namespace, content.snapshot_name);
  if (!content.class_name.empty()) {
    made.SetClassName(content.class_name);
  }
  return made;
}

std::string HandleOf(const Json& content) {
  const std::string handle = SnapshotHandle(content);
  return handle.empty() ? GetString(content, {"spec", "source", "snapshotHandle"}) : handle;
}

std::map<std::string, std::string> DeletionSecretAnnotations(const objects::Object& object) {
  struct Keys {
    const char* name;
    const char* namespace_name;
  };
  // The key of today's controller first, then those of older ones and of older Velero.
  constexpr Keys kSpellings[] = {
      {objects::kDeletionSecretNameAnnotation, objects::kDeletionSecretNamespaceAnnotation},
      {objects::kSnapshotterSecretName, objects::kSnapshotterSecretNamespace},
      {objects::kDeleteSecretNameAnnotation, objects::kDeleteSecretNamespaceAnnotation},
  };
  for (const Keys& keys : kSpellings) {
    const std::string name = object.Annotation(keys.name);
    const std::string namespace_name = object.Annotation(keys.namespace_name);
    if (!name.empty() && !namespace_name.empty()) {
      return {{objects::kDeletionSecretNameAnnotation, name},
              {objects::kDeletionSecretNamespaceAnnotation, namespace_name}};
    }
  }
  return {};
}

std::string ClassOfDriver(const std::vector<objects::VolumeSnapshotClass>& classes,
                          absl::string_view driver, absl::string_view preferred) {
  std::string first;
  for (const objects::VolumeSnapshotClass& one : classes) {
    if (one.driver() != driver) {
      continue;
    }
    if (one.name() == preferred) {
      return std::string(preferred);
    }
    if (first.empty()) {
      first = one.name();
    }
  }
  return first;
}

bool StripMarks(Json& object) {
  bool changed = false;
  for (absl::string_view key :
       {objects::kBeingCreatedAnnotation, objects::kContentBeingDeletedAnnotation,
        objects::kMustIncludeAnnotation, objects::kGroupHandleOfMemberAnnotation,
        objects::kGroupSnapshotHandleAnnotation, objects::kGroupNameLabel,
        objects::kGroupContentOfMemberAnnotation}) {
    changed |= EraseEntry(object, "annotations", key);
  }
  for (absl::string_view key : {objects::kCsiDeltaLabel, objects::kBackupUidLabel,
                                objects::kGroupNameLabel, objects::kMemberOfBackupLabel}) {
    changed |= EraseEntry(object, "labels", key);
  }
  return StripFinalizer(object, objects::kSnapshotInGroupFinalizer) || changed;
}

absl::Status RewriteForRestore(const Json& from_backup, absl::string_view new_name,
                               absl::string_view snapshot_namespace, Json& content) {
  const std::string handle = HandleOf(from_backup);
  if (handle.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("volumesnapshotcontent ", k8s::Name(from_backup),
                     " has no snapshot handle in the backup: its data cannot be restored"));
  }
  StripMarks(content);
  SetJson(content, {"metadata", "name"}, std::string(new_name));
  SetJson(content, {"spec", "deletionPolicy"}, "Retain");
  SetJson(content, {"spec", "source"}, Json{{"snapshotHandle", handle}});
  EraseJson(content, {"spec", "volumeSnapshotRef", "uid"});
  EraseJson(content, {"spec", "volumeSnapshotRef", "resourceVersion"});
  SetJson(content, {"spec", "volumeSnapshotRef", "name"}, std::string(new_name));
  SetJson(content, {"spec", "volumeSnapshotRef", "namespace"}, std::string(snapshot_namespace));
  for (const auto& [key, value] : DeletionSecretAnnotations(objects::Object(from_backup))) {
    SetJson(content, {"metadata", "annotations", key}, value);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<objects::VolumeSnapshotClass>> ListSnapshotClasses(
    const CallContext& ctx, const Environment& env) {
  auto list = objects::List<objects::VolumeSnapshotClass>(ctx, env.api, "");
  return absl::IsNotFound(list.status()) ? std::vector<objects::VolumeSnapshotClass>()
                                         : std::move(list);
}

}  // namespace csidelta::csi
