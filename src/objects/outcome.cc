#include "objects/outcome.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/crypto.h"
#include "base/enum_names.h"

namespace csidelta::objects {
namespace {

constexpr std::size_t kPackDigits = 64;
constexpr std::size_t kLockDigits = 64;

constexpr EnumNames<OutcomeCode, 3> kCodes = {{
    {OutcomeCode::kDone, "Done"},
    {OutcomeCode::kFailed, "Failed"},
    {OutcomeCode::kStopped, "Stopped"},
}};

constexpr EnumNames<OutcomeCause, 6> kCauses = {{
    {OutcomeCause::kNoRepository, "NoRepository"},
    {OutcomeCause::kLocked, "Locked"},
    {OutcomeCause::kNoKey, "NoKey"},
    {OutcomeCause::kRetained, "Retained"},
    {OutcomeCause::kAuditMismatch, "AuditMismatch"},
    {OutcomeCause::kListRefused, "ListRefused"},
}};

constexpr BytesMax kTextMax{kOutcomeTextBytesMax};
constexpr BytesMax kPathMax{512};  // Two names of objects.

constexpr auto kBackupFields = [](auto& fields, auto& figures) {
  fields("snapshotID", figures.snapshot_id, kTextMax);
  fields("mode", figures.mode, kTextMax);
  fields("reason", figures.reason, kTextMax);
  fields("reasonDetail", figures.reason_detail, kTextMax);
  fields("base", figures.base, kTextMax);
  fields("logicalBytes", figures.logical_bytes);
  fields("changedBytes", figures.changed_bytes);
  fields("readBytes", figures.read_bytes);
  fields("auditBytes", figures.audit_bytes);
  fields("storedBytes", figures.stored_bytes);
  fields("retries", figures.retries);
  fields("durationMs", figures.duration_ms);
  fields("auditMs", figures.audit_ms);
  fields("peakMemoryBytes", figures.peak_memory_bytes);
  fields("repositoryBytes", figures.repository_bytes);
  fields("repositorySnapshots", figures.repository_snapshots);
};

constexpr auto kRestoreFields = [](auto& fields, auto& figures) {
  fields("fileSystem", figures.file_system, kTextMax);
  fields("logicalBytes", figures.logical_bytes);
  fields("comparedBytes", figures.compared_bytes);
  fields("writtenBytes", figures.written_bytes);
  fields("zeroBytes", figures.zero_bytes);
  fields("keptBytes", figures.kept_bytes);
  fields.IfSet("host", figures.host, kTextMax);
  fields.IfSet("path", figures.path, kPathMax);
};

// As kRestoredBytesAnnotation has them.
constexpr auto kRestoredBytesFields = [](auto& fields, auto& figures) {
  fields("logical_bytes", figures.logical_bytes);
  fields("compared_bytes", figures.compared_bytes);
  fields("written_bytes", figures.written_bytes);
  fields("zero_bytes", figures.zero_bytes);
  fields("kept_bytes", figures.kept_bytes);
};

constexpr auto kOrphanFields = [](auto& fields, auto& orphan) {
  fields("snapshotID", orphan.id, kTextMax);
  fields("tag", orphan.upload_tag, kTextMax);
  fields("backup", orphan.backup, kTextMax);
  fields("madeAt", orphan.made_at, kTextMax);
};

constexpr auto kLockFields = [](auto& fields, auto& figures) {
  fields("objects", figures.objects);
  fields("due", figures.due);
  fields("extended", figures.extended);
  fields("failed", figures.failed);
  fields("findings", figures.findings, CountMax{kCheckFindingsMax}, kTextMax);
  fields("requests", figures.requests);
  fields("earliest", figures.earliest, WholeSeconds());
};

constexpr auto kCheckFields = [](auto& fields, auto& figures) {
  fields("packs", figures.packs);
  fields("packsRead", figures.packs_read);
  fields("readBytes", figures.read_bytes);
  fields("snapshots", figures.snapshots);
  fields("errors", figures.errors);
  fields("findings", figures.findings, CountMax{kCheckFindingsMax}, kTextMax);
  fields("brokenSnapshots", figures.broken_snapshots);
  fields("brokenTags", figures.broken_tags, CountMax{kCheckTagsMax}, kTextMax);
  fields("orphansFound", figures.orphans_found);
  fields("orphans", figures.orphans, CountMax{kOrphansMax}, kOrphanFields);
  fields("damage", figures.damage, kRepositoryDamageFields);
  fields.IfSet("locks", figures.locks, kLockFields);
};

bool IsLockId(absl::string_view text) {
  return text.size() == kLockDigits && std::all_of(text.begin(), text.end(), absl::ascii_isxdigit);
}

constexpr auto kOutcomeFields = [](auto& fields, auto& outcome) {
  fields("code", outcome.code, kCodes);
  fields.OrNull("cause", outcome.cause, kCauses);
  fields.OrNull("message", outcome.message, BytesMax{kOutcomeMessageBytesMax});
  fields.OrNull("locks", outcome.locks, CountMax{kOutcomeLocksMax}, OnlyTexts{IsLockId});
  fields("backup", outcome.backup, kBackupFields);
  fields("restore", outcome.restore, kRestoreFields);
  // Not null elsewhere: a task of another kind never had one, and older CRDs do not know it.
  fields.IfSet("check", outcome.check, kCheckFields);
};

}  // namespace

bool IsPackId(absl::string_view text) { return IsLowerHex(text, kPackDigits); }

std::string ToString(OutcomeCode code) { return EnumName(kCodes, code); }

std::string ToString(OutcomeCause cause) { return EnumName(kCauses, cause); }

std::string FormatRestoredBytes(const RestoreFigures& figures) {
  return DumpJson(WriteFields(kRestoredBytesFields, figures));
}

RestoreFigures ParseRestoredBytes(absl::string_view text) {
  const absl::StatusOr<Json> json = ParseJsonObject(text);
  return ReadFields<RestoreFigures>(kRestoredBytesFields, json.ok() ? &*json : nullptr);
}

std::string ReasonText(const BackupFigures& figures) {
  return figures.reason_detail.empty() ? figures.reason
                                       : absl::StrCat(figures.reason, ": ", figures.reason_detail);
}

Json ToJson(const Outcome& outcome) { return WriteFields(kOutcomeFields, outcome); }

std::optional<Outcome> ReadOutcome(const Json& json) {
  if (!EnumValue(kCodes, GetString(json, {"code"})).has_value()) {
    return std::nullopt;
  }
  return ReadFields<Outcome>(kOutcomeFields, &json);
}

}  // namespace csidelta::objects
