#include "csi/expose/snapshot_secrets.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "absl/strings/match.h"
#include "objects/keys.h"

namespace csidelta::csi {
namespace {

using Secrets = std::vector<velero::ResourceIdentifier>;

SecretName Annotated(const objects::Object& object, absl::string_view namespace_key,
                     absl::string_view name_key) {
  return {.namespace_name = object.Annotation(namespace_key), .name = object.Annotation(name_key)};
}

// `Class`: a class of either kind.
template <typename Class>
SecretName OfParameters(const Class& object, absl::string_view namespace_key,
                        absl::string_view name_key) {
  return {.namespace_name = object.Parameter(namespace_key), .name = object.Parameter(name_key)};
}

Secrets Identify(std::initializer_list<SecretName> named) {
  Secrets secrets;
  for (const auto& [namespace_name, name] : named) {
    if (namespace_name.empty() || name.empty() || absl::StrContains(name, "${") ||
        absl::StrContains(namespace_name, "${")) {
      continue;
    }
    velero::ResourceIdentifier secret{
        .group = "", .resource = "secrets", .namespace_name = namespace_name, .name = name};
    if (std::find(secrets.begin(), secrets.end(), secret) == secrets.end()) {
      secrets.push_back(std::move(secret));
    }
  }
  return secrets;
}

}  // namespace

Secrets SecretsOf(const objects::VolumeSnapshotContent& content) {
  return Identify(
      {Annotated(content, objects::kDeletionSecretNamespaceAnnotation,
                 objects::kDeletionSecretNameAnnotation),
       Annotated(content, objects::kSnapshotterSecretNamespace, objects::kSnapshotterSecretName)});
}

Secrets SecretsOf(const objects::VolumeSnapshotClass& snapshot_class) {
  return Identify({Annotated(snapshot_class, objects::kSnapshotterListSecretNamespace,
                             objects::kSnapshotterListSecretName),
                   ListingSecretOf(snapshot_class), SnapshotterSecretOf(snapshot_class)});
}

Secrets SecretsOf(const objects::VolumeGroupSnapshotContent& content) {
  return Identify({Annotated(content, objects::kGroupDeletionSecretNamespaceAnnotation,
                             objects::kGroupDeletionSecretNameAnnotation)});
}

Secrets SecretsOf(const objects::VolumeGroupSnapshotClass& group_class) {
  return Identify({OfParameters(group_class, objects::kGroupSnapshotterSecretNamespace,
                                objects::kGroupSnapshotterSecretName),
                   OfParameters(group_class, objects::kGroupSnapshotterGetSecretNamespace,
                                objects::kGroupSnapshotterGetSecretName)});
}

SecretName SnapshotterSecretOf(const objects::VolumeSnapshotClass& snapshot_class) {
  return OfParameters(snapshot_class, objects::kSnapshotterSecretNamespace,
                      objects::kSnapshotterSecretName);
}

SecretName ListingSecretOf(const objects::VolumeSnapshotClass& snapshot_class) {
  return OfParameters(snapshot_class, objects::kSnapshotterListSecretNamespace,
                      objects::kSnapshotterListSecretName);
}

}  // namespace csidelta::csi
