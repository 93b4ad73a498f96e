// csi-delta-test-driver: a CSI driver for tests, whose volumes are files. See README.md.

#include <grpcpp/server_builder.h>
#include <signal.h>

#include <cstdio>
#include <functional>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "tests/support/csi_driver/control_server.h"
#include "tests/support/csi_driver/services.h"

namespace csidelta::csi_driver {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr char kUsage[] =
    "usage: csi-delta-test-driver --endpoint unix://PATH --state-dir DIR --driver-name NAME\n"
    "           --node-id ID [--control-socket PATH] [--no-list-snapshots]\n";

absl::StatusOr<DriverOptions> ParseArguments(int argc, char** argv) {
  DriverOptions options;
  const std::map<absl::string_view, std::string*> values = {
      {"--endpoint", &options.endpoint},
      {"--state-dir", &options.state_dir},
      {"--driver-name", &options.driver_name},
      {"--node-id", &options.node_id},
      {"--control-socket", &options.control_socket},
  };
  for (int i = 1; i < argc; ++i) {
    const absl::string_view name = argv[i];
    if (name == "--no-list-snapshots") {
      options.list_snapshots = false;
      continue;
    }
    const auto value = values.find(name);
    if (value == values.end() || ++i == argc) {
      return absl::InvalidArgumentError(absl::StrCat("unknown flag, or no value for it: ", name));
    }
    *value->second = argv[i];
  }
  for (const auto& [name, value] : values) {
    if (value->empty() && value != &options.control_socket) {
      return absl::InvalidArgumentError(absl::StrCat("missing: ", name));
    }
  }
  return options;
}

// Serves until one of `signals`, which must be blocked, arrives.
absl::Status Serve(const DriverOptions& options, const sigset_t& signals) {
  Faults faults;
  ASSIGN_OR_RETURN(const std::unique_ptr<Store> store,
                   Store::Open(options.state_dir, Clock::Real(), Random::Real()));
  std::unique_ptr<ControlServer> control;
  if (!options.control_socket.empty()) {
    ASSIGN_OR_RETURN(control, ControlServer::Start(options.control_socket, faults, *store));
  }
  const auto identity = MakeIdentity(options, faults);
  const auto controller = MakeController(options, faults, *store);
  const auto node = MakeNode(options, faults, *store);

  absl::string_view socket_path = options.endpoint;
  if (absl::ConsumePrefix(&socket_path, "unix://")) {
    RETURN_IF_ERROR(RemoveFile(std::string(socket_path)));  // Left there by one that was killed.
  }
  grpc::ServerBuilder builder;
  builder.AddListeningPort(options.endpoint, grpc::InsecureServerCredentials());
  builder.RegisterService(identity.get());
  builder.RegisterService(controller.get());
  builder.RegisterService(node.get());
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", options.endpoint));
  }
  CSIDELTA_LOG(kInfo, "serving", {"endpoint", options.endpoint}, {"driver", options.driver_name},
               {"state_dir", options.state_dir});
  int signal = 0;
  sigwait(&signals, &signal);
  // Calls in flight are cancelled at once, the ones that faults hold included.
  server->Shutdown(std::chrono::system_clock::now());
  server->Wait();
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  const absl::StatusOr<DriverOptions> options = ParseArguments(argc, argv);
  if (!options.ok()) {
    std::fprintf(stderr, "csi-delta-test-driver: %s\n%s",
                 std::string(options.status().message()).c_str(), kUsage);
    return kExitUsage;
  }
  sigset_t signals;  // Blocked before the first thread starts, so that all of them have it so.
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(SIG_BLOCK, &signals, nullptr);

  const absl::Status status = Serve(*options, signals);
  if (!status.ok()) {
    CSIDELTA_LOG(kError, "driver failed", {"status", status.ToString()});
    return kExitFailed;
  }
  return 0;
}

}  // namespace
}  // namespace csidelta::csi_driver

int main(int argc, char** argv) { return csidelta::csi_driver::Main(argc, argv); }
