#include "datamover/data_deletion.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "csi/data_transfer.h"
#include "k8s/object.h"
#include "objects/keys.h"

namespace csidelta::datamover {
namespace {

constexpr std::array<std::pair<DeletionPhase, absl::string_view>, 4> kDeletionPhases = {{
    {DeletionPhase::kWaiting, "Waiting"},
    {DeletionPhase::kInProgress, "InProgress"},
    {DeletionPhase::kCompleted, "Completed"},
    {DeletionPhase::kFailed, "Failed"},
}};

constexpr std::array<std::pair<DeletionTrouble, absl::string_view>, 3> kTroubles = {{
    {DeletionTrouble::kLocked, "Locked"},
    {DeletionTrouble::kRetained, "Retained"},
    {DeletionTrouble::kFailed, "Failed"},
}};

constexpr std::size_t kSnapshotDigits = 64;

Json TimeOrNull(const std::optional<absl::Time>& time) {
  return time.has_value() ? Json(FormatRfc3339(*time)) : Json();
}

std::vector<SeenLock> LocksOf(const Json& object) {
  std::vector<SeenLock> locks;
  const Json* seen = FindJson(object, {"status", "locks"});
  if (seen == nullptr || !seen->is_array()) {
    return locks;
  }
  for (const Json& lock : *seen) {
    const std::optional<absl::Time> since = ParseRfc3339(GetString(lock, {"since"}));
    const std::optional<absl::Time> until = ParseRfc3339(GetString(lock, {"until"}));
    if (since.has_value() && until.has_value() && locks.size() < kLocksMax) {
      locks.push_back({.id = GetString(lock, {"id"}), .since = *since, .until = *until});
    }
  }
  return locks;
}

Json LocksJson(const std::vector<SeenLock>& locks) {
  Json list = Json::array();
  for (const SeenLock& lock : locks) {
    if (list.size() < kLocksMax) {
      list.push_back({{"id", lock.id},
                      {"since", FormatRfc3339(lock.since)},
                      {"until", FormatRfc3339(lock.until)}});
    }
  }
  return list;
}

}  // namespace

std::string ToString(DeletionTrouble trouble) {
  for (const auto& [known, name] : kTroubles) {
    if (known == trouble) {
      return std::string(name);
    }
  }
  return "";
}

std::string ToString(DeletionPhase phase) {
  for (const auto& [known, name] : kDeletionPhases) {
    if (known == phase) {
      return std::string(name);
    }
  }
  return "";
}

DataDeletion DataDeletionOf(const Json& object) {
  DataDeletion deletion;
  deletion.namespace_name = k8s::Namespace(object);
  deletion.name = k8s::Name(object);
  deletion.uid = k8s::Uid(object);
  deletion.being_deleted = k8s::BeingDeleted(object);
  deletion.created_at = k8s::CreatedAt(object);
  deletion.location = GetString(object, {"spec", "backupStorageLocation"});
  deletion.snapshot_id = GetString(object, {"spec", "snapshotID"});
  deletion.backup = GetString(object, {"spec", "backup"});
  deletion.upload = GetString(object, {"spec", "upload"});
  deletion.worker_ended = GetBool(object, {"spec", "workerEnded"});
  const std::string phase = GetString(object, {"status", "phase"});
  for (const auto& [known, name] : kDeletionPhases) {
    if (phase == name) {
      deletion.phase = known;
    }
  }
  deletion.message = GetString(object, {"status", "message"});
  const std::string trouble = GetString(object, {"status", "trouble"});
  for (const auto& [known, name] : kTroubles) {
    if (trouble == name) {
      deletion.trouble = known;
    }
  }
  deletion.trouble_since = ParseRfc3339(GetString(object, {"status", "troubleSince"}));
  deletion.locks = LocksOf(object);
  deletion.attempts = std::max<int64_t>(0, GetInt(object, {"status", "attempts"}));
  deletion.started_at = ParseRfc3339(GetString(object, {"status", "startTimestamp"}));
  deletion.next_attempt_at = ParseRfc3339(GetString(object, {"status", "nextAttemptTimestamp"}));
  deletion.completed_at = ParseRfc3339(GetString(object, {"status", "completionTimestamp"}));
  return deletion;
}

Json MakeDeletionOfUnnamed(const velero::DataTransfer& upload,
                           const velero::DataReference& reference, bool worker_ended) {
  velero::DataReference unnamed = reference;
  unnamed.snapshot_id = std::string(kSnapshotDigits, '0');
  const auto backup = upload.labels.find(objects::kBackupNameLabel);
  const std::string backup_name = backup == upload.labels.end() ? "" : backup->second;
  const k8s::ResourceType& type = csi::DataDeletionType();
  return {
      {"apiVersion", absl::StrCat(type.group, "/", type.version)},
      {"kind", type.kind},
      {"metadata",
       {{"name", absl::StrCat("unnamed-", upload.uid)},
        {"namespace", upload.namespace_name},
        {"labels",
         {{objects::kBackupNameLabel, backup_name}, {objects::kExcludeFromBackupLabel, "true"}}}}},
      {"spec",
       {{"backupStorageLocation", upload.storage_location},
        {"snapshotID", velero::FormatDataReference(unnamed)},
        {"backup", backup_name},
        {"upload", upload.uid},
        {"workerEnded", worker_ended}}}};
}

Json StatusJson(const DataDeletion& deletion) {
  return {{"phase", ToString(deletion.phase)},
          {"message", deletion.message},
          {"trouble", ToString(deletion.trouble)},
          {"troubleSince", TimeOrNull(deletion.trouble_since)},
          {"locks", LocksJson(deletion.locks)},
          {"attempts", deletion.attempts},
          {"startTimestamp", TimeOrNull(deletion.started_at)},
          {"nextAttemptTimestamp", TimeOrNull(deletion.next_attempt_at)},
          {"completionTimestamp", TimeOrNull(deletion.completed_at)}};
}

}  // namespace csidelta::datamover
