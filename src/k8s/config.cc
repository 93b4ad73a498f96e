#include "k8s/config.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "base/yaml.h"
#include "net/url.h"

namespace csidelta::k8s {
namespace {

constexpr std::size_t kFileBytesMax = std::size_t{4} << 20;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string DirectoryOf(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

std::string JoinPath(const std::string& directory, const std::string& path) {
  return absl::StartsWith(path, "/") ? path : absl::StrCat(directory, "/", path);
}

// The member `body` of the entry called `name` in the list `list`, as in
// {clusters: [{name: a, cluster: {...}}]}.
absl::StatusOr<Json> FindEntry(const Json& config, absl::string_view list, absl::string_view body,
                               const std::string& name) {
  const Json* entries = FindJson(config, {list});
  if (entries != nullptr && entries->is_array()) {
    for (const Json& entry : *entries) {
      const Json* found = FindJson(entry, {body});
      if (GetString(entry, {"name"}) == name && found != nullptr && found->is_object()) {
        return *found;
      }
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(list, " has no \"", name, "\""));
}

// What `field` holds: inline as base64 in `field`-data, or in the file that `field` names.
absl::StatusOr<std::string> ReadData(const Json& object, absl::string_view field,
                                     const std::string& directory, FileReader read_file) {
  const std::string data_field = absl::StrCat(field, "-data");
  if (const std::string data = GetString(object, {data_field}); !data.empty()) {
    std::string decoded;
    if (!absl::Base64Unescape(data, &decoded)) {
      return absl::InvalidArgumentError(absl::StrCat(data_field, ": not base64"));
    }
    return decoded;
  }
  const std::string path = GetString(object, {field});
  if (path.empty()) {
    return std::string();
  }
  absl::StatusOr<std::string> text = read_file(JoinPath(directory, path));
  RETURN_IF_ERROR(Annotate(text.status(), field));
  return text;
}

bool IsTrue(const Json& object, absl::string_view field) {
  const Json* value = FindJson(object, {field});
  return value != nullptr && (*value == Json(true) || *value == Json("true"));
}

absl::Status ReadCluster(const Json& cluster, const std::string& directory, FileReader read_file,
                         ClusterConfig& config) {
  config.server = GetString(cluster, {"server"});
  if (!absl::StrContains(config.server, "://")) {
    config.server = absl::StrCat("http://", config.server);  // As client-go reads it.
  }
  while (absl::EndsWith(config.server, "/")) {
    config.server.pop_back();
  }
  RETURN_IF_ERROR(Annotate(net::ParseUrl(config.server).status(), "server"));
  ASSIGN_OR_RETURN(config.ca_pem, ReadData(cluster, "certificate-authority", directory, read_file));
  config.insecure_skip_tls_verify = IsTrue(cluster, "insecure-skip-tls-verify");
  config.tls_server_name = GetString(cluster, {"tls-server-name"});
  config.proxy_url = GetString(cluster, {"proxy-url"});
  return absl::OkStatus();
}

absl::Status ReadUser(const Json& user, const std::string& directory, FileReader read_file,
                      ClusterConfig& config) {
  for (const absl::string_view plug_in : {"exec", "auth-provider"}) {
    if (FindJson(user, {plug_in}) != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          plug_in,
          ": log-in programs are not supported here; give the user a client certificate or a "
          "token (kubectl create token), for example in a file of its own that "
          "CSI_DELTA_KUBECONFIG names"));
    }
  }
  ASSIGN_OR_RETURN(config.client_certificate_pem,
                   ReadData(user, "client-certificate", directory, read_file));
  ASSIGN_OR_RETURN(config.client_key_pem, ReadData(user, "client-key", directory, read_file));
  if (config.client_certificate_pem.empty() != config.client_key_pem.empty()) {
    return absl::InvalidArgumentError("client-certificate and client-key go together");
  }
  config.token = GetString(user, {"token"});
  if (const std::string path = GetString(user, {"tokenFile"}); !path.empty()) {
    config.token_path = JoinPath(directory, path);
  }
  config.username = GetString(user, {"username"});
  config.password = GetString(user, {"password"});
  return absl::OkStatus();
}

absl::StatusOr<ClusterConfig> LoadKubeconfig(const std::string& path, absl::string_view context,
                                             FileReader read_file) {
  ASSIGN_OR_RETURN(const std::string text, read_file(path));
  absl::StatusOr<ClusterConfig> config =
      ParseKubeconfig(text, context, DirectoryOf(path), read_file);
  RETURN_IF_ERROR(Annotate(config.status(), absl::StrCat("kubeconfig ", path)));
  return config;
}

// The first file of the list that exists; NOT_FOUND when none does.
absl::StatusOr<ClusterConfig> LoadFirst(absl::string_view paths, absl::string_view context,
                                        FileReader read_file) {
  for (const absl::string_view path : absl::StrSplit(paths, ':', absl::SkipEmpty())) {
    if (!absl::IsNotFound(read_file(std::string(path)).status())) {
      return LoadKubeconfig(std::string(path), context, read_file);
    }
  }
  return absl::NotFoundError(absl::StrCat("KUBECONFIG: none of these exists: ", paths));
}

absl::StatusOr<ClusterConfig> LoadInCluster(const ClientSettings& settings, FileReader read_file) {
  ClusterConfig config;
  const bool is_ipv6 = absl::StrContains(settings.service_host, ":");
  config.server = absl::StrCat("https://", is_ipv6 ? "[" : "", settings.service_host,
                               is_ipv6 ? "]" : "", ":", settings.service_port);
  config.token_path = JoinPath(settings.service_account_dir, "token");
  ASSIGN_OR_RETURN(config.ca_pem, read_file(JoinPath(settings.service_account_dir, "ca.crt")));
  return config;
}

}  // namespace

ClientSettings ClientSettings::FromEnvironment() {
  ClientSettings settings;
  settings.own_kubeconfig = Environment("CSI_DELTA_KUBECONFIG");
  settings.kubeconfig_environment = Environment("KUBECONFIG");
  settings.service_host = Environment("KUBERNETES_SERVICE_HOST");
  settings.service_port = Environment("KUBERNETES_SERVICE_PORT");
  settings.proxy = net::ProxySettings::FromEnvironment();
  return settings;
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    const std::string message = absl::StrCat("open ", path, ": ", std::strerror(errno));
    return errno == ENOENT || errno == ENOTDIR ? absl::NotFoundError(message)
                                               : absl::PermissionDeniedError(message);
  }
  const absl::Cleanup closer = [file] { close(file); };
  std::string text;
  std::vector<char> chunk(std::size_t{64} << 10);
  while (text.size() <= kFileBytesMax) {
    const ssize_t count = read(file, chunk.data(), chunk.size());
    if (count < 0 && errno != EINTR) {
      return absl::PermissionDeniedError(absl::StrCat("read ", path, ": ", std::strerror(errno)));
    }
    if (count == 0) {
      return text;
    }
    text.append(chunk.data(), static_cast<std::size_t>(count < 0 ? 0 : count));
  }
  return absl::InvalidArgumentError(absl::StrCat("read ", path, ": larger than 4 MiB"));
}

absl::StatusOr<ClusterConfig> ParseKubeconfig(absl::string_view text, absl::string_view context,
                                              const std::string& directory, FileReader read_file) {
  ASSIGN_OR_RETURN(const Json config, ParseYaml(text));
  std::string context_name(context);
  if (context_name.empty()) {
    context_name = GetString(config, {"current-context"});
  }
  if (context_name.empty()) {
    return absl::InvalidArgumentError("no context given and no current-context set");
  }
  ASSIGN_OR_RETURN(const Json chosen, FindEntry(config, "contexts", "context", context_name));
  ClusterConfig cluster_config;
  cluster_config.namespace_name = GetString(chosen, {"namespace"});
  const std::string cluster_name = GetString(chosen, {"cluster"});
  ASSIGN_OR_RETURN(const Json cluster, FindEntry(config, "clusters", "cluster", cluster_name));
  RETURN_IF_ERROR(Annotate(ReadCluster(cluster, directory, read_file, cluster_config),
                           absl::StrCat("cluster \"", cluster_name, "\"")));
  const std::string user_name = GetString(chosen, {"user"});
  if (!user_name.empty()) {
    ASSIGN_OR_RETURN(const Json user, FindEntry(config, "users", "user", user_name));
    RETURN_IF_ERROR(Annotate(ReadUser(user, directory, read_file, cluster_config),
                             absl::StrCat("user \"", user_name, "\"")));
  }
  return cluster_config;
}

absl::StatusOr<ClusterConfig> LoadClusterConfig(const ClientSettings& settings,
                                                FileReader read_file) {
  if (!settings.own_kubeconfig.empty()) {
    return LoadKubeconfig(settings.own_kubeconfig, settings.kubecontext, read_file);
  }
  if (!settings.kubeconfig.empty()) {
    return LoadKubeconfig(settings.kubeconfig, settings.kubecontext, read_file);
  }
  if (!settings.kubeconfig_environment.empty()) {
    return LoadFirst(settings.kubeconfig_environment, settings.kubecontext, read_file);
  }
  if (!settings.service_host.empty() && !settings.service_port.empty()) {
    return LoadInCluster(settings, read_file);
  }
  return absl::FailedPreconditionError(
      "no way to the API server: set CSI_DELTA_KUBECONFIG, --kubeconfig or KUBECONFIG, or run in a "
      "pod with a service account");
}

std::string ResolveVeleroNamespace(absl::string_view flag) {
  if (!flag.empty()) {
    return std::string(flag);
  }
  if (std::string name = Environment("VELERO_NAMESPACE"); !name.empty()) {
    return name;
  }
  const absl::StatusOr<std::string> file =
      ReadFile(absl::StrCat(ClientSettings().service_account_dir, "/namespace"));
  if (file.ok() && !absl::StripAsciiWhitespace(*file).empty()) {
    return std::string(absl::StripAsciiWhitespace(*file));
  }
  return "velero";
}

}  // namespace csidelta::k8s
