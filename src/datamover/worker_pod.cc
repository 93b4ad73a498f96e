#include "datamover/worker_pod.h"

#include "objects/keys.h"

namespace csidelta::datamover {
namespace {

using Texts = std::map<std::string, std::string>;

Texts Quantities(const std::string& cpu, const std::string& memory) {
  Texts quantities = {{"cpu", cpu}, {"memory", memory}};
  std::erase_if(quantities, [](const auto& quantity) { return quantity.second.empty(); });
  return quantities;
}

// What both say; where both name a key, what `first` says.
Texts Merged(Texts first, const Texts& second) {
  first.insert(second.begin(), second.end());
  return first;
}

}  // namespace

objects::Pod MakeWorkerPod(const WorkerPod& pod) {
  const WorkerSettings& worker = pod.settings.worker;
  Texts annotations = worker.pod_annotations;
  if (!pod.repository.empty()) {
    annotations[objects::kRepositoryAnnotation] = pod.repository;
  }
  return objects::MakeWorkerPod(
      {.namespace_name = pod.namespace_name,
       .name = pod.name,
       .labels = Merged(pod.labels, worker.pod_labels),
       .annotations = annotations,
       .owner = pod.owner,
       .image = pod.image,
       .image_pull_policy = worker.image_pull_policy,
       .image_pull_secrets = worker.image_pull_secrets,
       .service_account = pod.service_account,
       .args = pod.args,
       .env = pod.env,
       .claim = pod.claim,
       .scratch_size = worker.scratch_size,
       .requests = Quantities(worker.resources.cpu_request, worker.resources.memory_request),
       .limits = Quantities(worker.resources.cpu_limit, worker.resources.memory_limit),
       .has_fixed_user = worker.has_fixed_user,
       .supplemental_groups = worker.supplemental_groups,
       .priority_class = worker.priority_class,
       .node_selector = Merged(ForStorageClass(pod.settings, pod.storage_class).node_selector,
                               worker.node_selector),
       .tolerations = worker.tolerations,
       .affinity = worker.affinity,
       .node_affinity = pod.node_affinity});
}

}  // namespace csidelta::datamover
