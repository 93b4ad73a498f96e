#include "cli/cluster_access.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/run_program.h"
#include "k8s/config.h"
#include "k8s/rest_client.h"

namespace csidelta::cli {
namespace {

constexpr std::size_t kCredentialBytesMax = std::size_t{1} << 20;

// A log-in program that a kubeconfig names: its questions and complaints are for the terminal.
absl::StatusOr<std::string> RunLogIn(const CallContext& ctx, const k8s::ExecPlugin& plugin,
                                     const std::string& info) {
  ProgramToRun program{.words = {plugin.command},
                       .environment = plugin.environment,
                       .output_bytes_max = kCredentialBytesMax};
  program.words.insert(program.words.end(), plugin.arguments.begin(), plugin.arguments.end());
  program.environment.emplace_back("KUBERNETES_EXEC_INFO", info);
  absl::StatusOr<std::string> answer = RunProgram(ctx, program);
  return answer.ok() ? std::move(answer)
                     : Annotate(answer.status(), "the log-in program of the kubeconfig");
}

}  // namespace

void ClusterAccess::Declare(ArgumentTable& table) {
  table.Add("--kubeconfig", "FILE",
            "how to reach the cluster; else KUBECONFIG, ~/.kube/config, or as a Pod does",
            kubeconfig);
  table.Add("--kubecontext", "NAME", "which context of it; else its current one", kubecontext);
}

std::unique_ptr<k8s::ApiClient> ClusterAccess::MakeClient() const {
  k8s::ClientSettings settings = k8s::ClientSettings::FromEnvironment();
  settings.kubeconfig = kubeconfig;
  settings.kubecontext = kubecontext;
  if (const char* const home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    settings.home_kubeconfig = absl::StrCat(home, "/.kube/config");
  }
  settings.run_exec = &RunLogIn;
  settings.has_terminal = ::isatty(STDIN_FILENO) == 1;
  return k8s::MakeClient(std::move(settings));
}

void DeclareMoverPlaces(ArgumentTable& table, std::string& mover_namespace,
                        std::string& velero_namespaces) {
  table.Add("--namespace", "NS", "the mover's namespace; csi-delta", mover_namespace);
  table.Add("--velero-namespaces", "NS[,NS]", "the namespaces of its Veleros; velero",
            velero_namespaces);
}

}  // namespace csidelta::cli
