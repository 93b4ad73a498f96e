#include "csi/static_content.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "objects/keys.h"

namespace csidelta::csi {

using objects::VolumeGroupSnapshotClass;
using objects::VolumeGroupSnapshotContent;
using objects::VolumeSnapshotClass;
using objects::VolumeSnapshotContent;

namespace {

struct SecretKeys {
  const char* name;
  const char* namespace_name;
};
// The key of today's controller first, then those of older ones and of older Velero.
constexpr SecretKeys kDeletionSecretKeys[] = {
    {objects::kDeletionSecretNameAnnotation, objects::kDeletionSecretNamespaceAnnotation},
    {objects::kSnapshotterSecretName, objects::kSnapshotterSecretNamespace},
    {objects::kDeleteSecretNameAnnotation, objects::kDeleteSecretNamespaceAnnotation},
};

template <typename Content>
void FillIn(const StaticContent& content, Content& made) {
  made.SetLabels(content.labels);
  made.SetAnnotations(content.annotations);
  made.SetFinalizers(content.finalizers);
  made.SetDeletionPolicy(content.deletion_policy);
  made.SetDriver(content.driver);
  made.SetSnapshot(content.snapshot_namespace, content.snapshot_name);
  if (!content.class_name.empty()) {
    made.SetClassName(content.class_name);
  }
}

template <typename Class>
const Class* FindClassOf(const std::vector<Class>& classes, absl::string_view driver,
                         absl::string_view preferred) {
  const Class* first = nullptr;
  for (const Class& one : classes) {
    if (one.driver() == driver && one.name() == preferred) {
      return &one;
    }
    first = first == nullptr && one.driver() == driver ? &one : first;
  }
  return first;
}

}  // namespace

StaticContent ContentBeside(const VolumeSnapshotContent& content) {
  StaticContent beside = {.driver = content.driver(),
                          .handle = content.handle_or_source(),
                          .class_name = content.class_name(),
                          .annotations = DeletionSecretAnnotations(content)};
  if (std::string node = content.Label(objects::kManagedByLabel); !node.empty()) {
    beside.labels.emplace(objects::kManagedByLabel, std::move(node));
  }
  return beside;
}

absl::Status EnsureStaticContent(const CallContext& ctx, k8s::ApiClient& api,
                                 const StaticContent& content) {
  CSIDELTA_CHECK(!content.name.empty());
  CSIDELTA_CHECK(content.deletion_policy == "Delete" || content.deletion_policy == "Retain");
  // The sidecar deletes no group whose content names no members.
  CSIDELTA_CHECK(content.version.empty() == content.member_handles.empty());
  const absl::Status made =
      content.version.empty()
          ? objects::Create(ctx, api, MakeStaticContent(content)).status()
          : objects::Create(ctx, api, VolumeGroupSnapshotContent::kKind.TypeOf(content.version),
                            MakeStaticGroup(content))
                .status();
  return absl::IsAlreadyExists(made) ? absl::OkStatus() : made;
}

VolumeSnapshotContent MakeStaticContent(const StaticContent& content) {
  auto made = VolumeSnapshotContent::Make("", content.name);
  FillIn(content, made);
  made.SetSourceHandle(content.handle);
  if (content.mode.has_value()) {
    made.SetSourceMode(*content.mode);
  }
  return made;
}

VolumeGroupSnapshotContent MakeStaticGroup(const StaticContent& group) {
  auto made = VolumeGroupSnapshotContent::Make(group.version, "", group.name);
  FillIn(group, made);
  made.SetSource(group.handle, group.member_handles);
  return made;
}

std::map<std::string, std::string> DeletionSecretAnnotations(const objects::Object& object) {
  for (const SecretKeys& keys : kDeletionSecretKeys) {
    const std::string name = object.Annotation(keys.name);
    const std::string namespace_name = object.Annotation(keys.namespace_name);
    if (!name.empty() && !namespace_name.empty()) {
      return {{objects::kDeletionSecretNameAnnotation, name},
              {objects::kDeletionSecretNamespaceAnnotation, namespace_name}};
    }
  }
  return {};
}

bool RemoveDeletionSecret(objects::Object& object) {
  bool changed = false;
  for (const SecretKeys& keys : kDeletionSecretKeys) {
    changed |= object.RemoveAnnotation(keys.name);
    changed |= object.RemoveAnnotation(keys.namespace_name);
  }
  return changed;
}

bool IsParked(const VolumeSnapshotContent& content) {
  return absl::StartsWith(content.snapshot_name(), "name-") &&
         absl::StartsWith(content.snapshot_namespace(), "ns-");
}

std::string ClassOfDriver(const std::vector<VolumeSnapshotClass>& classes, absl::string_view driver,
                          absl::string_view preferred) {
  const VolumeSnapshotClass* const found = FindClassOf(classes, driver, preferred);
  return found == nullptr ? "" : found->name();
}

const VolumeGroupSnapshotClass* GroupClassOf(const std::vector<VolumeGroupSnapshotClass>& classes,
                                             absl::string_view driver,
                                             absl::string_view preferred) {
  return FindClassOf(classes, driver, preferred);
}

bool StripMarks(objects::Object& object) {
  bool changed = object.RemoveFinalizer(objects::kSnapshotInGroupFinalizer);
  for (absl::string_view key :
       {objects::kBeingCreatedAnnotation, objects::kContentBeingDeletedAnnotation,
        objects::kMustIncludeAnnotation, objects::kGroupHandleOfMemberAnnotation,
        objects::kGroupSnapshotHandleAnnotation, objects::kGroupNameLabel,
        objects::kGroupContentOfMemberAnnotation, objects::kHandleUnprovenAnnotation,
        objects::kRestoreMustIncludeAnnotation}) {
    changed |= object.RemoveAnnotation(key);
  }
  for (absl::string_view key : {objects::kCsiDeltaLabel, objects::kBackupUidLabel,
                                objects::kGroupNameLabel, objects::kMemberOfBackupLabel}) {
    changed |= object.RemoveLabel(key);
  }
  return changed;
}

absl::Status RewriteForRestore(const VolumeSnapshotContent& from_backup, absl::string_view new_name,
                               absl::string_view snapshot_namespace,
                               VolumeSnapshotContent& content) {
  const std::string handle = from_backup.handle_or_source();
  if (handle.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("volumesnapshotcontent ", from_backup.name(),
                     " has no snapshot handle in the backup: its data cannot be restored"));
  }
  StripMarks(content);
  content.SetName(new_name);
  content.SetDeletionPolicy("Retain");
  content.SetSourceHandle(handle);
  content.ReplaceSnapshot(snapshot_namespace, new_name);
  for (const auto& [key, value] : DeletionSecretAnnotations(from_backup)) {
    content.SetAnnotation(key, value);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<VolumeSnapshotClass>> ListSnapshotClasses(const CallContext& ctx,
                                                                     const Environment& env) {
  auto list = objects::List<VolumeSnapshotClass>(ctx, env.api, "");
  return absl::IsNotFound(list.status()) ? std::vector<VolumeSnapshotClass>() : std::move(list);
}

}  // namespace csidelta::csi
