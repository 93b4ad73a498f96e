#include "objects/data_deletion.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/string_view.h"
#include "base/rfc3339.h"

namespace csidelta::objects {
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

// Of what is in none of the tables: kNone.
template <typename Table>
auto ValueOf(const Table& table, absl::string_view text) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [text](const auto& known) { return known.second == text; });
  return found == table.end() ? typename Table::value_type::first_type() : found->first;
}

template <typename Table, typename Value>
std::string TextOf(const Table& table, Value value) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [value](const auto& known) { return known.first == value; });
  return found == table.end() ? "" : std::string(found->second);
}

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

std::string ToString(DeletionTrouble trouble) { return TextOf(kTroubles, trouble); }

std::string ToString(DeletionPhase phase) { return TextOf(kDeletionPhases, phase); }

DataDeletionSpec DataDeletion::spec() const {
  return {.location = Text({"spec", "backupStorageLocation"}),
          .snapshot_id = Text({"spec", "snapshotID"}),
          .backup = Text({"spec", "backup"}),
          .upload = Text({"spec", "upload"}),
          .worker_ended = Flag({"spec", "workerEnded"})};
}

DeletionPhase DataDeletion::phase() const {
  return ValueOf(kDeletionPhases, Text({"status", "phase"}));
}

DataDeletionStatus DataDeletion::status() const {
  return {.phase = phase(),
          .message = Text({"status", "message"}),
          .trouble = ValueOf(kTroubles, Text({"status", "trouble"})),
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
