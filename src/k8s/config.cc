#include "k8s/config.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "base/yaml.h"
#include "net/url.h"

namespace csidelta::k8s {
namespace {

constexpr std::size_t kFileBytesMax = std::size_t{4} << 20;
constexpr char kExecGroup[] = "client.authentication.k8s.io/";
constexpr char kExecExtension[] = "client.authentication.k8s.io/exec";

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string DirectoryOf(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string JoinPath(const std::string& directory, const std::string& path) {
  return absl::StartsWith(path, "/") ? path : absl::StrCat(directory, "/", path);
}

// The member `body` of the entry called `name` in the list `list`, as in
// {clusters: [{name: a, cluster: {...}}]}.
absl::StatusOr<Json> FindEntry(const Json& config, absl::string_view list, absl::string_view body,
                               const std::string& name) {
  for (const Json& entry : JsonArrayAt(config, {list})) {
    const Json* found = FindJson(entry, {body});
    if (GetString(entry, {"name"}) == name && found != nullptr && found->is_object()) {
      return *found;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("no ", body, " is named \"", name, "\""));
}

// Makes the paths in the members `body` of a list absolute: they start at the folder of their file.
void ResolvePaths(const std::string& directory, absl::string_view list, const char* body,
                  absl::Span<const absl::string_view> fields, Json& config) {
  const auto entries = config.find(std::string(list));
  if (entries == config.end() || !entries->is_array()) {
    return;
  }
  for (Json& entry : *entries) {
    for (const absl::string_view field : fields) {
      if (const std::string path = GetString(entry, {body, field}); !path.empty()) {
        SetJson(entry, {body, field}, JoinPath(directory, path));
      }
    }
    // A command without a slash is looked for on the PATH.
    if (const std::string command = GetString(entry, {body, "exec", "command"});
        absl::StrContains(command, "/")) {
      SetJson(entry, {body, "exec", "command"}, JoinPath(directory, command));
    }
  }
}

absl::StatusOr<Json> ReadConfig(absl::string_view text, const std::string& directory) {
  ASSIGN_OR_RETURN(Json config, ParseYaml(text));
  if (!config.is_object()) {
    return absl::InvalidArgumentError("not a kubeconfig");
  }
  ResolvePaths(directory, "clusters", "cluster", {"certificate-authority"}, config);
  ResolvePaths(directory, "users", "user", {"client-certificate", "client-key", "tokenFile"},
               config);
  return config;
}

// As kubectl does: what `config` has already stays.
void MergeConfig(const Json& other, Json& config) {
  for (const char* const list : {"clusters", "users", "contexts"}) {
    Json& mine = config[list];
    mine = mine.is_array() ? std::move(mine) : Json::array();
    for (const Json& entry : JsonArrayAt(other, {list})) {
      const bool is_known = std::any_of(mine.begin(), mine.end(), [&](const Json& known) {
        return GetString(known, {"name"}) == GetString(entry, {"name"});
      });
      if (!is_known) {
        mine.push_back(entry);
      }
    }
  }
  if (GetString(config, {"current-context"}).empty()) {
    config["current-context"] = GetString(other, {"current-context"});
  }
}

// What `field` holds: inline as base64 in `field`-data, or in the file that `field` names.
absl::StatusOr<std::string> ReadData(const Json& object, absl::string_view field,
                                     FileReader read_file) {
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
  return Annotate(read_file(path), field);
}

bool IsTrue(const Json& object, absl::string_view field) {
  const Json* value = FindJson(object, {field});
  return value != nullptr && (*value == Json(true) || *value == Json("true"));
}

absl::Status ReadCluster(const Json& cluster, FileReader read_file, ClusterConfig& config) {
  config.server = GetString(cluster, {"server"});
  if (!absl::StrContains(config.server, "://")) {
    config.server = absl::StrCat("http://", config.server);  // As client-go reads it.
  }
  while (absl::EndsWith(config.server, "/")) {
    config.server.pop_back();
  }
  RETURN_IF_ERROR(Annotate(net::ParseUrl(config.server).status(), "server"));
  ASSIGN_OR_RETURN(config.ca_pem, ReadData(cluster, "certificate-authority", read_file));
  config.insecure_skip_tls_verify = IsTrue(cluster, "insecure-skip-tls-verify");
  config.tls_server_name = GetString(cluster, {"tls-server-name"});
  config.proxy_url = GetString(cluster, {"proxy-url"});
  for (const Json& extension : JsonArrayAt(cluster, {"extensions"})) {
    if (const Json* const found = FindJson(extension, {"extension"});
        found != nullptr && GetString(extension, {"name"}) == kExecExtension) {
      config.exec_cluster_config = *found;
    }
  }
  return absl::OkStatus();
}

// An array of strings; INVALID_ARGUMENT when it holds anything else.
absl::StatusOr<std::vector<std::string>> ReadStrings(const Json& object, absl::string_view field) {
  std::vector<std::string> strings;
  const Json* const found = FindJson(object, {field});
  if (found == nullptr || found->is_null()) {
    return strings;
  }
  for (const Json& one : *found) {
    if (!found->is_array() || !one.is_string()) {
      return absl::InvalidArgumentError(absl::StrCat(field, ": not a list of strings"));
    }
    strings.push_back(one.get<std::string>());
  }
  return strings;
}

absl::StatusOr<ExecPlugin> ReadExec(const Json& exec) {
  ExecPlugin plugin{.api_version = GetString(exec, {"apiVersion"}),
                    .command = GetString(exec, {"command"}),
                    .install_hint = GetString(exec, {"installHint"}),
                    .provides_cluster_info = IsTrue(exec, "provideClusterInfo")};
  if (plugin.api_version != absl::StrCat(kExecGroup, "v1") &&
      plugin.api_version != absl::StrCat(kExecGroup, "v1beta1")) {
    return absl::InvalidArgumentError(absl::StrCat("apiVersion: \"", plugin.api_version,
                                                   "\" is not supported; use ", kExecGroup, "v1"));
  }
  if (plugin.command.empty()) {
    return absl::InvalidArgumentError("command: missing");
  }
  ASSIGN_OR_RETURN(plugin.arguments, ReadStrings(exec, "args"));
  for (const Json& variable : JsonArrayAt(exec, {"env"})) {
    const std::string name = GetString(variable, {"name"});
    if (name.empty() || absl::StrContains(name, "=")) {
      return absl::InvalidArgumentError("env: a variable without a name");
    }
    plugin.environment.emplace_back(name, GetString(variable, {"value"}));
  }
  const std::string mode = GetString(exec, {"interactiveMode"});
  using enum ExecPlugin::Interactive;
  if (mode != "" && mode != "Never" && mode != "IfAvailable" && mode != "Always") {
    return absl::InvalidArgumentError(absl::StrCat(
        "interactiveMode: \"", mode, "\" is not one of Never, IfAvailable and Always"));
  }
  plugin.interactive = mode == "Never" ? kNever : mode == "Always" ? kAlways : kIfAvailable;
  return plugin;
}

// What a header line may contain.
bool IsPlain(absl::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); });
}

absl::Status ReadImpersonation(const Json& user, Impersonation& as) {
  as.user = GetString(user, {"as"});
  as.uid = GetString(user, {"as-uid"});
  ASSIGN_OR_RETURN(as.groups, ReadStrings(user, "as-groups"));
  if (const Json* const extra = FindJson(user, {"as-user-extra"});
      extra != nullptr && extra->is_object()) {
    for (const auto& [key, values] : extra->items()) {
      ASSIGN_OR_RETURN(as.extra[key], ReadStrings(*extra, key));
    }
  }
  if (as.user.empty() && (!as.uid.empty() || !as.groups.empty() || !as.extra.empty())) {
    return absl::InvalidArgumentError(
        "as-uid, as-groups and as-user-extra want a user: set \"as\"");
  }
  bool is_plain = IsPlain(as.user) && IsPlain(as.uid) &&
                  std::all_of(as.groups.begin(), as.groups.end(), IsPlain);
  for (const auto& [key, values] : as.extra) {
    is_plain = is_plain && std::all_of(values.begin(), values.end(), IsPlain);
  }
  if (!is_plain) {
    return absl::InvalidArgumentError("as: holds control characters");
  }
  return absl::OkStatus();
}

absl::Status ReadUser(const Json& user, FileReader read_file, ClusterConfig& config) {
  if (FindJson(user, {"auth-provider"}) != nullptr) {
    return absl::InvalidArgumentError(
        "auth-provider: kubectl 1.26 has dropped it; use exec, a client certificate or a token");
  }
  if (const Json* const exec = FindJson(user, {"exec"}); exec != nullptr && !exec->is_null()) {
    ASSIGN_OR_RETURN(config.exec, Annotate(ReadExec(*exec), "exec"));
  }
  RETURN_IF_ERROR(ReadImpersonation(user, config.impersonation));
  ASSIGN_OR_RETURN(config.client_certificate_pem, ReadData(user, "client-certificate", read_file));
  ASSIGN_OR_RETURN(config.client_key_pem, ReadData(user, "client-key", read_file));
  if (config.client_certificate_pem.empty() != config.client_key_pem.empty()) {
    return absl::InvalidArgumentError("client-certificate and client-key go together");
  }
  config.token = GetString(user, {"token"});
  config.token_path = GetString(user, {"tokenFile"});
  config.username = GetString(user, {"username"});
  config.password = GetString(user, {"password"});
  return absl::OkStatus();
}

// The cluster and user that a context of a kubeconfig names, whose paths are absolute.
absl::StatusOr<ClusterConfig> ReadContext(const Json& config, absl::string_view context,
                                          FileReader read_file) {
  std::string context_name(context);
  if (context_name.empty()) {
    context_name = GetString(config, {"current-context"});
  }
  if (context_name.empty()) {
    return absl::InvalidArgumentError("no context is given, and current-context is not set");
  }
  ASSIGN_OR_RETURN(const Json chosen, FindEntry(config, "contexts", "context", context_name));
  ClusterConfig cluster_config;
  cluster_config.namespace_name = GetString(chosen, {"namespace"});
  const std::string cluster_name = GetString(chosen, {"cluster"});
  ASSIGN_OR_RETURN(const Json cluster, FindEntry(config, "clusters", "cluster", cluster_name));
  RETURN_IF_ERROR(Annotate(ReadCluster(cluster, read_file, cluster_config),
                           absl::StrCat("cluster \"", cluster_name, "\"")));
  const std::string user_name = GetString(chosen, {"user"});
  if (!user_name.empty()) {
    ASSIGN_OR_RETURN(const Json user, FindEntry(config, "users", "user", user_name));
    RETURN_IF_ERROR(Annotate(ReadUser(user, read_file, cluster_config),
                             absl::StrCat("user \"", user_name, "\"")));
  }
  return cluster_config;
}

// Those of the files that exist, merged. NOT_FOUND when none does.
absl::StatusOr<Json> ReadMerged(absl::Span<const std::string> paths, FileReader read_file) {
  std::optional<Json> merged;
  for (const std::string& path : paths) {
    const absl::StatusOr<std::string> text = read_file(path);
    if (absl::IsNotFound(text.status())) {
      continue;
    }
    RETURN_IF_ERROR(text.status());
    ASSIGN_OR_RETURN(Json config, Annotate(ReadConfig(*text, DirectoryOf(path)),
                                           absl::StrCat("kubeconfig ", path)));
    if (!merged.has_value()) {
      merged = std::move(config);
    } else {
      MergeConfig(config, *merged);
    }
  }
  if (!merged.has_value()) {
    return absl::NotFoundError(
        paths.size() == 1 ? absl::StrCat("open ", paths[0], ": no such file")
                          : absl::StrCat("none of these exists: ", absl::StrJoin(paths, ":")));
  }
  return *std::move(merged);
}

absl::StatusOr<ClusterConfig> LoadKubeconfigs(const ClientSettings& settings,
                                              const std::vector<std::string>& paths,
                                              FileReader read_file) {
  ASSIGN_OR_RETURN(const Json merged, ReadMerged(paths, read_file));
  const std::string what = absl::StrCat("kubeconfig ", absl::StrJoin(paths, ":"));
  ASSIGN_OR_RETURN(ClusterConfig config,
                   Annotate(ReadContext(merged, settings.kubecontext, read_file), what));
  if (config.exec.has_value() && settings.run_exec == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        what,
        ": exec: log-in programs are not supported here; give the user a client certificate or a "
        "token (kubectl create token), for example in a file of its own that CSI_DELTA_KUBECONFIG "
        "names"));
  }
  return config;
}

absl::StatusOr<ClusterConfig> LoadInCluster(const ClientSettings& settings, FileReader read_file) {
  ClusterConfig config;
  const bool is_ipv6 = absl::StrContains(settings.service_host, ":");
  config.server = absl::StrCat("https://", is_ipv6 ? "[" : "", settings.service_host,
                               is_ipv6 ? "]" : "", ":", settings.service_port);
  config.token_path = JoinPath(settings.service_account_dir, "token");
  ASSIGN_OR_RETURN(config.ca_pem, read_file(JoinPath(settings.service_account_dir, "ca.crt")));
  const absl::StatusOr<std::string> own =
      read_file(JoinPath(settings.service_account_dir, "namespace"));
  config.namespace_name = own.ok() ? std::string(absl::StripAsciiWhitespace(*own)) : "";
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
  ASSIGN_OR_RETURN(const Json config, ReadConfig(text, directory));
  return ReadContext(config, context, read_file);
}

absl::StatusOr<ClusterConfig> LoadClusterConfig(const ClientSettings& settings,
                                                FileReader read_file) {
  if (!settings.own_kubeconfig.empty()) {
    return LoadKubeconfigs(settings, {settings.own_kubeconfig}, read_file);
  }
  if (!settings.kubeconfig.empty()) {
    return LoadKubeconfigs(settings, {settings.kubeconfig}, read_file);
  }
  if (!settings.kubeconfig_environment.empty()) {
    const std::vector<std::string> paths =
        absl::StrSplit(settings.kubeconfig_environment, ':', absl::SkipEmpty());
    return Annotate(LoadKubeconfigs(settings, paths, read_file), "KUBECONFIG");
  }
  if (!settings.home_kubeconfig.empty() &&
      !absl::IsNotFound(read_file(settings.home_kubeconfig).status())) {
    return LoadKubeconfigs(settings, {settings.home_kubeconfig}, read_file);
  }
  if (!settings.service_host.empty() && !settings.service_port.empty()) {
    return LoadInCluster(settings, read_file);
  }
  return absl::FailedPreconditionError(
      absl::StrCat("no cluster is configured; give --kubeconfig FILE or set KUBECONFIG",
                   settings.home_kubeconfig.empty()
                       ? ""
                       : absl::StrCat(" (", settings.home_kubeconfig, " does not exist)"),
                   ", or run in a Pod with a service account"));
}

absl::StatusOr<std::string> ContextNamespace(const ClientSettings& settings, FileReader read_file) {
  ASSIGN_OR_RETURN(const ClusterConfig config, LoadClusterConfig(settings, read_file));
  return config.namespace_name.empty() ? "default" : config.namespace_name;
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
