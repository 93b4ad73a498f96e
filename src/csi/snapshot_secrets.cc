#include "csi/snapshot_secrets.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "k8s/object.h"
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

void AddAnnotated(const Json& object, absl::string_view namespace_key, absl::string_view name_key,
                  Secrets& secrets) {
  Add(k8s::Annotation(object, namespace_key), k8s::Annotation(object, name_key), secrets);
}

void AddParameter(const Json& object, absl::string_view namespace_key, absl::string_view name_key,
                  Secrets& secrets) {
  Add(GetString(object, {"parameters", namespace_key}), GetString(object, {"parameters", name_key}),
      secrets);
}

}  // namespace

Secrets SecretsOfContent(const Json& content) {
  Secrets secrets;
  AddAnnotated(content, objects::kDeletionSecretNamespaceAnnotation,
               objects::kDeletionSecretNameAnnotation, secrets);
  AddAnnotated(content, objects::kSnapshotterSecretNamespace, objects::kSnapshotterSecretName,
               secrets);
  return secrets;
}

Secrets SecretsOfClass(const Json& snapshot_class) {
  Secrets secrets;
  AddAnnotated(snapshot_class, objects::kSnapshotterListSecretNamespace,
               objects::kSnapshotterListSecretName, secrets);
  AddParameter(snapshot_class, objects::kSnapshotterListSecretNamespace,
               objects::kSnapshotterListSecretName, secrets);
  AddParameter(snapshot_class, objects::kSnapshotterSecretNamespace,
               objects::kSnapshotterSecretName, secrets);
  return secrets;
}

Secrets SecretsOfGroupContent(const Json& content) {
  Secrets secrets;
  AddAnnotated(content, objects::kGroupDeletionSecretNamespaceAnnotation,
               objects::kGroupDeletionSecretNameAnnotation, secrets);
  return secrets;
}

Secrets SecretsOfGroupClass(const Json& group_class) {
  Secrets secrets;
  AddParameter(group_class, objects::kGroupSnapshotterSecretNamespace,
               objects::kGroupSnapshotterSecretName, secrets);
  AddParameter(group_class, objects::kGroupSnapshotterGetSecretNamespace,
               objects::kGroupSnapshotterGetSecretName, secrets);
  return secrets;
}

SecretName SnapshotterSecretOf(const Json& snapshot_class) {
  return {.namespace_name =
              GetString(snapshot_class, {"parameters", objects::kSnapshotterSecretNamespace}),
          .name = GetString(snapshot_class, {"parameters", objects::kSnapshotterSecretName})};
}

SecretName ListingSecretOf(const Json& snapshot_class) {
  return {.namespace_name =
              GetString(snapshot_class, {"parameters", objects::kSnapshotterListSecretNamespace}),
          .name = GetString(snapshot_class, {"parameters", objects::kSnapshotterListSecretName})};
}

}  // namespace csidelta::csi
