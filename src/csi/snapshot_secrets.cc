#include "csi/snapshot_secrets.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "velero/labels.h"

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
  Add(GetString(object, {"metadata", "annotations", namespace_key}),
      GetString(object, {"metadata", "annotations", name_key}), secrets);
}

void AddParameter(const Json& object, absl::string_view namespace_key, absl::string_view name_key,
                  Secrets& secrets) {
  Add(GetString(object, {"parameters", namespace_key}), GetString(object, {"parameters", name_key}),
      secrets);
}

}  // namespace

Secrets SecretsOfContent(const Json& content) {
  Secrets secrets;
  AddAnnotated(content, velero::kDeletionSecretNamespaceAnnotation,
               velero::kDeletionSecretNameAnnotation, secrets);
  AddAnnotated(content, velero::kSnapshotterSecretNamespace, velero::kSnapshotterSecretName,
               secrets);
  return secrets;
}

Secrets SecretsOfClass(const Json& snapshot_class) {
  Secrets secrets;
  AddAnnotated(snapshot_class, velero::kSnapshotterListSecretNamespace,
               velero::kSnapshotterListSecretName, secrets);
  AddParameter(snapshot_class, velero::kSnapshotterListSecretNamespace,
               velero::kSnapshotterListSecretName, secrets);
  AddParameter(snapshot_class, velero::kSnapshotterSecretNamespace, velero::kSnapshotterSecretName,
               secrets);
  return secrets;
}

Secrets SecretsOfGroupContent(const Json& content) {
  Secrets secrets;
  AddAnnotated(content, velero::kGroupDeletionSecretNamespaceAnnotation,
               velero::kGroupDeletionSecretNameAnnotation, secrets);
  return secrets;
}

Secrets SecretsOfGroupClass(const Json& group_class) {
  Secrets secrets;
  AddParameter(group_class, velero::kGroupSnapshotterSecretNamespace,
               velero::kGroupSnapshotterSecretName, secrets);
  AddParameter(group_class, velero::kGroupSnapshotterGetSecretNamespace,
               velero::kGroupSnapshotterGetSecretName, secrets);
  return secrets;
}

SecretName SnapshotterSecretOf(const Json& snapshot_class) {
  return {.namespace_name =
              GetString(snapshot_class, {"parameters", velero::kSnapshotterSecretNamespace}),
          .name = GetString(snapshot_class, {"parameters", velero::kSnapshotterSecretName})};
}

}  // namespace csidelta::csi
