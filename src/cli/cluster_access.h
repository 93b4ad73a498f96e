#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "k8s/api_client.h"
#include "k8s/config.h"

namespace csidelta::cli {

inline constexpr char kContextAsKubectl[] = "--context,--kubecontext";

// The cluster that a verb works on.
struct ClusterAccess {
  std::string kubeconfig;
  std::string kubecontext;

  void Declare(ArgumentTable& table, absl::string_view context_names = "--kubecontext");
  // No I/O: an unreachable cluster is an error of the first call.
  std::unique_ptr<k8s::ApiClient> MakeClient() const;
  k8s::ClientSettings Settings() const;
};

// The flags of kubectl, for verbs of VerbFamily::kCluster.
struct ClusterOptions {
  ClusterAccess access;
  std::string namespace_name;  // "": the namespace of the context
  bool all_namespaces = false;
  std::string selector;
  std::string output;  // "" for a table; wide, json, yaml, name

  void Declare(ArgumentTable& table);
  // The namespace to read; "": all. Reads the kubeconfig.
  absl::StatusOr<std::string> Namespace() const;
};

// The namespaces of the mover and its Veleros. The values of the variables are the defaults.
void DeclareMoverNamespaces(ArgumentTable& table, std::string& mover_namespace,
                            std::string& velero_namespaces);

}  // namespace csidelta::cli
