#include "csi/expose/snapshot_secrets.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "objects/keys.h"

namespace csidelta::csi {
namespace {

using Secrets = std::vector<velero::ResourceIdentifier>;

void Add(std::string namespace_name, std::string name, Secrets& secrets) {
  if (namespace_name.empty() || name.empty() || absl::StrContains(name, "${") ||
      absl::StrContains(namespace_name, "${")) {
    return;
  }
  velero::ResourceIdentifier secret{.group = "",
                                    .resource = "secrets",
                                    .namespace_name = std::move(namespace_name),
                                    .name = std::move(name)};
  if (std::find(secrets.begin(), secrets.end(), secret) == secrets.end()) {
    secrets.push_back(std::move(secret));
  }
}

void AddAnnotated(const objects::Object& object, absl::string_view namespace_key,
                  absl::string_view name_key, Secrets& secrets) {
  Add(object.Annotation(namespace_key), object.Annotation(name_key), secrets);
}

// `Class`: a class of either kind.
template <typename Class>
void AddParameter(const Class& object, absl::string_view namespace_key, absl::string_view name_key,
                  Secrets& secrets) {
  Add(object.Parameter(namespace_key), object.Parameter(name_key), secrets);
}

}  // namespace

Secrets SecretsOfContent(const objects::VolumeSnapshotContent& content) {
  Secrets secrets;
  AddAnnotated(content, objects::kDeletionSecretNamespaceAnnotation,
               objects::kDeletionSecretNameAnnotation, secrets);
  AddAnnotated(content, objects::kSnapshotterSecretNamespace, objects::kSnapshotterSecretName,
               secrets);
  return secrets;
}

Secrets SecretsOfClass(const objects::VolumeSnapshotClass& snapshot_class) {
  Secrets secrets;
  AddAnnotated(snapshot_class, objects::kSnapshotterListSecretNamespace,
               objects::kSnapshotterListSecretName, secrets);
  AddParameter(snapshot_class, objects::kSnapshotterListSecretNamespace,
               objects::kSnapshotterListSecretName, secrets);
  AddParameter(snapshot_class, objects::kSnapshotterSecretNamespace,
               objects::kSnapshotterSecretName, secrets);
  return secrets;
}

Secrets SecretsOfGroupContent(const objects::VolumeGroupSnapshotContent& content) {
  Secrets secrets;
  AddAnnotated(content, objects::kGroupDeletionSecretNamespaceAnnotation,
               objects::kGroupDeletionSecretNameAnnotation, secrets);
  return secrets;
}

Secrets SecretsOfGroupClass(const objects::VolumeGroupSnapshotClass& group_class) {
  Secrets secrets;
  AddParameter(group_class, objects::kGroupSnapshotterSecretNamespace,
               objects::kGroupSnapshotterSecretName, secrets);
  AddParameter(group_class, objects::kGroupSnapshotterGetSecretNamespace,
               objects::kGroupSnapshotterGetSecretName, secrets);
  return secrets;
}

SecretName SnapshotterSecretOf(const objects::VolumeSnapshotClass& snapshot_class) {
  return {.namespace_name = snapshot_class.Parameter(objects::kSnapshotterSecretNamespace),
          .name = snapshot_class.Parameter(objects::kSnapshotterSecretName)};
}

SecretName ListingSecretOf(const objects::VolumeSnapshotClass& snapshot_class) {
  return {.namespace_name = snapshot_class.Parameter(objects::kSnapshotterListSecretNamespace),
          .name = snapshot_class.Parameter(objects::kSnapshotterListSecretName)};
}

}  // namespace csidelta::csi
