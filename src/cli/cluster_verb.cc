#include "cli/cluster_verb.h"

#include "absl/strings/str_cat.h"
#include "base/yaml.h"

namespace csidelta::cli {

absl::StatusOr<std::string> OneNamespace(const ClusterOptions& cluster, absl::string_view verb) {
  if (cluster.all_namespaces) {
    return absl::InvalidArgumentError(
        absl::StrCat(verb, " works in one namespace: leave out -A; name it with -n"));
  }
  if (!cluster.selector.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(verb, " chooses nothing by labels: leave out -l; name what you mean"));
  }
  return cluster.Namespace();
}

std::string OutputForm(const Session& session) {
  const std::string& output = session.options().cluster.output;
  if (session.options().json) {
    return "json";
  }
  return output.empty() ? "table" : output;
}

void PrintClusterResult(Session& session, const ClusterResult& result) {
  Console& console = session.console();
  const std::string form = OutputForm(session);
  if (form == "json") {
    console.PrintJson(result.value);
  } else if (form == "yaml") {
    console.Print(ToYaml(result.value));
  } else if (form == "name") {
    for (const std::string& name : result.names) {
      console.Print(absl::StrCat(name, "\n"));
    }
  } else if (!result.table.empty()) {
    console.Print(result.table);
  }
}

void PrintClusterEvent(Session& session, const Json& value, const std::string& text) {
  const std::string form = OutputForm(session);
  if (form == "json") {
    session.console().PrintJson(value);
  } else if (form == "yaml") {
    session.console().Print(absl::StrCat("---\n", ToYaml(value)));
  } else if (form != "name") {
    session.console().Print(text);
  }
}

}  // namespace csidelta::cli
