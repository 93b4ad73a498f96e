// csi-delta-longhorn-stand-in: Longhorn's Snapshot system for tests, on a real API server. See
// README.md.

#include <signal.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "k8s/config.h"
#include "k8s/rest_client.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "net/url.h"
#include "tests/support/longhorn/control.h"
#include "tests/support/longhorn/engine.h"
#include "tests/support/longhorn/installation.h"
#include "tests/support/longhorn/manager.h"
#include "tests/support/run_server.h"
#include "tests/support/test_authority.h"

namespace csidelta::longhorn_stand_in {
namespace {

constexpr absl::Duration kInstallTimeMax = absl::Seconds(60);
constexpr absl::Duration kAskTimeMax = absl::Seconds(60);
constexpr char kUsage[] =
    "usage: csi-delta-longhorn-stand-in --kubeconfig PATH [--namespace NS] [--as-proposed]\n"
    "           [--control-port N] [--webhook-port N] [--driver-state DIR]\n"
    "       csi-delta-longhorn-stand-in --ask http://127.0.0.1:N/REQUEST\n";

struct Arguments {
  std::string kubeconfig;
  std::string namespace_name = "longhorn-system";
  std::string control_port = "0";
  std::string webhook_port = "0";
  std::string ask;
  std::string driver_state;
  bool as_proposed = false;
};

absl::StatusOr<Arguments> ParseArguments(int argc, char** argv) {
  Arguments arguments;
  const std::map<absl::string_view, std::string*> values = {
      {"--kubeconfig", &arguments.kubeconfig},
      {"--namespace", &arguments.namespace_name},
      {"--control-port", &arguments.control_port},
      {"--webhook-port", &arguments.webhook_port},
      {"--ask", &arguments.ask},
      {"--driver-state", &arguments.driver_state},
  };
  for (int i = 1; i < argc; ++i) {
    const absl::string_view name = argv[i];
    if (name == "--as-proposed") {
      arguments.as_proposed = true;
      continue;
    }
    const auto value = values.find(name);
    if (value == values.end() || ++i == argc) {
      return absl::InvalidArgumentError(absl::StrCat("unknown flag, or no value for it: ", name));
    }
    *value->second = argv[i];
  }
  if (arguments.kubeconfig.empty() && arguments.ask.empty()) {
    return absl::InvalidArgumentError("missing: --kubeconfig");
  }
  return arguments;
}

absl::StatusOr<uint16_t> ParsePort(const std::string& text) {
  uint32_t port = 0;
  if (!absl::SimpleAtoi(text, &port) || port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("not a port: ", text));
  }
  return static_cast<uint16_t>(port);
}

// Sends a control request and prints the answer.
absl::Status Ask(const std::string& url) {
  net::HttpRequest request{.method = "POST", .url = {}, .headers = {}, .body = ""};
  ASSIGN_OR_RETURN(request.url, net::ParseUrl(url));
  net::HttpClient client({});
  ASSIGN_OR_RETURN(const net::HttpResponse answer,
                   client.Send(CallContext().WithTimeout(kAskTimeMax), request));
  std::fputs(answer.body.c_str(), stdout);
  return answer.status == 200 ? absl::OkStatus()
                              : absl::FailedPreconditionError(absl::StrCat(url, ": refused"));
}

// Keeps the bytes of snapshots where the CSI driver of the tests looks for them: the volumes'
// bytes are the driver's.
Engines::Observer CopierOf(const std::string& driver_state) {
  if (driver_state.empty()) {
    return nullptr;
  }
  return [folder = std::filesystem::path(driver_state)](const std::string& volume,
                                                        const std::string& name, bool is_there) {
    const std::filesystem::path copy = folder / "longhorn" / volume / name;
    std::error_code error;
    if (is_there) {
      std::filesystem::create_directories(copy.parent_path(), error);
      std::filesystem::copy_file(folder / "volumes" / volume, copy, error);
    } else {
      std::filesystem::remove(copy, error);
    }
    if (error) {
      CSIDELTA_LOG(kWarn, "no bytes of a snapshot", {"snapshot", copy.string()},
                   {"error", error.message()});
    }
  };
}

// Serves until one of `signals`, which must be blocked, arrives.
absl::Status Serve(const Arguments& arguments, const sigset_t& signals) {
  ASSIGN_OR_RETURN(const uint16_t control_port, ParsePort(arguments.control_port));
  ASSIGN_OR_RETURN(const uint16_t webhook_port, ParsePort(arguments.webhook_port));
  k8s::ClientSettings settings = k8s::ClientSettings::FromEnvironment();
  settings.own_kubeconfig = arguments.kubeconfig;
  settings.qps = 1000;
  settings.burst = 1000;
  const std::unique_ptr<k8s::ApiClient> api = k8s::MakeClient(settings);
  support::TestAuthority authority;
  const support::Credentials own = authority.IssueServer("IP:127.0.0.1");
  Engines engines(CopierOf(arguments.driver_state));
  Manager manager(
      *api, engines,
      {.namespace_name = arguments.namespace_name, .as_proposed = arguments.as_proposed},
      {.certificate_pem = own.certificate_pem, .key_pem = own.key_pem}, webhook_port);
  RETURN_IF_ERROR(manager.Start());
  RETURN_IF_ERROR(Install(CallContext().WithTimeout(kInstallTimeMax), *api,
                          arguments.namespace_name,
                          absl::StrCat("https://127.0.0.1:", manager.port()), authority.ca_pem()));
  Control control(*api, engines, manager, arguments.namespace_name);
  net::HttpServerOptions options;
  options.port = control_port;
  ASSIGN_OR_RETURN(const std::unique_ptr<net::HttpServer> server,
                   net::HttpServer::Start(std::move(options),
                                          [&](const CallContext& ctx, const net::HttpCall& call) {
                                            return control.Handle(ctx, call);
                                          }));
  CSIDELTA_LOG(kInfo, "serving", {"namespace", arguments.namespace_name},
               {"control_port", absl::StrCat(server->port())},
               {"webhook_port", absl::StrCat(manager.port())});
  int signal = 0;
  sigwait(&signals, &signal);
  server->Stop();
  manager.Stop();
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  const absl::StatusOr<Arguments> arguments = ParseArguments(argc, argv);
  return support::RunServer(
      {.name = "csi-delta-longhorn-stand-in", .usage = kUsage, .arguments = arguments.status()},
      [&](const sigset_t& signals) {
        return arguments->ask.empty() ? Serve(*arguments, signals) : Ask(arguments->ask);
      });
}

}  // namespace
}  // namespace csidelta::longhorn_stand_in

int main(int argc, char** argv) { return csidelta::longhorn_stand_in::Main(argc, argv); }
