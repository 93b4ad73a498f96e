#include "cli/cluster_access.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/run_program.h"
#include "datamover/controller/mover_kinds.h"
#include "k8s/config.h"
#include "k8s/rest_client.h"

namespace csidelta::cli {
namespace {

constexpr std::size_t kCredentialBytesMax = std::size_t{1} << 20;
// A person waits for it, and the address may be wrong.
constexpr absl::Duration kReachTimeMax = absl::Seconds(5);

// A log-in program that a kubeconfig names: its questions and complaints are for the terminal.
absl::StatusOr<std::string> RunLogIn(const CallContext& ctx, const k8s::ExecPlugin& plugin,
                                     const std::string& info) {
  ProgramToRun program{.arguments = {plugin.command},
                       .environment = plugin.environment,
                       .output_bytes_max = kCredentialBytesMax};
  program.arguments.insert(program.arguments.end(), plugin.arguments.begin(),
                           plugin.arguments.end());
  program.environment.emplace_back("KUBERNETES_EXEC_INFO", info);
  return Annotate(RunProgram(ctx, program), "the log-in program of the kubeconfig");
}

}  // namespace

void ClusterAccess::Declare(ArgumentTable& table) {
  table.Add("--kubeconfig", "FILE",
            "how to reach the cluster (default: $KUBECONFIG, else ~/.kube/config, else as a Pod)",
            kubeconfig);
  table.Add("--context", "NAME", "a context of it (default: its current one)", kubecontext);
  table.Rename("--kubecontext");
}

k8s::ClientSettings ClusterAccess::Settings() const {
  k8s::ClientSettings settings = k8s::ClientSettings::FromEnvironment();
  settings.kubeconfig = kubeconfig;
  settings.kubecontext = kubecontext;
  if (const char* const home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    settings.home_kubeconfig = absl::StrCat(home, "/.kube/config");
  }
  settings.run_exec = &RunLogIn;
  settings.has_terminal = ::isatty(STDIN_FILENO) == 1;
  settings.explain_unserved = &datamover::ExplainUnserved;
  return settings;
}

std::unique_ptr<k8s::ApiClient> ClusterAccess::MakeClient() const {
  k8s::ClientSettings settings = Settings();
  if (std::getenv("KUBERNETES_SERVICE_HOST") == nullptr) {  // A CronJob has no second try.
    settings.reach_time_max = kReachTimeMax;
  }
  return k8s::MakeClient(std::move(settings));
}

absl::Status OrUnserved(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& key,
                        const absl::Status& not_found) {
  const absl::Status listed =
      api.List(ctx, key.type, key.namespace_name,
               {.label_selector = "", .field_selector = absl::StrCat("metadata.name=", key.name)})
          .status();
  return absl::IsNotFound(listed) ? listed : not_found;
}

void ClusterOptions::Declare(ArgumentTable& table) {
  table.Add("-n,--namespace", "NS", "the namespace (default: that of the context)", namespace_name);
  table.Add("-A,--all-namespaces", "all namespaces", all_namespaces);
  table.Add("-l,--selector", "LABELS", "only objects with these labels: \"app=db,tier!=cache\"",
            selector);
  table.AddChoice("-o,--output", {"table", "wide", "json", "yaml", "name"},
                  "how the result is printed; --json is -o json", output);
  DeclarePlaces(table);
}

void ClusterOptions::DeclareForMover(ArgumentTable& table) {
  table.AddChoice("-o,--output", {"table", "json", "yaml"},
                  "how the result is printed; --json is -o json", output);
  DeclarePlaces(table);
}

void ClusterOptions::DeclarePlaces(ArgumentTable& table) {
  access.Declare(table);
  table.Add("--mover-namespace", "NS", "the namespace of the data mover", mover_namespace);
  table.Rename("-n,--namespace");
  table.Add("--velero-namespace", "NS[,NS]", "the namespace of Velero, or of each",
            velero_namespaces);
  table.Rename("--velero-namespaces");
}

absl::StatusOr<std::string> ClusterOptions::Namespace() const {
  if (all_namespaces) {
    return std::string();
  }
  return namespace_name.empty() ? k8s::ContextNamespace(access.Settings(), &k8s::ReadFile)
                                : namespace_name;
}

absl::StatusOr<std::string> ClusterOptions::OneVelero() const {
  if (absl::StrContains(velero_namespaces, ",")) {
    return absl::InvalidArgumentError("this verb takes one --velero-namespace");
  }
  return velero_namespaces;
}

}  // namespace csidelta::cli
