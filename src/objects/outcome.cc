#include "objects/outcome.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/enum_names.h"
#include "base/json_field.h"
#include "objects/object.h"

namespace csidelta::objects {
namespace {

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

constexpr JsonField<BackupFigures, std::string> kBackupTexts[] = {
    {"snapshotID", &BackupFigures::snapshot_id},
    {"mode", &BackupFigures::mode},
    {"reason", &BackupFigures::reason},
    {"reasonDetail", &BackupFigures::reason_detail},
    {"base", &BackupFigures::base},
};
constexpr JsonField<BackupFigures, int64_t> kBackupCounts[] = {
    {"logicalBytes", &BackupFigures::logical_bytes},
    {"changedBytes", &BackupFigures::changed_bytes},
    {"readBytes", &BackupFigures::read_bytes},
    {"auditBytes", &BackupFigures::audit_bytes},
    {"storedBytes", &BackupFigures::stored_bytes},
    {"retries", &BackupFigures::retries},
    {"durationMs", &BackupFigures::duration_ms},
    {"auditMs", &BackupFigures::audit_ms},
    {"peakMemoryBytes", &BackupFigures::peak_memory_bytes},
};
constexpr JsonField<BackupFigures, std::optional<int64_t>> kBackupMeasures[] = {
    {"repositoryBytes", &BackupFigures::repository_bytes},
    {"repositorySnapshots", &BackupFigures::repository_snapshots},
};
constexpr JsonField<RestoreFigures, std::string> kRestoreTexts[] = {
    {"fileSystem", &RestoreFigures::file_system},
};
constexpr JsonField<RestoreFigures, int64_t> kRestoreCounts[] = {
    {"logicalBytes", &RestoreFigures::logical_bytes},
    {"comparedBytes", &RestoreFigures::compared_bytes},
    {"writtenBytes", &RestoreFigures::written_bytes},
    {"zeroBytes", &RestoreFigures::zero_bytes},
    {"keptBytes", &RestoreFigures::kept_bytes},
};
constexpr JsonField<CheckFigures, int64_t> kCheckCounts[] = {
    {"packs", &CheckFigures::packs},
    {"packsRead", &CheckFigures::packs_read},
    {"readBytes", &CheckFigures::read_bytes},
    {"snapshots", &CheckFigures::snapshots},
    {"errors", &CheckFigures::errors},
    {"brokenSnapshots", &CheckFigures::broken_snapshots},
    {"orphansFound", &CheckFigures::orphans_found},
};

constexpr JsonField<OrphanedSnapshot, std::string> kOrphanTexts[] = {
    {"snapshotID", &OrphanedSnapshot::id},
    {"tag", &OrphanedSnapshot::upload_tag},
    {"backup", &OrphanedSnapshot::backup},
    {"madeAt", &OrphanedSnapshot::made_at},
};

// Cut between two characters.
std::string Cut(const std::string& text, std::size_t bytes_max) {
  std::size_t end = std::min(text.size(), bytes_max);
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
    --end;
  }
  return text.substr(0, end);
}

template <typename Figures>
void ReadFields(const Json& json, Figures& figures,
                absl::Span<const JsonField<Figures, std::string>> texts,
                absl::Span<const JsonField<Figures, int64_t>> counts) {
  for (const auto& [name, member] : texts) {
    figures.*member = Cut(GetString(json, {name}), kOutcomeTextBytesMax);
  }
  for (const auto& [name, member] : counts) {
    figures.*member = std::max<int64_t>(0, GetInt(json, {name}));
  }
}

template <typename Figures>
Json WriteFields(const Figures& figures, absl::Span<const JsonField<Figures, std::string>> texts,
                 absl::Span<const JsonField<Figures, int64_t>> counts) {
  Json json = Json::object();
  for (const auto& [name, member] : texts) {
    json[name] = Cut(figures.*member, kOutcomeTextBytesMax);
  }
  for (const auto& [name, member] : counts) {
    json[name] = figures.*member;
  }
  return json;
}

Json FiguresJson(const BackupFigures& figures) {
  Json json = WriteFields<BackupFigures>(figures, kBackupTexts, kBackupCounts);
  for (const auto& [name, member] : kBackupMeasures) {
    const std::optional<int64_t>& measure = figures.*member;
    json[name] = measure.has_value() ? Json(*measure) : Json();
  }
  return json;
}

BackupFigures ReadBackup(const Json& json) {
  BackupFigures figures;
  ReadFields<BackupFigures>(json, figures, kBackupTexts, kBackupCounts);
  for (const auto& [name, member] : kBackupMeasures) {
    if (const int64_t measure = GetInt(json, {name}, -1); measure >= 0) {
      figures.*member = measure;
    }
  }
  return figures;
}

RestoreFigures ReadRestore(const Json& json) {
  RestoreFigures figures;
  ReadFields<RestoreFigures>(json, figures, kRestoreTexts, kRestoreCounts);
  return figures;
}

std::vector<std::string> CutAll(const std::vector<std::string>& texts, std::size_t count_max) {
  std::vector<std::string> all;
  all.reserve(std::min(texts.size(), count_max));
  for (const std::string& text : texts) {
    if (all.size() < count_max) {
      all.push_back(Cut(text, kOutcomeTextBytesMax));
    }
  }
  return all;
}

std::vector<std::string> TextsIn(const Json& json, const char* name, std::size_t count_max) {
  std::vector<std::string> texts;
  for (const Json& text : JsonArrayAt(json, {name})) {
    if (text.is_string() && texts.size() < count_max) {
      texts.push_back(Cut(text.get_ref<const std::string&>(), kOutcomeTextBytesMax));
    }
  }
  return texts;
}

Json FiguresJson(const CheckFigures& figures) {
  Json json = WriteFields<CheckFigures>(figures, {}, kCheckCounts);
  json["findings"] = CutAll(figures.findings, kCheckFindingsMax);
  json["brokenTags"] = CutAll(figures.broken_tags, kCheckTagsMax);
  Json orphans = Json::array();
  for (const OrphanedSnapshot& orphan : figures.orphans) {
    if (orphans.size() < kOrphansMax) {
      orphans.push_back(WriteFields<OrphanedSnapshot>(orphan, kOrphanTexts, {}));
    }
  }
  json["orphans"] = std::move(orphans);
  return json;
}

CheckFigures ReadCheck(const Json& json) {
  CheckFigures figures;
  ReadFields<CheckFigures>(json, figures, {}, kCheckCounts);
  figures.findings = TextsIn(json, "findings", kCheckFindingsMax);
  figures.broken_tags = TextsIn(json, "brokenTags", kCheckTagsMax);
  for (const Json& orphan : JsonArrayAt(json, {"orphans"})) {
    if (figures.orphans.size() < kOrphansMax) {
      ReadFields<OrphanedSnapshot>(orphan, figures.orphans.emplace_back(), kOrphanTexts, {});
    }
  }
  return figures;
}

bool IsLockId(absl::string_view text) {
  return text.size() == kLockDigits && std::all_of(text.begin(), text.end(), absl::ascii_isxdigit);
}

std::vector<std::string> ReadLocks(const Json& json) {
  std::vector<std::string> locks;
  const Json* names = FindJson(json, {"locks"});
  if (names == nullptr || !names->is_array()) {
    return locks;
  }
  for (const Json& name : *names) {
    const std::string id = name.is_string() ? name.get<std::string>() : "";
    if (IsLockId(id) && locks.size() < kOutcomeLocksMax) {
      locks.push_back(id);
    }
  }
  return locks;
}

}  // namespace

std::string ToString(OutcomeCode code) { return EnumName(kCodes, code); }

std::string ToString(OutcomeCause cause) { return EnumName(kCauses, cause); }

Json ToJson(const Outcome& outcome) {
  Json json = {{"code", ToString(outcome.code)},
               {"cause", nullptr},
               {"message", nullptr},
               {"locks", nullptr},
               {"backup", nullptr},
               {"restore", nullptr}};
  if (outcome.cause != OutcomeCause::kNone) {
    json["cause"] = ToString(outcome.cause);
  }
  if (!outcome.message.empty()) {
    json["message"] = Cut(outcome.message, kOutcomeMessageBytesMax);
  }
  if (!outcome.locks.empty()) {
    const std::size_t count = std::min(outcome.locks.size(), kOutcomeLocksMax);
    json["locks"] = std::vector<std::string>(outcome.locks.begin(), outcome.locks.begin() + count);
  }
  if (outcome.backup.has_value()) {
    json["backup"] = FiguresJson(*outcome.backup);
  }
  if (outcome.restore.has_value()) {
    json["restore"] = WriteFields<RestoreFigures>(*outcome.restore, kRestoreTexts, kRestoreCounts);
  }
  // Not null elsewhere: a task of another kind never had one, and older CRDs do not know it.
  if (outcome.check.has_value()) {
    json["check"] = FiguresJson(*outcome.check);
  }
  return json;
}

std::optional<Outcome> ReadOutcome(const Json& json) {
  const std::optional<OutcomeCode> code = EnumValue(kCodes, GetString(json, {"code"}));
  if (!code.has_value()) {
    return std::nullopt;
  }
  Outcome outcome{
      .code = *code,
      .cause = EnumValue(kCauses, GetString(json, {"cause"})).value_or(OutcomeCause::kNone),
      .message = Cut(GetString(json, {"message"}), kOutcomeMessageBytesMax),
      .locks = ReadLocks(json)};
  if (const Json* backup = FindJson(json, {"backup"}); backup != nullptr && backup->is_object()) {
    outcome.backup = ReadBackup(*backup);
  }
  if (const Json* restore = FindJson(json, {"restore"});
      restore != nullptr && restore->is_object()) {
    outcome.restore = ReadRestore(*restore);
  }
  if (const Json* check = FindJson(json, {"check"}); check != nullptr && check->is_object()) {
    outcome.check = ReadCheck(*check);
  }
  return outcome;
}

}  // namespace csidelta::objects
