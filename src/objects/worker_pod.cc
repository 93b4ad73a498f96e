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

RestrictedContainer ContainerOf(const WorkerPodSpec& pod) {
  RestrictedContainer container{
      .name = kContainer,
      .image = pod.image,
      .image_pull_policy = pod.image_pull_policy,
      .args = pod.args,
      .requests = pod.requests,
      .limits = pod.limits,
      .variables = pod.env,
      .mounts = {{"secrets", kSecretsPath}, {"scratch", kScratchPath}},
  };
  if (!pod.claim.empty()) {
    container.devices = {{"volume", kVolumePath}};
  }
  return container;
}

void AddVariables(Json& container) {
  Json& env = container["env"];
  env.push_back({{"name", "TMPDIR"}, {"value", kScratchPath}});
  for (const auto& [name, field] :
       {std::pair("NODE_NAME", "spec.nodeName"), std::pair("POD_UID", "metadata.uid")}) {
    env.push_back({{"name", name}, {"valueFrom", {{"fieldRef", {{"fieldPath", field}}}}}});
  }
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

void SetUser(const WorkerPodSpec& pod, Json& security) {
  if (pod.has_fixed_user) {
    security["fsGroup"] = kImageUser;
  } else {
    security.erase("runAsUser");
    security.erase("runAsGroup");
  }
}

Json Metadata(const WorkerPodSpec& pod) {
  Json metadata = {{"name", pod.name}, {"namespace", pod.namespace_name}, {"labels", pod.labels}};
  if (!pod.annotations.empty()) {
    metadata["annotations"] = pod.annotations;
  }
  if (pod.owner.has_value()) {
    metadata["ownerReferences"] = ToJson(std::vector{*pod.owner});
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
  Json spec = ToJson(RestrictedPod{.grace_seconds = kGraceSeconds,
                                   .service_account = pod.service_account,
                                   .supplemental_groups = pod.supplemental_groups,
                                   .image_pull_secrets = pod.image_pull_secrets,
                                   .containers = {ContainerOf(pod)}});
  Json& container = spec["containers"].front();
  container["volumeMounts"].front()["readOnly"] = true;  // the Secret
  AddVariables(container);
  SetUser(pod, spec["securityContext"]);
  spec["volumes"] = Volumes(pod);
  SetPlacement(pod, spec);
  return Pod::Of(
             {{"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", Metadata(pod)}, {"spec", spec}})
      .value();
}

}  // namespace csidelta::objects
