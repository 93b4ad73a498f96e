#include "objects/data_deletion.h"

#include <algorithm>

#include "absl/strings/string_view.h"
#include "base/enum_names.h"
#include "base/rfc3339.h"

namespace csidelta::objects {
namespace {

constexpr EnumNames<DeletionPhase, 4> kDeletionPhases = {{
    {DeletionPhase::kWaiting, "Waiting"},
    {DeletionPhase::kInProgress, "InProgress"},
    {DeletionPhase::kCompleted, "Completed"},
    {DeletionPhase::kFailed, "Failed"},
}};

constexpr EnumNames<DeletionTrouble, 3> kTroubles = {{
    {DeletionTrouble::kLocked, "Locked"},
    {DeletionTrouble::kRetained, "Retained"},
    {DeletionTrouble::kFailed, "Failed"},
}};

Json TimeOrNull(const std::optional<absl::Time>& time) {
  return time.has_value() ? Json(FormatRfc3339(*time)) : Json();
}

std::vector<SeenLock> LocksIn(const Json& list) {
  std::vector<SeenLock> locks;
  for (const Json& lock : list) {
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

std::string ToString(DeletionTrouble trouble) { return EnumName(kTroubles, trouble); }

std::string ToString(DeletionPhase phase) { return EnumName(kDeletionPhases, phase); }

DataDeletionSpec DataDeletion::spec() const {
  return {.location = Text({"spec", "backupStorageLocation"}),
          .snapshot_id = Text({"spec", "snapshotID"}),
          .backup = Text({"spec", "backup"}),
          .upload = Text({"spec", "upload"}),
          .worker_ended = Flag({"spec", "workerEnded"})};
}

DeletionPhase DataDeletion::phase() const {
  return EnumValue(kDeletionPhases, Text({"status", "phase"})).value_or(DeletionPhase::kNone);
}

DataDeletionStatus DataDeletion::status() const {
  return {
      .phase = phase(),
      .message = Text({"status", "message"}),
      .trouble = EnumValue(kTroubles, Text({"status", "trouble"})).value_or(DeletionTrouble::kNone),
      .trouble_since = TimeAt({"status", "troubleSince"}),
      .locks = LocksIn(ArrayAt({"status", "locks"})),
      .attempts = std::max<int64_t>(0, Number({"status", "attempts"})),
      .started_at = TimeAt({"status", "startTimestamp"}),
      .next_attempt_at = TimeAt({"status", "nextAttemptTimestamp"}),
      .completed_at = TimeAt({"status", "completionTimestamp"})};
}

void DataDeletion::SetSpec(const DataDeletionSpec& spec) {
  Set({"spec"}, {{"backupStorageLocation", spec.location},
                 {"snapshotID", spec.snapshot_id},
                 {"backup", spec.backup},
                 {"upload", spec.upload},
                 {"workerEnded", spec.worker_ended}});
}

Json StatusJson(const DataDeletionStatus& status) {
  return {{"phase", ToString(status.phase)},
          {"message", status.message},
          {"trouble", ToString(status.trouble)},
          {"troubleSince", TimeOrNull(status.trouble_since)},
          {"locks", LocksJson(status.locks)},
          {"attempts", status.attempts},
          {"startTimestamp", TimeOrNull(status.started_at)},
          {"nextAttemptTimestamp", TimeOrNull(status.next_attempt_at)},
          {"completionTimestamp", TimeOrNull(status.completed_at)}};
}

}  // namespace csidelta::objects
