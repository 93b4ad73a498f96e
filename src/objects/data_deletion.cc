#include "objects/data_deletion.h"

#include "base/enum_names.h"
#include "base/json_fields.h"
#include "objects/patch.h"

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

constexpr auto kDeletionSpecFields = [](auto& fields, auto& spec) {
  fields("backupStorageLocation", spec.location);
  fields("snapshotID", spec.snapshot_id);
  fields("backup", spec.backup);
  fields("upload", spec.upload);
  fields("workerEnded", spec.worker_ended);
};

constexpr auto kSeenLockFields = [](auto& fields, auto& lock) {
  fields("id", lock.id);
  fields("since", lock.since);
  fields("until", lock.until);
};

constexpr auto kDeletionStatusFields = [](auto& fields, auto& status) {
  fields("phase", status.phase, kDeletionPhases);
  fields("message", status.message);
  fields("trouble", status.trouble, kTroubles);
  fields("troubleSince", status.trouble_since);
  fields("locks", status.locks, CountMax{kLocksMax}, kSeenLockFields);
  fields("attempts", status.attempts);
  fields("startTimestamp", status.started_at);
  fields("nextAttemptTimestamp", status.next_attempt_at);
  fields("completionTimestamp", status.completed_at);
};

}  // namespace

std::string ToString(DeletionTrouble trouble) { return EnumName(kTroubles, trouble); }

std::string ToString(DeletionPhase phase) { return EnumName(kDeletionPhases, phase); }

DataDeletionSpec DataDeletion::spec() const {
  return ReadFields<DataDeletionSpec>(kDeletionSpecFields, Find({"spec"}));
}

void DataDeletion::SetSpec(const DataDeletionSpec& spec) {
  Set({"spec"}, WriteFields(kDeletionSpecFields, spec));
}

DeletionPhase DataDeletion::phase() const {
  return EnumValue(kDeletionPhases, Text({"status", "phase"})).value_or(DeletionPhase::kNone);
}

DataDeletionStatus DataDeletion::status() const {
  auto status = ReadFields<DataDeletionStatus>(kDeletionStatusFields, Find({"status"}));
  std::erase_if(status.locks, [](const SeenLock& lock) {
    return lock.since == absl::InfinitePast() || lock.until == absl::InfinitePast();
  });
  return status;
}

Patch& Patch::SetStatus(const DataDeletionStatus& status) {
  return Set({"status"}, WriteFields(kDeletionStatusFields, status));
}

}  // namespace csidelta::objects
