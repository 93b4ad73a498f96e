#include "cli/cluster_verb.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/yaml.h"
#include "cli/text.h"

namespace csidelta::cli {

absl::StatusOr<ExitCode> ClusterCommand::Run(const CallContext& ctx, Session& session) {
  ctx_ = &ctx;
  session_ = &session;
  api_ = cluster().access.MakeClient();
  return Work();
}

std::string OutputForm(const Session& session) {
  return session.options().json ? "json" : session.options().cluster.output;
}

bool AsksForTable(const Session& session) {
  const std::string form = OutputForm(session);
  return form == "table" || form == "wide";
}

void PrintClusterResult(Session& session, const ClusterResult& result) {
  Console& console = session.console();
  const std::string form = OutputForm(session);
  if (form == "json" || form == "yaml") {
    console.PrintJson(result.value);
  } else if (form == "name") {
    for (const std::string& name : result.names) {
      console.Print(absl::StrCat(name, "\n"));
    }
  } else if (!result.table.empty()) {
    console.Print(result.table);
  }
}

namespace {

void PrintListTable(Console& console, const ClusterList& list) {
  if (list.count == 0) {
    return;
  }
  GrowingTable table;
  table.Fit(list.columns);
  for (std::size_t i = 0; i < list.count; ++i) {
    const std::vector<std::string> row = list.row(i);
    CSIDELTA_CHECK(row.size() == list.columns.size());  // each cell is below its head
    table.Fit(row);
  }
  console.Print(table.Line(list.columns));
  for (std::size_t i = 0; i < list.count; ++i) {
    console.Print(table.Line(list.row(i)));
  }
}

void PrintListJson(Console& console, const ClusterList& list) {
  std::string begin;
  if (!list.member.empty()) {
    begin = DumpJson(list.head);
    begin.pop_back();  // The closing brace.
    absl::StrAppend(&begin, list.head.empty() ? "" : ",", DumpJson(Json(list.member)), ":");
  }
  console.Print(absl::StrCat(begin, "["));
  for (std::size_t i = 0; i < list.count; ++i) {
    console.Print(absl::StrCat(i == 0 ? "" : ",", DumpJson(list.value(i))));
  }
  console.Print(list.member.empty() ? "]\n" : "]}\n");
}

void PrintListYaml(Console& console, const ClusterList& list) {
  if (!list.member.empty()) {
    console.Print(absl::StrCat(list.head.empty() ? "" : ToYaml(list.head), list.member, ":",
                               list.count == 0 ? " " : "\n"));
  }
  if (list.count == 0) {
    console.Print("[]\n");
  }
  for (std::size_t i = 0; i < list.count; ++i) {
    console.Print(ToYaml(Json::array({list.value(i)})));
  }
}

}  // namespace

void PrintClusterList(Session& session, const ClusterList& list) {
  Console& console = session.console();
  const std::string form = OutputForm(session);
  if (form == "json") {
    PrintListJson(console, list);
  } else if (form == "yaml") {
    PrintListYaml(console, list);
  } else if (form == "name") {
    for (std::size_t i = 0; i < list.count; ++i) {
      if (const std::optional<std::string> name = list.name(i); name.has_value()) {
        console.Print(absl::StrCat(*name, "\n"));
      }
    }
  } else {
    PrintListTable(console, list);
  }
}

}  // namespace csidelta::cli
