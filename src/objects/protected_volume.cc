#include "objects/protected_volume.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/crypto.h"
#include "base/rfc3339.h"

namespace csidelta::objects {
namespace {

constexpr std::size_t kNameDigits = 8;
// The schema's limits: an API server refuses what is longer.
constexpr std::size_t kRecordTextBytesMax = 1024;
constexpr std::size_t kBrokenBackupsMax = 100;

Json SecondsOrNull(const std::optional<absl::Time>& time) {
  return time.has_value() ? Json(FormatRfc3339Seconds(*time)) : Json();
}

Json CountOrNull(const std::optional<int64_t>& count) {
  return count.has_value() ? Json(*count) : Json();
}

std::string CutRecordText(absl::string_view text) {
  return std::string(text.substr(0, kRecordTextBytesMax));
}

std::optional<absl::Time> TimeIn(const Json& json, absl::string_view field) {
  return ParseRfc3339(GetString(json, {field}));
}

int64_t CountIn(const Json& json, absl::string_view field) {
  return std::max<int64_t>(0, GetInt(json, {field}));
}

std::optional<int64_t> CountIfIn(const Json& json, absl::string_view field) {
  const int64_t count = GetInt(json, {field}, -1);
  return count < 0 ? std::nullopt : std::optional(count);
}

LastGoodBackup ReadLastGood(const Json& json) {
  return {.backup = GetString(json, {"backup"}),
          .upload = GetString(json, {"dataUploadUID"}),
          .snapshot_id = GetString(json, {"snapshotID"}),
          .taken_at = TimeIn(json, "takenAt"),
          .completed_at = TimeIn(json, "completedAt"),
          .mode = GetString(json, {"mode"}),
          .reason = GetString(json, {"reason"}),
          .logical_bytes = CountIn(json, "logicalBytes"),
          .changed_bytes = CountIn(json, "changedBytes"),
          .stored_bytes = CountIn(json, "storedBytes")};
}

LastAttempt ReadLastAttempt(const Json& json) {
  return {.backup = GetString(json, {"backup"}),
          .upload = GetString(json, {"dataUploadUID"}),
          .phase = GetString(json, {"phase"}),
          .at = TimeIn(json, "at"),
          .message = GetString(json, {"message"})};
}

Verification ReadVerification(const Json& json) {
  Verification verification{.at = TimeIn(json, "at"),
                            .all_since = TimeIn(json, "allSince"),
                            .round_since = TimeIn(json, "roundSince"),
                            .read_until = TimeIn(json, "readUntil"),
                            .finding = GetString(json, {"finding"}),
                            .broken_backups = {},
                            .position = CountIn(json, "position"),
                            .parts = CountIn(json, "parts"),
                            .read_bytes = CountIn(json, "readBytes"),
                            .orphaned_snapshots = CountIn(json, "orphanedSnapshots"),
                            .orphans = {},
                            .unattributed_snapshots = CountIn(json, "unattributedSnapshots")};
  for (const Json& backup : JsonArrayAt(json, {"brokenBackups"})) {
    if (backup.is_string()) {
      verification.broken_backups.push_back(backup);
    }
  }
  for (const Json& orphan : JsonArrayAt(json, {"orphans"})) {
    if (orphan.is_string()) {
      verification.orphans.push_back(orphan);
    }
  }
  return verification;
}

}  // namespace

std::string ProtectedVolume::NameOf(absl::string_view pvc_uid, absl::string_view location) {
  return absl::StrCat(pvc_uid, "-", Sha256Hex(location).substr(0, kNameDigits));
}

ProtectedVolumeSpec ProtectedVolume::spec() const {
  return {.pvc_namespace = Text({"spec", "namespace"}),
          .pvc = Text({"spec", "pvc"}),
          .pvc_uid = Text({"spec", "pvcUID"}),
          .location = Text({"spec", "backupStorageLocation"})};
}

void ProtectedVolume::SetSpec(const ProtectedVolumeSpec& spec) {
  Set({"spec"}, {{"namespace", spec.pvc_namespace},
                 {"pvc", spec.pvc},
                 {"pvcUID", spec.pvc_uid},
                 {"backupStorageLocation", spec.location}});
}

ProtectedVolumeStatus ProtectedVolume::status() const {
  ProtectedVolumeStatus status{.failures = std::max<int64_t>(0, Number({"status", "failures"})),
                               .restored_at = TimeAt({"status", "restoredAt"}),
                               .pvc_gone_at = TimeAt({"status", "pvcGoneAt"}),
                               .next_step = Text({"status", "nextStep"})};
  if (const Json* const backup = Find({"status", "lastGoodBackup"}); backup != nullptr) {
    status.last_good = ReadLastGood(*backup);
  }
  if (const Json* const deleted = Find({"status", "deletedBackup"}); deleted != nullptr) {
    status.deleted_backup = {.backup = GetString(*deleted, {"backup"}),
                             .upload = GetString(*deleted, {"dataUploadUID"})};
  }
  if (const Json* const attempt = Find({"status", "lastAttempt"}); attempt != nullptr) {
    status.last_attempt = ReadLastAttempt(*attempt);
  }
  if (const Json* const base = Find({"status", "base"}); base != nullptr) {
    status.base = {.content = GetString(*base, {"volumeSnapshotContent"}),
                   .taken_at = TimeIn(*base, "takenAt")};
  }
  if (const Json* const found = Find({"status", "verification"}); found != nullptr) {
    status.verification = ReadVerification(*found);
  }
  if (const Json* const size = Find({"status", "repository"}); size != nullptr) {
    status.repository = {.bytes = CountIfIn(*size, "bytes"),
                         .snapshots = CountIfIn(*size, "snapshots")};
  }
  return status;
}

Json ToJson(const LastGoodBackup& backup) {
  return {{"backup", backup.backup},
          {"dataUploadUID", backup.upload},
          {"snapshotID", backup.snapshot_id},
          {"takenAt", SecondsOrNull(backup.taken_at)},
          {"completedAt", SecondsOrNull(backup.completed_at)},
          {"mode", backup.mode},
          {"reason", CutRecordText(backup.reason)},
          {"logicalBytes", backup.logical_bytes},
          {"changedBytes", backup.changed_bytes},
          {"storedBytes", backup.stored_bytes}};
}

Json ToJson(const DeletedBackup& backup) {
  return {{"backup", backup.backup}, {"dataUploadUID", backup.upload}};
}

Json ToJson(const LastAttempt& attempt) {
  return {{"backup", attempt.backup},
          {"dataUploadUID", attempt.upload},
          {"phase", attempt.phase},
          {"at", SecondsOrNull(attempt.at)},
          {"message", CutRecordText(attempt.message)}};
}

Json ToJson(const VolumeBase& base) {
  return {{"volumeSnapshotContent", base.content}, {"takenAt", SecondsOrNull(base.taken_at)}};
}

Json ToJson(const Verification& verification) {
  Json broken = Json::array();
  for (const std::string& backup : verification.broken_backups) {
    if (broken.size() < kBrokenBackupsMax) {
      broken.push_back(backup);
    }
  }
  Json orphans = Json::array();
  for (const std::string& orphan : verification.orphans) {
    if (orphans.size() < kOrphansInRecordMax) {
      orphans.push_back(CutRecordText(orphan));
    }
  }
  return {{"at", SecondsOrNull(verification.at)},
          {"allSince", SecondsOrNull(verification.all_since)},
          {"roundSince", SecondsOrNull(verification.round_since)},
          {"readUntil", SecondsOrNull(verification.read_until)},
          {"finding", CutRecordText(verification.finding)},
          {"brokenBackups", std::move(broken)},
          {"position", verification.position},
          {"parts", verification.parts},
          {"readBytes", verification.read_bytes},
          {"orphanedSnapshots", verification.orphaned_snapshots},
          {"orphans", std::move(orphans)},
          {"unattributedSnapshots", verification.unattributed_snapshots}};
}

Json ToJson(const RepositorySize& size) {
  return {{"bytes", CountOrNull(size.bytes)}, {"snapshots", CountOrNull(size.snapshots)}};
}

}  // namespace csidelta::objects
