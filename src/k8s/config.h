#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "net/proxy.h"

namespace csidelta::k8s {

// Where to look for the API server, and how to treat it. A value; FromEnvironment() fills in what
// the environment says, the caller adds flags.
struct ClientSettings {
  std::string own_kubeconfig;          // CSI_DELTA_KUBECONFIG
  std::string kubeconfig;              // --kubeconfig
  std::string kubeconfig_environment;  // KUBECONFIG: paths joined by ':'
  std::string kubecontext;             // --kubecontext; "": the file's current one
  std::string service_host;            // KUBERNETES_SERVICE_HOST
  std::string service_port;            // KUBERNETES_SERVICE_PORT
  std::string service_account_dir = "/var/run/secrets/kubernetes.io/serviceaccount";
  std::string version = "unknown";  // ours, for the User-Agent
  double qps = 100;                 // requests per second that we ask of the server, sustained
  int burst = 100;                  // and at once; neither counts running watches
  int page_items_max = 500;         // objects per page of a list
  net::ProxySettings proxy;         // HTTPS_PROXY, NO_PROXY

  static ClientSettings FromEnvironment();
};

// How to reach and convince one API server.
struct ClusterConfig {
  std::string server;  // URL, without a trailing slash
  std::string ca_pem;  // "": the system's bundle
  std::string client_certificate_pem;
  std::string client_key_pem;
  std::string token;
  std::string token_path;  // the token is in this file, and changes; counts before `token`
  std::string username;
  std::string password;
  std::string tls_server_name;
  std::string proxy_url;
  std::string namespace_name;  // of the context; "" when it names none
  bool insecure_skip_tls_verify = false;
};

// Reads a whole file; an argument, so that parsing can be tested without files.
using FileReader = absl::FunctionRef<absl::StatusOr<std::string>(const std::string& path)>;

// The real one. NOT_FOUND or PERMISSION_DENIED naming the path; INVALID_ARGUMENT above 4 MiB.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// The cluster and user that `context` ("": current-context) of a kubeconfig names. Relative paths
// in it start at `directory`; files it points to are read, but for the token's. INVALID_ARGUMENT
// naming the field that is missing, malformed or not supported (exec and auth-provider plug-ins: a
// plugin process has none of the programs they call).
absl::StatusOr<ClusterConfig> ParseKubeconfig(absl::string_view text, absl::string_view context,
                                              const std::string& directory, FileReader read_file);

// The first of these that is set decides: own_kubeconfig, kubeconfig, kubeconfig_environment (its
// first file that exists; the files are not merged), the service account of the pod. What is set
// but broken is an error; the next one is not tried. FAILED_PRECONDITION when nothing is set.
absl::StatusOr<ClusterConfig> LoadClusterConfig(const ClientSettings& settings,
                                                FileReader read_file);

// The namespace Velero's own objects live in: `flag` (--namespace), VELERO_NAMESPACE, the service
// account's namespace file, "velero"; the first that is not empty. Reads environment and file.
std::string ResolveVeleroNamespace(absl::string_view flag);

}  // namespace csidelta::k8s
