#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "cli/arguments.h"
#include "k8s/api_client.h"
#include "k8s/config.h"

namespace csidelta::cli {

// The cluster that a verb works on.
struct ClusterAccess {
  std::string kubeconfig;
  std::string kubecontext;

  void Declare(ArgumentTable& table);
  // No I/O: an unreachable cluster is an error of the first call, within seconds.
  std::unique_ptr<k8s::ApiClient> MakeClient() const;
  // Of a client that waits longer for the API server, for programs that run in Pods.
  k8s::ClientSettings Settings() const;
};

// Why an object was not found: `not_found`, unless the API server does not serve its kind, as where
// its CRD is missing. Then that is the error, with what to install.
absl::Status OrUnserved(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& key,
                        const absl::Status& not_found);

// The flags of verbs on a cluster. A name has one meaning in all of them.
struct ClusterOptions {
  ClusterAccess access;
  std::string namespace_name;  // of the workload; "": the namespace of the context
  bool all_namespaces = false;
  std::string selector;
  std::string output = "table";  // or wide, json, yaml, name
  std::string mover_namespace = "csi-delta";
  std::string velero_namespaces = "velero";  // "velero,velero-two"

  // Of VerbFamily::kCluster.
  void Declare(ArgumentTable& table);
  // Of VerbFamily::kMover. -n is for the verb to declare, if it chooses volumes by namespace.
  void DeclareForMover(ArgumentTable& table);
  // The cluster, and where data mover and Velero are.
  void DeclarePlaces(ArgumentTable& table);
  // The namespace to read; "": all. Reads the kubeconfig.
  absl::StatusOr<std::string> Namespace() const;
  // INVALID_ARGUMENT if several are given.
  absl::StatusOr<std::string> OneVelero() const;
};

}  // namespace csidelta::cli
