#include "objects/former_outcome.h"

#include <algorithm>
#include <optional>

namespace csidelta::objects {
namespace {

// Exit codes of csi-delta, as docs/cli.md lists them.
constexpr int64_t kOk = 0;
constexpr int64_t kNoRepository = 10;
constexpr int64_t kLocked = 11;
constexpr int64_t kWrongPassword = 12;
constexpr int64_t kAuditMismatch = 20;
constexpr int64_t kInterrupted = 130;

int64_t Count(const Json& result, JsonPath path) {
  return std::max<int64_t>(0, GetInt(result, path));
}

std::optional<int64_t> Measure(const Json& result, JsonPath path) {
  const int64_t count = GetInt(result, path, -1);
  return count >= 0 ? std::optional(count) : std::nullopt;
}

std::string Text(const Json& result, JsonPath path) {
  return GetString(result, path).substr(0, kOutcomeTextBytesMax);
}

OutcomeCode CodeOf(int64_t exit_code) {
  if (exit_code == kOk || exit_code == kAuditMismatch) {
    return OutcomeCode::kDone;
  }
  return exit_code == kInterrupted ? OutcomeCode::kStopped : OutcomeCode::kFailed;
}

OutcomeCause CauseOf(int64_t exit_code, const Json& result) {
  switch (exit_code) {
    case kNoRepository:
      return OutcomeCause::kNoRepository;
    case kLocked:
      return OutcomeCause::kLocked;
    case kWrongPassword:
      return OutcomeCause::kNoKey;
    case kAuditMismatch:
      return GetBool(result, {"audit", "mismatch"}) ? OutcomeCause::kAuditMismatch
                                                    : OutcomeCause::kListRefused;
    default:
      return OutcomeCause::kNone;
  }
}

}  // namespace

BackupFigures FormerBackupFigures(const Json& result) {
  return {.snapshot_id = Text(result, {"snapshot_id"}),
          .mode = Text(result, {"mode_done"}),
          .reason = Text(result, {"reason"}),
          .reason_detail = Text(result, {"reason_detail"}),
          .base = Text(result, {"base"}),
          .logical_bytes = Count(result, {"logical_bytes"}),
          .changed_bytes = Count(result, {"changed_bytes"}),
          .read_bytes = Count(result, {"read_bytes"}),
          .audit_bytes = Count(result, {"audit_bytes"}),
          .stored_bytes = Count(result, {"stored_bytes"}),
          .retries = Count(result, {"retries"}),
          .duration_ms = Count(result, {"duration_ms", "total"}),
          .audit_ms = Count(result, {"duration_ms", "audit"}),
          .peak_memory_bytes = Count(result, {"peak_memory_bytes"}),
          .repository_bytes = Measure(result, {"repository_bytes"}),
          .repository_snapshots = Measure(result, {"repository_snapshots"})};
}

RestoreFigures FormerRestoreFigures(const Json& result) {
  return {.file_system = Text(result, {"file_system"}),
          .logical_bytes = Count(result, {"logical_bytes"}),
          .compared_bytes = Count(result, {"compared_bytes"}),
          .written_bytes = Count(result, {"written_bytes"}),
          .zero_bytes = Count(result, {"zero_bytes"}),
          .kept_bytes = Count(result, {"kept_bytes"})};
}

Outcome FormerOutcome(const Json& status) {
  const int64_t exit_code = GetInt(status, {"exitCode"}, -1);
  const Json* document = FindJson(status, {"result"});
  const Json result = document == nullptr ? Json() : *document;
  Json locks = {{"code", ToString(CodeOf(exit_code))}};
  if (const Json* met = FindJson(result, {"locks"}); met != nullptr) {
    locks["locks"] = *met;
  }
  Outcome outcome = ReadOutcome(locks).value_or(Outcome());
  outcome.cause = CauseOf(exit_code, result);
  outcome.message = GetString(status, {"message"}).substr(0, kOutcomeMessageBytesMax);
  if (FindJson(result, {"written_bytes"}) != nullptr) {
    outcome.restore = FormerRestoreFigures(result);
  } else if (FindJson(result, {"snapshot_id"}) != nullptr) {
    outcome.backup = FormerBackupFigures(result);
  }
  return outcome;
}

}  // namespace csidelta::objects
