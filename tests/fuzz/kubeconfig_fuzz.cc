// A kubeconfig, a list of two that are merged (with a NUL byte between them), and the answer of a
// log-in program: reading them neither crashes nor runs away, and what comes out can be used for a
// request.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "k8s/config.h"
#include "k8s/token_source.h"
#include "net/proxy.h"
#include "net/url.h"

namespace {

// KUBECONFIG=/a:/b, with what is before and behind the first NUL byte.
void LoadMerged(absl::string_view text) {
  const std::size_t end = text.find('\0');
  if (end == absl::string_view::npos) {
    return;
  }
  const auto read_file = [&](const std::string& path) -> absl::StatusOr<std::string> {
    return std::string(path == "/a" ? text.substr(0, end) : text.substr(end + 1));
  };
  csidelta::k8s::ClientSettings settings;
  settings.kubeconfig_environment = "/a:/b";
  const absl::StatusOr<csidelta::k8s::ClusterConfig> config =
      csidelta::k8s::LoadClusterConfig(settings, read_file);
  CSIDELTA_CHECK(!config.ok() || csidelta::net::ParseUrl(config->server).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes) {
  const absl::string_view text(reinterpret_cast<const char*>(data), bytes);
  const auto read_file = [](const std::string& path) -> absl::StatusOr<std::string> {
    return "content of " + path;
  };
  LoadMerged(text);
  const auto credential =
      csidelta::k8s::ParseExecCredential(text, "client.authentication.k8s.io/v1");
  CSIDELTA_CHECK(credential.ok() || absl::IsInvalidArgument(credential.status()));
  const absl::StatusOr<csidelta::k8s::ClusterConfig> config =
      csidelta::k8s::ParseKubeconfig(text, "", "/directory", read_file);
  if (!config.ok()) {
    CSIDELTA_CHECK(config.status().code() == absl::StatusCode::kInvalidArgument);
    return 0;
  }
  const absl::StatusOr<csidelta::net::Url> url = csidelta::net::ParseUrl(config->server);
  CSIDELTA_CHECK(url.ok());
  csidelta::net::ProxySettings proxy;
  proxy.https_proxy = config->proxy_url;
  proxy.no_proxy = config->tls_server_name;
  csidelta::net::ProxyFor(*url, proxy).status().IgnoreError();
  return 0;
}
