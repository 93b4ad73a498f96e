#pragma once

#include <memory>
#include <string>

#include "cli/arguments.h"
#include "k8s/api_client.h"

namespace csidelta::cli {

// How a verb reaches the cluster that it works on.
struct ClusterAccess {
  std::string kubeconfig;
  std::string kubecontext;

  void Declare(ArgumentTable& table);
  // No I/O: whether the cluster answers shows at the first call.
  std::unique_ptr<k8s::ApiClient> MakeClient() const;
};

// Where the mover and its Veleros are; the values before are the defaults.
void DeclareMoverPlaces(ArgumentTable& table, std::string& mover_namespace,
                        std::string& velero_namespaces);

}  // namespace csidelta::cli
