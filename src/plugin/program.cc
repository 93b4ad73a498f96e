#include "plugin/program.h"

#include <fcntl.h>
#include <grpc/support/log.h>
#include <malloc.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "plugin/handshake.h"
#include "plugin/host_link.h"
#include "plugin/installer.h"
#include "plugin/server.h"

namespace csidelta::plugin {

const char kVersion[] = CSIDELTA_VERSION;

namespace {

constexpr char kProgramName[] = "velero-plugin-for-csi-delta";
constexpr char kInstallFolder[] = "/target";
// More would leave each thread with memory of its own that it seldom needs.
constexpr int kMallocArenasMax = 2;
constexpr absl::Duration kEndGracePeriod = absl::Milliseconds(1500);  // The host waits for 2 s.

std::string GetEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// What a crash prints itself is not seen: the host shows plain stderr lines at debug level only.
[[noreturn]] void ReportAndAbort() {
  std::string reason = "no exception";
  if (const std::exception_ptr current = std::current_exception()) {
    try {
      std::rethrow_exception(current);
    } catch (const std::exception& error) {
      reason = error.what();
    } catch (...) {
      reason = "unknown exception";
    }
  }
  CSIDELTA_LOG(kError, "plugin terminated", {"error", reason});
  std::abort();
}

// gRPC's own lines, none of which is worth a failed backup.
void LogFromGrpc(gpr_log_func_args* line) {
  Log(LogLevel::kDebug, line->file, line->line, line->message, {});
}

void PrepareProcess() {
  mallopt(M_ARENA_MAX, kMallocArenasMax);
  std::signal(SIGPIPE, SIG_IGN);  // A closed pipe or socket is an error of the write.
  std::signal(SIGINT, SIG_IGN);   // The terminal is the host's.
  std::set_terminate(ReportAndAbort);
  gpr_set_log_function(LogFromGrpc);
}

absl::Status PrintHandshake(const std::string& socket_path) {
  const std::string line = FormatHandshakeLine(socket_path);
  if (write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    return absl::ErrnoToStatus(errno, "write handshake");
  }
  // The host reads on, and stops reading at a line that is too long: nothing may follow.
  const UniqueFd null_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (!null_fd.valid()) {
    close(STDOUT_FILENO);
    return absl::OkStatus();
  }
  dup2(null_fd.get(), STDOUT_FILENO);
  return absl::OkStatus();
}

// Comes back only with an error.
absl::Status Serve(const std::string& command, const Arguments& arguments,
                   RegisterActions register_actions) {
  RETURN_IF_ERROR(CheckProtocolVersions(GetEnvironment));
  Registry registry;
  RETURN_IF_ERROR(register_actions(arguments, registry));
  HostLink link;
  ASSIGN_OR_RETURN(const std::string socket_path, ChooseSocketPath(GetEnvironment, Random::Real()));
  ASSIGN_OR_RETURN(
      const std::unique_ptr<PluginServer> server,
      PluginServer::Start(socket_path, registry,
                          {.command = command,
                           .form = arguments.form,
                           .declared_host_version = GetEnvironment("CSI_DELTA_VELERO_VERSION")},
                          link));
  RETURN_IF_ERROR(ShareSocketWithGroup(socket_path, GetEnvironment));
  RETURN_IF_ERROR(PrintHandshake(socket_path));

  const HostLink::End end = link.WaitForEnd();
  unlink(socket_path.c_str());
  server->calls().RequestStop();
  const bool idle = server->calls().WaitUntilIdle(kEndGracePeriod);
  CSIDELTA_LOG(kDebug, "plugin ends",
               {"reason", end == HostLink::End::kAsked ? "asked" : "host gone"},
               {"idle", idle ? "yes" : "no"});
  _exit(0);  // A server that ends in order would wait for the host's streams.
}

int RunInstall(const std::vector<std::string>& words) {
  const std::string folder = words.size() > 1 ? words[1] : kInstallFolder;
  if (const absl::Status status = InstallSelf(folder, kProgramName); !status.ok()) {
    std::fprintf(stderr, "%s: install: %s\n", kProgramName, std::string(status.message()).c_str());
    return 1;
  }
  std::printf("%s: installed to %s\n", kProgramName, folder.c_str());
  return 0;
}

}  // namespace

int RunProgram(int argc, char** argv, RegisterActions register_actions) {
  const std::string command = argc > 0 ? argv[0] : kProgramName;
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  // The host's own words start with a dash, so these come first.
  if (!words.empty() && words[0] == "version") {
    std::printf("%s %s\n", kProgramName, kVersion);
    return 0;
  }
  if (!words.empty() && words[0] == "install") {
    return RunInstall(words);
  }
  if (!IsStartedByHost(GetEnvironment)) {
    std::fputs(ExplainHandStart(kProgramName).c_str(), stderr);
    return 1;
  }
  PrepareProcess();
  const Arguments arguments = ParseArguments(words);
  SetLogLevel(ParseLogLevel(arguments.log_level));
  const absl::Status status = Serve(command, arguments, register_actions);
  CSIDELTA_LOG(kError, "plugin cannot start", {"error", std::string(status.message())});
  return 1;
}

}  // namespace csidelta::plugin
