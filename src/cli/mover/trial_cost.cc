#include "cli/mover/trial_cost.h"

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/text.h"
#include "objects/outcome.h"

namespace csidelta::cli {
namespace {

constexpr int kColumns = 80;
constexpr int kReasonIndent = 4;

std::vector<std::string> RowOf(std::size_t backup, const objects::DataUpload& upload) {
  const objects::BackupFigures figures = upload.figures();
  return {absl::StrCat("  ", backup + 1),
          figures.mode.empty() ? "?" : figures.mode,
          FormatBytes(figures.changed_bytes),
          FormatBytes(figures.read_bytes),
          FormatBytes(figures.audit_bytes),
          FormatBytes(figures.stored_bytes),
          upload.duration().has_value() ? FormatElapsed(*upload.duration()) : ""};
}

}  // namespace

std::string FormatCosts(const TrialCosts& costs) {
  using Numbered = std::pair<std::size_t, const objects::DataUpload*>;
  std::map<std::string, std::vector<Numbered>> by_pvc;
  for (std::size_t backup = 0; backup < costs.size(); ++backup) {
    for (const objects::DataUpload& upload : costs[backup]) {
      by_pvc[upload.source_pvc()].emplace_back(backup, &upload);
    }
  }
  std::string text;
  for (const auto& [pvc, of_pvc] : by_pvc) {
    std::vector<std::vector<std::string>> rows = {
        {"  Backup", "Mode", "Changed", "Read", "Audited", "Uploaded", "Time"}};
    std::string reasons;
    for (const auto& [backup, upload] : of_pvc) {
      rows.push_back(RowOf(backup, *upload));
      const objects::BackupFigures figures = upload->figures();
      if (!figures.reason.empty()) {
        absl::StrAppend(
            &reasons, WrapText(Printable(absl::StrCat("backup ", backup + 1, " was ", figures.mode,
                                                      ": ", objects::ReasonText(figures))),
                               kReasonIndent, kColumns));
      }
    }
    absl::StrAppend(&text, "PVC ", Printable(pvc), ", ",
                    FormatBytes(of_pvc.back().second->figures().logical_bytes), "\n",
                    FormatTable(rows), reasons);
  }
  return text;
}

Json CostJson(const objects::DataUpload& upload) {
  const objects::BackupFigures figures = upload.figures();
  Json json = {{"pvc", upload.source_pvc()},
               {"mode", figures.mode},
               {"reason", objects::ReasonText(figures)},
               {"logical_bytes", figures.logical_bytes},
               {"changed_bytes", figures.changed_bytes},
               {"read_bytes", figures.read_bytes},
               {"audit_bytes", figures.audit_bytes},
               {"stored_bytes", figures.stored_bytes}};
  if (upload.duration().has_value()) {
    json["duration_ms"] = absl::ToInt64Milliseconds(*upload.duration());
  }
  return json;
}

}  // namespace csidelta::cli
