#include "objects/worker_pod.h"

#include <utility>

#include "objects/restricted_pod.h"

namespace csidelta::objects {
namespace {

constexpr char kContainer[] = "worker";
constexpr int kSecretMode = 0440;
constexpr char kOsLabel[] = "kubernetes.io/os";

Json AffinityOf(const WorkerPodSpec& pod) {
  Json affinity = pod.affinity.json();
  const Json* wished =
      FindJson(affinity, {"nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"});
  const NodeSelector required =
      Both(wished == nullptr ? NodeSelector() : NodeSelector(*wished), pod.node_affinity);
  if (!required.selects_all()) {
    SetJson(affinity, {"nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"},
            required.json());
  }
  return affinity;
}

Json Resources(const WorkerPodSpec& pod) {
  Json resources = Json::object();
  if (!pod.requests.empty()) {
    resources["requests"] = pod.requests;
  }
  if (!pod.limits.empty()) {
    resources["limits"] = pod.limits;
  }
  return resources;
}

Json Container(const WorkerPodSpec& pod) {
  Json container = {
      {"name", kContainer},
      {"image", pod.image},
      {"imagePullPolicy", pod.image_pull_policy},
      {"command", Json::array({kProgramPath})},
      {"args", pod.args},
      {"resources", Resources(pod)},
      {"securityContext", RestrictedContainerSecurity()},
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

Json Volumes(const WorkerPodSpec& pod) {
  Json volumes = Json::array(
      {{{"name", "secrets"}, {"secret", {{"secretName", pod.name}, {"defaultMode", kSecretMode}}}},
       {{"name", "scratch"}, {"emptyDir", {{"sizeLimit", pod.scratch_size}}}}});
  if (!pod.claim.empty()) {
    volumes.push_back({{"name", "volume"}, {"persistentVolumeClaim", {{"claimName", pod.claim}}}});
  }
  return volumes;
}

Json SecurityContext(const WorkerPodSpec& pod) {
  Json security = RestrictedPodSecurity();
  if (pod.has_fixed_user) {
    security["fsGroup"] = kImageUser;
  } else {
    security.erase("runAsUser");
    security.erase("runAsGroup");
  }
  security["supplementalGroups"] = pod.supplemental_groups;
  return security;
}

Json Metadata(const WorkerPodSpec& pod) {
  Json metadata = {{"name", pod.name}, {"namespace", pod.namespace_name}, {"labels", pod.labels}};
  if (!pod.annotations.empty()) {
    metadata["annotations"] = pod.annotations;
  }
  if (pod.owner.has_value()) {
    metadata["ownerReferences"] = Json::array({ToJson(*pod.owner)});
  }
  return metadata;
}

void SetPlacement(const WorkerPodSpec& pod, Json& spec) {
  spec["nodeSelector"] = pod.node_selector;
  spec["nodeSelector"].emplace(kOsLabel, "linux");
  if (!pod.tolerations.is_empty()) {
    spec["tolerations"] = pod.tolerations.json();
  }
  if (const Json affinity = AffinityOf(pod); !affinity.empty()) {
    spec["affinity"] = affinity;
  }
  if (!pod.priority_class.empty()) {
    spec["priorityClassName"] = pod.priority_class;
  }
}

}  // namespace

Pod MakeWorkerPod(const WorkerPodSpec& pod) {
  Json spec = {{"restartPolicy", "Never"},
               {"terminationGracePeriodSeconds", kGraceSeconds},
               {"enableServiceLinks", false},
               {"serviceAccountName", pod.service_account},
               {"securityContext", SecurityContext(pod)},
               {"volumes", Volumes(pod)},
               {"containers", Json::array({Container(pod)})}};
  Json pull_secrets = Json::array();
  for (const std::string& name : pod.image_pull_secrets) {
    pull_secrets.push_back({{"name", name}});
  }
  if (!pull_secrets.empty()) {
    spec["imagePullSecrets"] = pull_secrets;
  }
  SetPlacement(pod, spec);
  return Pod::Of(
             {{"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", Metadata(pod)}, {"spec", spec}})
      .value();
}

}  // namespace csidelta::objects
