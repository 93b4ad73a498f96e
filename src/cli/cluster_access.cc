#include "cli/cluster_access.h"

#include <utility>

#include "k8s/config.h"
#include "k8s/rest_client.h"

namespace csidelta::cli {

void ClusterAccess::Declare(ArgumentTable& table) {
  table.Add("--kubeconfig", "FILE", "how to reach the cluster; else KUBECONFIG, or as a Pod does",
            kubeconfig);
  table.Add("--kubecontext", "NAME", "which context of it; else its current one", kubecontext);
}

std::unique_ptr<k8s::ApiClient> ClusterAccess::MakeClient() const {
  k8s::ClientSettings settings = k8s::ClientSettings::FromEnvironment();
  settings.kubeconfig = kubeconfig;
  settings.kubecontext = kubecontext;
  return k8s::MakeClient(std::move(settings));
}

void DeclareMoverPlaces(ArgumentTable& table, std::string& mover_namespace,
                        std::string& velero_namespaces) {
  table.Add("--namespace", "NS", "the mover's namespace; csi-delta", mover_namespace);
  table.Add("--velero-namespaces", "NS[,NS]", "the namespaces of its Veleros; velero",
            velero_namespaces);
}

}  // namespace csidelta::cli
