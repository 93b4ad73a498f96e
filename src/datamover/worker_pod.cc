#include "datamover/worker_pod.h"

#include <utility>

#include "datamover/ended_pods.h"
#include "objects/keys.h"

namespace csidelta::datamover {
namespace {

constexpr char kProgram[] = "/bin/csi-delta";
constexpr char kContainer[] = "worker";
constexpr int kSecretMode = 0440;

Json AffinityOf(const WorkerPod& pod) {
  Json affinity = pod.settings.worker.affinity;
  const Json* wished =
      FindJson(affinity, {"nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"});
  const objects::NodeSelector required =
      objects::Both(wished == nullptr ? objects::NodeSelector() : objects::NodeSelector(*wished),
                    pod.node_affinity);
  if (!required.selects_all()) {
    SetJson(affinity, {"nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"},
            required.json());
  }
  return affinity;
}

Json Resources(const WorkerResources& wanted) {
  Json resources = Json::object();
  const auto set = [&resources](const char* kind, const char* what, const std::string& quantity) {
    if (!quantity.empty()) {
      resources[kind][what] = quantity;
    }
  };
  set("requests", "cpu", wanted.cpu_request);
  set("requests", "memory", wanted.memory_request);
  set("limits", "cpu", wanted.cpu_limit);
  set("limits", "memory", wanted.memory_limit);
  return resources;
}

Json Container(const WorkerPod& pod) {
  Json container = {
      {"name", kContainer},
      {"image", pod.image},
      {"imagePullPolicy", pod.settings.worker.image_pull_policy},
      {"command", Json::array({kProgram})},
      {"args", pod.args},
      {"resources", Resources(pod.settings.worker.resources)},
      {"securityContext",
       {{"allowPrivilegeEscalation", false},
        {"readOnlyRootFilesystem", true},
        {"capabilities", {{"drop", Json::array({"ALL"})}}}}},
      {"terminationMessagePolicy", "FallbackToLogsOnError"},
      {"volumeMounts",
       Json::array({{{"name", "secrets"}, {"mountPath", kSecretsPath}, {"readOnly", true}},
                    {{"name", "scratch"}, {"mountPath", kScratchPath}}})},
  };
  Json env = Json::array();
  for (const auto& [name, value] : pod.env) {
    env.push_back({{"name", name}, {"value", value}});
  }
  env.push_back({{"name", "TMPDIR"}, {"value", kScratchPath}});
  for (const auto& [name, field] :
       {std::pair("NODE_NAME", "spec.nodeName"), std::pair("POD_UID", "metadata.uid")}) {
    env.push_back({{"name", name}, {"valueFrom", {{"fieldRef", {{"fieldPath", field}}}}}});
  }
  container["env"] = std::move(env);
  if (!pod.claim.empty()) {
    container["volumeDevices"] = Json::array({{{"name", "volume"}, {"devicePath", kVolumePath}}});
  }
  return container;
}

Json Volumes(const WorkerPod& pod) {
  Json volumes = Json::array(
      {{{"name", "secrets"}, {"secret", {{"secretName", pod.name}, {"defaultMode", kSecretMode}}}},
       {{"name", "scratch"}, {"emptyDir", {{"sizeLimit", pod.settings.worker.scratch_size}}}}});
  if (!pod.claim.empty()) {
    volumes.push_back({{"name", "volume"}, {"persistentVolumeClaim", {{"claimName", pod.claim}}}});
  }
  return volumes;
}

Json SecurityContext(const WorkerSettings& settings) {
  return {{"runAsNonRoot", true},
          {"runAsUser", kWorkerUser},
          {"runAsGroup", kWorkerUser},
          {"fsGroup", kWorkerUser},
          {"supplementalGroups", settings.supplemental_groups},
          {"seccompProfile", {{"type", "RuntimeDefault"}}}};
}

Json Metadata(const WorkerPod& pod) {
  Json metadata = {{"name", pod.name}, {"namespace", pod.namespace_name}};
  std::map<std::string, std::string> labels = pod.labels;
  labels.insert(pod.settings.worker.pod_labels.begin(), pod.settings.worker.pod_labels.end());
  metadata["labels"] = labels;
  std::map<std::string, std::string> annotations = pod.settings.worker.pod_annotations;
  if (!pod.repository.empty()) {
    annotations[objects::kRepositoryAnnotation] = pod.repository;
  }
  if (!annotations.empty()) {
    metadata["annotations"] = annotations;
  }
  if (pod.owner.has_value()) {
    metadata["ownerReferences"] = Json::array({objects::ToJson(*pod.owner)});
  }
  return metadata;
}

void SetPlacement(const WorkerPod& pod, Json& spec) {
  std::map<std::string, std::string> selector =
      ForStorageClass(pod.settings, pod.storage_class).node_selector;
  const WorkerSettings& settings = pod.settings.worker;
  selector.insert(settings.node_selector.begin(), settings.node_selector.end());
  if (!selector.empty()) {
    spec["nodeSelector"] = selector;
  }
  if (!settings.tolerations.empty()) {
    spec["tolerations"] = settings.tolerations;
  }
  if (const Json affinity = AffinityOf(pod); !affinity.empty()) {
    spec["affinity"] = affinity;
  }
  if (!settings.priority_class.empty()) {
    spec["priorityClassName"] = settings.priority_class;
  }
}

}  // namespace

Json MakeWorkerPod(const WorkerPod& pod) {
  Json spec = {{"restartPolicy", "Never"},
               {"terminationGracePeriodSeconds", kGraceSeconds},
               {"enableServiceLinks", false},
               {"serviceAccountName", pod.service_account},
               {"securityContext", SecurityContext(pod.settings.worker)},
               {"volumes", Volumes(pod)},
               {"containers", Json::array({Container(pod)})}};
  Json pull_secrets = Json::array();
  for (const std::string& name : pod.settings.worker.image_pull_secrets) {
    pull_secrets.push_back({{"name", name}});
  }
  if (!pull_secrets.empty()) {
    spec["imagePullSecrets"] = pull_secrets;
  }
  SetPlacement(pod, spec);
  return {{"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", Metadata(pod)}, {"spec", spec}};
}

}  // namespace csidelta::datamover
