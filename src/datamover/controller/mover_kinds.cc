#include "datamover/controller/mover_kinds.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "objects/client.h"
#include "objects/data_deletion.h"
#include "objects/protected_volume.h"
#include "objects/volume_task.h"

namespace csidelta::datamover {
namespace {

using objects::CustomResourceDefinition;

// What this version reads and writes of the mover's kinds.
struct KindFields {
  const k8s::ResourceType& type;
  const char* part;
  std::vector<std::string> members;
};

const std::vector<KindFields>& FieldsInUse() {
  static const auto& all = *new std::vector<KindFields>{
      {objects::VolumeTask::Type(),
       "spec",
       {"type", "subject", "volume", "volume.repositoryUID", "cancel", "job", "job.upload.damage",
        "job.upload.driverParameters", "job.upload.full", "job.upload.parent", "job.upload.pvcUID",
        "job.forget.damage"}},
      {objects::VolumeTask::Type(),
       "status",
       {"phase", "stage", "doneBytes", "totalBytes", "bytesPerSecond", "secondsLeft",
        "observedGeneration", "startTimestamp", "heartbeatTimestamp", "completionTimestamp", "node",
        "outcome", "outcome.check.damage", "outcome.restore.path"}},
      {objects::DataDeletion::Type(),
       "spec",
       {"backupStorageLocation", "snapshotID", "upload", "workerEnded", "backup"}},
      {objects::DataDeletion::Type(),
       "status",
       {"phase", "message", "attempts", "startTimestamp", "nextAttemptTimestamp",
        "completionTimestamp", "trouble", "troubleSince", "locks"}},
      {objects::ProtectedVolume::Type(),
       "spec",
       {"namespace", "pvc", "pvcUID", "backupStorageLocation"}},
      {objects::ProtectedVolume::Type(),
       "status",
       {"lastGoodBackup", "deletedBackup", "lastAttempt", "failures", "base", "verification",
        "verification.damage", "repository", "restoredAt", "pvcGoneAt", "lostData", "nextStep"}}};
  return all;
}

struct Installation {
  absl::string_view group;  // of its kinds
  absl::string_view name;
  absl::string_view command;
};
constexpr Installation kInstallations[] = {
    {"mover.csi-delta.io", "the data mover",
     "helm install csi-delta deploy/chart --namespace csi-delta --create-namespace"},
    {"velero.io", "Velero 1.12 or newer",
     "velero install --features EnableCSI, with the flags for your bucket: "
     "https://velero.io/docs/main/basic-install/"},
    {"snapshot.storage.k8s.io", "the snapshot controller",
     "kubectl apply -k \"https://github.com/kubernetes-csi/external-snapshotter/client/config/"
     "crd?ref=v8.6.0\" && kubectl apply -k \"https://github.com/kubernetes-csi/"
     "external-snapshotter/deploy/kubernetes/snapshot-controller?ref=v8.6.0\""},
    {"longhorn.io", "Longhorn 1.3 or newer", "https://longhorn.io/docs/ has its pages"},
    {"", "", ""}};

const Installation& InstallationOf(const k8s::ResourceType& type) {
  return *std::find_if(
      std::begin(kInstallations), std::end(kInstallations),
      [&type](const Installation& one) { return one.group.empty() || one.group == type.group; });
}

absl::Status CheckMoverKind(const CallContext& ctx, k8s::ApiClient& api,
                            const k8s::ResourceType& type) {
  const k8s::ObjectKey key = DefinitionOf(type);
  const absl::StatusOr<CustomResourceDefinition> definition =
      objects::Get<CustomResourceDefinition>(ctx, api, key);
  if (absl::IsNotFound(definition.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat("the CRD ", key.name, " is not installed; ", kUpdateKinds));
  }
  if (absl::IsPermissionDenied(definition.status())) {
    return absl::PermissionDeniedError(absl::StrCat(
        "whether the CRD ", key.name, " is of this version cannot be read: ",
        definition.status().message(), "; helm upgrade csi-delta deploy/chart grants that"));
  }
  RETURN_IF_ERROR(definition.status());
  const std::vector<std::string> undeclared = UndeclaredFields(*definition, type);
  return undeclared.empty() ? absl::OkStatus()
                            : absl::FailedPreconditionError(absl::StrCat(
                                  "the CRD ", key.name, " is of an older version, and drops ",
                                  absl::StrJoin(undeclared, ", "), "; ", kUpdateKinds));
}

}  // namespace

absl::Span<const k8s::ResourceType* const> MoverKinds() {
  static const k8s::ResourceType* const all[] = {&objects::VolumeTask::Type(),
                                                 &objects::DataDeletion::Type(),
                                                 &objects::ProtectedVolume::Type()};
  return all;
}

k8s::ObjectKey DefinitionOf(const k8s::ResourceType& type) {
  return CustomResourceDefinition::Key("", absl::StrCat(type.plural, ".", type.group));
}

absl::string_view InstallCommand(const k8s::ResourceType& type) {
  return InstallationOf(type).command;
}

std::string ExplainUnserved(const k8s::ResourceType& type) {
  const Installation& missing = InstallationOf(type);
  return missing.name.empty()
             ? absl::StrCat("the API server does not serve the kind ", type.kind)
             : absl::StrCat(missing.name, " is not installed in this cluster (CRD ",
                            k8s::ToString(type), "); to install it: ", missing.command,
                            "; csi-delta doctor says what else is missing");
}

std::vector<std::string> UndeclaredFields(const CustomResourceDefinition& definition,
                                          const k8s::ResourceType& type) {
  std::vector<std::string> undeclared;
  for (const KindFields& fields : FieldsInUse()) {
    for (const std::string& member : fields.members) {
      if (fields.type.plural != type.plural ||
          definition.Declares(type.version, fields.part, member)) {
        continue;
      }
      std::string name = absl::StrCat(fields.part, ".", member);
      // What is inside of one that is dropped is dropped with it.
      const bool is_inside =
          std::any_of(undeclared.begin(), undeclared.end(), [&name](const std::string& other) {
            return absl::StartsWith(name, absl::StrCat(other, "."));
          });
      if (!is_inside) {
        undeclared.push_back(std::move(name));
      }
    }
  }
  return undeclared;
}

absl::Status CheckMoverKinds(const CallContext& ctx, k8s::ApiClient& api) {
  for (const k8s::ResourceType* type : MoverKinds()) {
    RETURN_IF_ERROR(CheckMoverKind(ctx, api, *type));
  }
  return absl::OkStatus();
}

}  // namespace csidelta::datamover
