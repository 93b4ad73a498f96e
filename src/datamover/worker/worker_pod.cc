#include "datamover/worker/worker_pod.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/quantity.h"

namespace csidelta::datamover {
namespace {

// The kubelet adds logs to what a container takes of its node: 5 files of 10 MiB by default.
constexpr int64_t kLogBytesMax = int64_t{64} << 20;

std::map<std::string, std::string> Quantities(const std::string& cpu, const std::string& memory,
                                              const std::string& ephemeral_storage) {
  std::map<std::string, std::string> quantities = {
      {"cpu", cpu}, {"memory", memory}, {"ephemeral-storage", ephemeral_storage}};
  std::erase_if(quantities, [](const auto& quantity) { return quantity.second.empty(); });
  return quantities;
}

std::string WithLogs(const std::string& scratch_size) {
  return FormatBinaryQuantity(ParseQuantity(scratch_size).value_or(0) + kLogBytesMax);
}

std::map<std::string, std::string> ProxyVariables(const net::ProxySettings& proxy) {
  if (proxy.https_proxy.empty()) {
    return {};
  }
  return {
      {"HTTPS_PROXY", proxy.https_proxy},
      {"NO_PROXY", absl::StrCat(proxy.no_proxy, proxy.no_proxy.empty() ? "" : ",", kNotProxied)}};
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
  pod.env.merge(ProxyVariables(settings.proxy));
  pod.scratch_size = worker.scratch_size;
  pod.requests = Quantities(resources.cpu_request, resources.memory_request, worker.scratch_size);
  pod.limits =
      Quantities(resources.cpu_limit, resources.memory_limit, WithLogs(worker.scratch_size));
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
