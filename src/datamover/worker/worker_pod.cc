#include "datamover/worker/worker_pod.h"

#include <map>
#include <string>

namespace csidelta::datamover {
namespace {

std::map<std::string, std::string> Quantities(const std::string& cpu, const std::string& memory) {
  std::map<std::string, std::string> quantities = {{"cpu", cpu}, {"memory", memory}};
  std::erase_if(quantities, [](const auto& quantity) { return quantity.second.empty(); });
  return quantities;
}

}  // namespace

objects::Pod MakeWorkerPod(objects::WorkerPodSpec pod, const MoverSettings& settings,
                           absl::string_view storage_class) {
  const WorkerSettings& worker = settings.worker;
  const WorkerResources& resources = worker.resources;
  pod.labels.insert(worker.pod_labels.begin(), worker.pod_labels.end());
  pod.annotations.insert(worker.pod_annotations.begin(), worker.pod_annotations.end());
  pod.image_pull_policy = worker.image_pull_policy;
  pod.image_pull_secrets = worker.image_pull_secrets;
  pod.scratch_size = worker.scratch_size;
  pod.requests = Quantities(resources.cpu_request, resources.memory_request);
  pod.limits = Quantities(resources.cpu_limit, resources.memory_limit);
  pod.has_fixed_user = worker.has_fixed_user;
  pod.supplemental_groups = worker.supplemental_groups;
  pod.priority_class = worker.priority_class;
  pod.node_selector = ForStorageClass(settings, storage_class).node_selector;
  pod.node_selector.insert(worker.node_selector.begin(), worker.node_selector.end());
  pod.tolerations = worker.tolerations;
  pod.affinity = worker.affinity;
  return objects::MakeWorkerPod(pod);
}

}  // namespace csidelta::datamover
