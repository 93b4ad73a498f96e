#include "datamover/mover_environment.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/event.h"
#include "objects/keys.h"
#include "velero/labels.h"

namespace csidelta::datamover {

std::string TaskNameOf(absl::string_view kind, absl::string_view uid) {
  if (kind == "DataUpload") {
    return absl::StrCat(kUploadTagPrefix, uid);
  }
  if (kind == "DataDownload") {
    return absl::StrCat("dd-", uid);
  }
  if (kind == "ProtectedVolume") {
    return absl::StrCat("ck-", uid);
  }
  CSIDELTA_CHECK(kind == "DataDeletion");
  return absl::StrCat("dx-", uid);
}

std::map<std::string, std::string> LabelsFor(const std::string& task_name,
                                             const std::string& velero_namespace) {
  return {{objects::kMoverTaskLabel, task_name},
          {objects::kMoverVeleroNamespaceLabel, velero_namespace},
          {objects::kExcludeFromBackupLabel, "true"}};
}

bool IsServed(const MoverEnvironment& env, const std::string& velero_namespace) {
  return env.velero_namespaces.empty() || env.velero_namespaces.contains(velero_namespace);
}

absl::StatusOr<std::string> FindVelero(const CallContext& ctx, const MoverEnvironment& env,
                                       const std::string& backup_label,
                                       absl::FunctionRef<bool(const objects::Backup&)> fits) {
  for (const std::string& velero_namespace : env.velero_namespaces) {
    ASSIGN_OR_RETURN(auto backup,
                     objects::Find<objects::Backup>(ctx, env.api, velero_namespace, backup_label));
    if (!backup.has_value() && backup_label.size() == velero::kLabelValueBytesMax) {
      ASSIGN_OR_RETURN(const auto all,
                       objects::List<objects::Backup>(ctx, env.api, velero_namespace));
      for (const objects::Backup& one : all) {
        backup = velero::ValidLabelValue(one.name()) == backup_label ? one : backup;
      }
    }
    if (backup.has_value() && !backup->is_over() && fits(*backup)) {
      return velero_namespace;
    }
  }
  return "";
}

absl::StatusOr<RepositoryAccess> OpenAccess(const CallContext& ctx, const MoverEnvironment& env,
                                            const objects::Object& subject,
                                            RepositoryAccessRequest request) {
  request.mover_namespace = env.mover_namespace;
  request.velero_namespaces = env.velero_namespaces;
  const StorageLocationSettings settings = ForLocation(env.settings, request.location);
  request.object_lock = settings.immutability;
  if (request.for_deleting) {
    request.credential = settings.deletion_credential;
  }
  // The API server cuts the time of creation to whole seconds.
  const absl::Time created_by =
      subject.created_at().value_or(absl::InfinitePast()) + absl::Seconds(1);
  k8s::RecentReader api(env.api, env.recent_reads, created_by);
  return OpenRepositoryAccess(ctx, api, request, env.secure_random);
}

csi::Environment CsiEnvironmentOf(const CallContext& ctx, const MoverEnvironment& env,
                                  const std::string& velero_namespace) {
  return {.api = env.api,
          .clock = *ctx.clock,
          .random = env.random,
          .velero_namespace = velero_namespace,
          .bases = env.bases};
}

void EmitMoverEvent(const CallContext& ctx, const MoverEnvironment& env,
                    const objects::Object& object, k8s::EventType type, absl::string_view reason,
                    absl::string_view message) {
  const absl::Status emitted =
      objects::EmitEvent(ctx, env.api, object, type, reason, message, kMoverComponent);
  if (!emitted.ok()) {
    CSIDELTA_LOG(kWarn, "the event was not written", {"namespace", object.namespace_name()},
                 {"name", object.name()}, {"error", std::string(emitted.message())});
  }
}

absl::StatusOr<std::string> ReadClusterUid(const CallContext& ctx, k8s::ApiClient& api) {
  const k8s::ResourceType namespaces{"", "v1", "namespaces", "Namespace", false};
  ASSIGN_OR_RETURN(const auto system,
                   objects::Get<objects::Object>(ctx, api, {namespaces, "", "kube-system"}));
  std::string uid = system.uid();
  if (uid.empty()) {
    return absl::InternalError("the namespace kube-system has no uid");
  }
  return uid;
}

}  // namespace csidelta::datamover
