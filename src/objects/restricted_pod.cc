#include "objects/restricted_pod.h"

#include <utility>

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

}  // namespace

Json ToJson(const RestrictedPod& pod) {
  Json spec = {{"restartPolicy", "Never"},
               {"terminationGracePeriodSeconds", pod.grace_seconds},
               {"enableServiceLinks", false},
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

}  // namespace csidelta::objects
