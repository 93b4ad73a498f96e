#include "cli/trial_cost.h"

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/text.h"
#include "objects/keys.h"

namespace csidelta::cli {
namespace {

constexpr int kColumns = 80;
constexpr int kReasonIndent = 4;

int64_t BytesAt(const objects::DataUpload& upload, const char* key) {
  int64_t bytes = 0;
  return absl::SimpleAtoi(upload.Annotation(key), &bytes) && bytes > 0 ? bytes : 0;
}

std::vector<std::string> RowOf(std::size_t backup, const UploadCost& cost) {
  return {absl::StrCat("  ", backup + 1),
          cost.mode.empty() ? "?" : cost.mode,
          FormatBytes(cost.changed_bytes),
          FormatBytes(cost.read_bytes),
          FormatBytes(cost.audit_bytes),
          FormatBytes(cost.stored_bytes),
          cost.duration.has_value() ? FormatElapsed(*cost.duration) : ""};
}

}  // namespace

UploadCost CostOf(const objects::DataUpload& upload) {
  UploadCost cost{.pvc = upload.source_pvc(),
                  .mode = upload.Annotation(objects::kUploadModeAnnotation),
                  .reason = upload.Annotation(objects::kUploadReasonAnnotation),
                  .logical_bytes = upload.total_bytes(),
                  .changed_bytes = BytesAt(upload, objects::kChangedBytesAnnotation),
                  .read_bytes = BytesAt(upload, objects::kReadBytesAnnotation),
                  .audit_bytes = BytesAt(upload, objects::kAuditBytesAnnotation),
                  .stored_bytes = BytesAt(upload, objects::kStoredBytesAnnotation)};
  if (upload.started_at().has_value() && upload.completed_at().has_value() &&
      *upload.completed_at() >= *upload.started_at()) {
    cost.duration = *upload.completed_at() - *upload.started_at();
  }
  return cost;
}

std::string FormatCosts(const TrialCosts& costs) {
  using Numbered = std::pair<std::size_t, const UploadCost*>;
  std::map<std::string, std::vector<Numbered>> by_pvc;
  for (std::size_t backup = 0; backup < costs.size(); ++backup) {
    for (const UploadCost& cost : costs[backup]) {
      by_pvc[cost.pvc].emplace_back(backup, &cost);
    }
  }
  std::string text;
  for (const auto& [pvc, of_pvc] : by_pvc) {
    std::vector<std::vector<std::string>> rows = {
        {"  Backup", "Mode", "Changed", "Read", "Audited", "Uploaded", "Time"}};
    std::string reasons;
    for (const auto& [backup, cost] : of_pvc) {
      rows.push_back(RowOf(backup, *cost));
      if (!cost->reason.empty()) {
        absl::StrAppend(&reasons, WrapText(Printable(absl::StrCat("backup ", backup + 1, " was ",
                                                                  cost->mode, ": ", cost->reason)),
                                           kReasonIndent, kColumns));
      }
    }
    absl::StrAppend(&text, "PVC ", Printable(pvc), ", ",
                    FormatBytes(of_pvc.back().second->logical_bytes), "\n", FormatTable(rows),
                    reasons);
  }
  return text;
}

Json ToJson(const UploadCost& cost) {
  Json json = {{"pvc", cost.pvc},
               {"mode", cost.mode},
               {"reason", cost.reason},
               {"logical_bytes", cost.logical_bytes},
               {"changed_bytes", cost.changed_bytes},
               {"read_bytes", cost.read_bytes},
               {"audit_bytes", cost.audit_bytes},
               {"stored_bytes", cost.stored_bytes}};
  if (cost.duration.has_value()) {
    json["duration_ms"] = absl::ToInt64Milliseconds(*cost.duration);
  }
  return json;
}

}  // namespace csidelta::cli
