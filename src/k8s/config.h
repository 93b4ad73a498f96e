#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/json.h"
#include "k8s/api_client.h"
#include "net/proxy.h"

namespace csidelta::k8s {

// A log-in program that a kubeconfig names (users[].user.exec), as EKS, GKE, AKS and OIDC do. It
// prints an ExecCredential:
// https://kubernetes.io/docs/reference/config-api/client-authentication.v1/.
struct ExecPlugin {
  std::string api_version;  // client.authentication.k8s.io/v1 or v1beta1
  std::string command;      // a name on the PATH, or an absolute path
  std::vector<std::string> arguments = {};
  std::vector<std::pair<std::string, std::string>> environment = {};  // besides the one there is
  std::string install_hint = {};       // shown when the command is not found
  bool provides_cluster_info = false;  // it wants to know which cluster
  enum class Interactive { kNever, kIfAvailable, kAlways } interactive = Interactive::kIfAvailable;
};

// Runs a log-in program with KUBERNETES_EXEC_INFO=`info` and returns what it wrote to stdout, at
// most 1 MiB. Its stderr is the caller's. An error names the command and says how it ended.
using ExecRunner = std::function<absl::StatusOr<std::string>(
    const CallContext& ctx, const ExecPlugin& plugin, const std::string& info)>;

// Requests to the API server in a second, unless a flag says otherwise.
inline constexpr int kRequestsPerSecond = 100;

// The sources of the API server's address, and limits for its client. A value; FromEnvironment()
// fills in what the environment says, the caller adds flags.
struct ClientSettings {
  std::string own_kubeconfig;          // CSI_DELTA_KUBECONFIG
  std::string kubeconfig;              // --kubeconfig
  std::string kubeconfig_environment;  // KUBECONFIG: paths joined by ':'
  std::string home_kubeconfig;         // "": the one in the home folder is not looked for
  std::string kubecontext;             // --kubecontext; "": the file's current one
  std::string service_host;            // KUBERNETES_SERVICE_HOST
  std::string service_port;            // KUBERNETES_SERVICE_PORT
  std::string service_account_dir = "/var/run/secrets/kubernetes.io/serviceaccount";
  std::string version = "unknown";  // ours, for the User-Agent
  double qps = kRequestsPerSecond;  // sustained
  int burst = kRequestsPerSecond;   // and at once; neither counts running watches
  int page_items_max = 500;         // objects per page of a list
  net::ProxySettings proxy;         // HTTPS_PROXY, HTTP_PROXY, NO_PROXY
  // Whether log-in programs may run: on a person's command line, not in a plugin process, which has
  // none of them.
  ExecRunner run_exec = nullptr;
  bool has_terminal = false;  // so that a log-in program may ask
  // How long it tries while the server has never answered: its address may be wrong.
  absl::Duration reach_time_max = absl::InfiniteDuration();
  // What a person does about a kind that the server does not serve; null: the kind is named.
  std::function<std::string(const ResourceType& type)> explain_unserved = nullptr;

  static ClientSettings FromEnvironment();
};

// The user to act as (users[].user.as and its siblings): Impersonate-* headers.
struct Impersonation {
  std::string user;  // "": no other user
  std::string uid;
  std::vector<std::string> groups;
  std::map<std::string, std::vector<std::string>> extra;
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
  Impersonation impersonation;
  std::optional<ExecPlugin> exec;
  Json exec_cluster_config;  // the cluster's extension client.authentication.k8s.io/exec, if any
};

// Reads a whole file; an argument, so that parsing can be tested without files.
using FileReader = absl::FunctionRef<absl::StatusOr<std::string>(const std::string& path)>;

// The real one. NOT_FOUND or PERMISSION_DENIED naming the path; INVALID_ARGUMENT above 4 MiB.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// The cluster and user that `context` ("": current-context) of a kubeconfig names. Relative paths
// in it start at `directory`; files it points to are read, but for the token's. INVALID_ARGUMENT
// naming the field that is missing, malformed or not supported (auth-provider).
absl::StatusOr<ClusterConfig> ParseKubeconfig(absl::string_view text, absl::string_view context,
                                              const std::string& directory, FileReader read_file);

// The first of these that is set decides: own_kubeconfig, kubeconfig, kubeconfig_environment (its
// files are merged as kubectl merges them: the first to name a cluster, user, context or the
// current context counts; those that do not exist are skipped), home_kubeconfig if it exists, the
// service account of the pod. A source that is set but broken is an error; the next one is not
// tried. FAILED_PRECONDITION when nothing is set. INVALID_ARGUMENT when the user logs in by a
// program and `settings` has no run_exec.
absl::StatusOr<ClusterConfig> LoadClusterConfig(const ClientSettings& settings,
                                                FileReader read_file);

// The namespace of the context that LoadClusterConfig() takes, or of the Pod; "default" where it
// names none.
absl::StatusOr<std::string> ContextNamespace(const ClientSettings& settings, FileReader read_file);

// The namespace Velero's own objects live in: `flag` (--namespace), VELERO_NAMESPACE, the service
// account's namespace file, "velero"; the first that is not empty. Reads environment and file.
std::string ResolveVeleroNamespace(absl::string_view flag);

}  // namespace csidelta::k8s
