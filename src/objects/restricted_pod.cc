#include "objects/restricted_pod.h"

#include <utility>

#include "base/check.h"

namespace csidelta::objects {
namespace {

Json RestrictedContainerSecurity() {
  return {{"allowPrivilegeEscalation", false},
          {"readOnlyRootFilesystem", true},
          {"capabilities", {{"drop", Json::array({"ALL"})}}}};
}

Json RestrictedPodSecurity() {
  return {{"runAsNonRoot", true},
          {"runAsUser", kImageUser},
          {"runAsGroup", kImageUser},
          {"seccompProfile", {{"type", "RuntimeDefault"}}}};
}

Json PathsToJson(const std::vector<VolumePath>& paths, const char* field) {
  Json list = Json::array();
  for (const VolumePath& one : paths) {
    list.push_back({{"name", one.volume}, {field, one.path}});
  }
  return list;
}

Json ToJson(const RestrictedContainer& container) {
  Json json = {{"name", container.name},
               {"image", container.image},
               {"command", Json::array({kProgramPath})},
               {"args", container.args},
               {"securityContext", RestrictedContainerSecurity()},
               {"terminationMessagePolicy", "FallbackToLogsOnError"}};
  if (!container.image_pull_policy.empty()) {
    json["imagePullPolicy"] = container.image_pull_policy;
  }
  if (!container.requests.empty()) {
    json["resources"]["requests"] = container.requests;
  }
  if (!container.limits.empty()) {
    json["resources"]["limits"] = container.limits;
  }
  for (const auto& [name, value] : container.variables) {
    json["env"].push_back({{"name", name}, {"value", value}});
  }
  if (!container.variables_secret.empty()) {
    json["envFrom"] = Json::array({{{"secretRef", {{"name", container.variables_secret}}}}});
  }
  if (!container.mounts.empty()) {
    json["volumeMounts"] = PathsToJson(container.mounts, "mountPath");
  }
  if (!container.devices.empty()) {
    json["volumeDevices"] = PathsToJson(container.devices, "devicePath");
  }
  return json;
}

Json ToJson(const PodVolume& volume) {
  Json json = {{"name", volume.name}};
  if (volume.pvc.empty()) {
    json["emptyDir"] = Json::object();
  } else {
    json["persistentVolumeClaim"]["claimName"] = volume.pvc;
  }
  return json;
}

constexpr char kContainer[] = "worker";
constexpr int kSecretMode = 0440;

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
  for (const auto& [label, value] : pod.node_selector) {
    spec["nodeSelector"][label] = value;
  }
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

const std::map<std::string, std::string>& ImageNodeLabels() {
  static const auto& labels = *new std::map<std::string, std::string>{
      {"kubernetes.io/arch", "amd64"}, {"kubernetes.io/os", "linux"}};
  return labels;
}

bool NamesArchitecture(const Object& deployment) {
  return FindJson(deployment.json(),
                  {"spec", "template", "spec", "nodeSelector", "kubernetes.io/arch"}) != nullptr;
}

Json ToJson(const RestrictedPod& pod) {
  Json spec = {{"restartPolicy", "Never"},
               {"terminationGracePeriodSeconds", pod.grace_seconds},
               {"enableServiceLinks", false},
               {"nodeSelector", ImageNodeLabels()},
               {"securityContext", RestrictedPodSecurity()}};
  if (!pod.service_account.empty()) {
    spec["serviceAccountName"] = pod.service_account;
  }
  if (pod.has_token.has_value()) {
    spec["automountServiceAccountToken"] = *pod.has_token;
  }
  if (pod.supplemental_groups.has_value()) {
    spec["securityContext"]["supplementalGroups"] = *pod.supplemental_groups;
  }
  for (const std::string& secret : pod.image_pull_secrets) {
    spec["imagePullSecrets"].push_back({{"name", secret}});
  }
  for (const RestrictedContainer& container : pod.init_containers) {
    spec["initContainers"].push_back(ToJson(container));
  }
  for (const RestrictedContainer& container : pod.containers) {
    spec["containers"].push_back(ToJson(container));
  }
  for (const PodVolume& volume : pod.volumes) {
    spec["volumes"].push_back(ToJson(volume));
  }
  return spec;
}

Pod MakePod(absl::string_view namespace_name, absl::string_view name, const RestrictedPod& pod) {
  CSIDELTA_CHECK(!pod.containers.empty() && !name.empty());
  Json json = Pod::Make(namespace_name, name).json();
  json["spec"] = ToJson(pod);
  return *Pod::Of(std::move(json));
}

Object MakeCronJob(const CronJobPlan& plan) {
  Json spec = {{"schedule", plan.schedule},
               {"suspend", plan.is_suspended},
               {"concurrencyPolicy", "Forbid"},
               {"startingDeadlineSeconds", plan.start_seconds_max},
               {"successfulJobsHistoryLimit", 1},
               {"failedJobsHistoryLimit", 3},
               {"jobTemplate",
                {{"spec", {{"backoffLimit", 0}, {"template", {{"spec", ToJson(plan.pod)}}}}}}}};
  if (!plan.time_zone.empty()) {
    spec["timeZone"] = plan.time_zone;
  }
  return Object({{"apiVersion", "batch/v1"},
                 {"kind", "CronJob"},
                 {"metadata", {{"name", plan.name}, {"namespace", plan.namespace_name}}},
                 {"spec", std::move(spec)}});
}

Pod MakeWorkerPod(const WorkerPodSpec& pod) {
  CSIDELTA_CHECK(!pod.name.empty() && !pod.namespace_name.empty());
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
