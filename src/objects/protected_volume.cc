#include "objects/protected_volume.h"

#include "absl/strings/str_cat.h"
#include "base/crypto.h"
#include "base/json_fields.h"
#include "objects/patch.h"

namespace csidelta::objects {
namespace {

constexpr std::size_t kNameDigits = 8;
// The schema's limits: an API server refuses what is longer.
constexpr BytesMax kRecordTextMax{1024};
constexpr CountMax kBrokenBackupsMax{100};

constexpr auto kVolumeSpecFields = [](auto& fields, auto& spec) {
  fields("namespace", spec.pvc_namespace);
  fields("pvc", spec.pvc);
  fields("pvcUID", spec.pvc_uid);
  fields("backupStorageLocation", spec.location);
};

constexpr auto kLastGoodFields = [](auto& fields, auto& backup) {
  fields("backup", backup.backup);
  fields("dataUploadUID", backup.upload);
  fields("snapshotID", backup.snapshot_id);
  fields("takenAt", backup.taken_at, WholeSeconds());
  fields("completedAt", backup.completed_at, WholeSeconds());
  fields("mode", backup.mode);
  fields("reason", backup.reason, kRecordTextMax);
  fields("logicalBytes", backup.logical_bytes);
  fields("changedBytes", backup.changed_bytes);
  fields("storedBytes", backup.stored_bytes);
};

constexpr auto kDeletedFields = [](auto& fields, auto& backup) {
  fields("backup", backup.backup);
  fields("dataUploadUID", backup.upload);
};

constexpr auto kAttemptFields = [](auto& fields, auto& attempt) {
  fields("backup", attempt.backup);
  fields("dataUploadUID", attempt.upload);
  fields("phase", attempt.phase);
  fields("at", attempt.at, WholeSeconds());
  fields("message", attempt.message, kRecordTextMax);
};

constexpr auto kBaseFields = [](auto& fields, auto& base) {
  fields("volumeSnapshotContent", base.content);
  fields("takenAt", base.taken_at, WholeSeconds());
};

constexpr auto kLockRenewalFields = [](auto& fields, auto& locks) {
  fields("mode", locks.mode);
  fields("days", locks.days);
  fields("renewedAt", locks.renewed_at, WholeSeconds());
  fields("lockedUntil", locks.locked_until, WholeSeconds());
  fields("objects", locks.objects);
  fields("extended", locks.extended);
  fields("finding", locks.finding, kRecordTextMax);
};

constexpr auto kVerificationFields = [](auto& fields, auto& verification) {
  fields("at", verification.at, WholeSeconds());
  fields("allSince", verification.all_since, WholeSeconds());
  fields("roundSince", verification.round_since, WholeSeconds());
  fields("readUntil", verification.read_until, WholeSeconds());
  fields("finding", verification.finding, kRecordTextMax);
  fields("brokenBackups", verification.broken_backups, kBrokenBackupsMax);
  fields("position", verification.position);
  fields("parts", verification.parts);
  fields("readBytes", verification.read_bytes);
  fields("orphanedSnapshots", verification.orphaned_snapshots);
  fields("orphans", verification.orphans, CountMax{kOrphansInRecordMax}, kRecordTextMax);
  fields("unattributedSnapshots", verification.unattributed_snapshots);
  fields("damage", verification.damage, kRepositoryDamageFields);
  fields("locks", verification.locks, kLockRenewalFields);
};

constexpr auto kSizeFields = [](auto& fields, auto& size) {
  fields("bytes", size.bytes);
  fields("snapshots", size.snapshots);
  fields("restoreMemoryBytes", size.restore_memory_bytes);
  fields("restoreScratchBytes", size.restore_scratch_bytes);
};

constexpr auto kLostDataFields = [](auto& fields, auto& lost) {
  fields("backup", lost.backup);
  fields("message", lost.message);
};

constexpr auto kVolumeStatusFields = [](auto& fields, auto& status) {
  fields("lastGoodBackup", status.last_good, kLastGoodFields);
  fields("deletedBackup", status.deleted_backup, kDeletedFields);
  fields("lastAttempt", status.last_attempt, kAttemptFields);
  fields("failures", status.failures);
  fields("base", status.base, kBaseFields);
  fields("verification", status.verification, kVerificationFields);
  fields("repository", status.repository, kSizeFields);
  fields("restoredAt", status.restored_at, WholeSeconds());
  fields("pvcGoneAt", status.pvc_gone_at, WholeSeconds());
  fields("lostData", status.lost_data, kLostDataFields);
  fields("nextStep", status.next_step);
};

}  // namespace

std::string ProtectedVolume::NameOf(absl::string_view pvc_uid, absl::string_view location) {
  return absl::StrCat(pvc_uid, "-", Sha256Hex(location).substr(0, kNameDigits));
}

ProtectedVolumeSpec ProtectedVolume::spec() const {
  return ReadFields<ProtectedVolumeSpec>(kVolumeSpecFields, Find({"spec"}));
}

void ProtectedVolume::SetSpec(const ProtectedVolumeSpec& spec) {
  Set({"spec"}, WriteFields(kVolumeSpecFields, spec));
}

void ProtectedVolume::ReduceToChecks() {
  Set({"status"}, PickAt("status", {"lastGoodBackup", "verification"}));
}

ProtectedVolumeStatus ProtectedVolume::status() const {
  return ReadFields<ProtectedVolumeStatus>(kVolumeStatusFields, Find({"status"}));
}

Patch& Patch::SetLastGood(const std::optional<LastGoodBackup>& backup) {
  return Set({"status", "lastGoodBackup"}, WriteFields(kLastGoodFields, backup));
}

Patch& Patch::SetDeletedBackup(const std::optional<DeletedBackup>& backup) {
  return Set({"status", "deletedBackup"}, WriteFields(kDeletedFields, backup));
}

Patch& Patch::SetLostData(const std::optional<LostData>& lost) {
  return Set({"status", "lostData"}, WriteFields(kLostDataFields, lost));
}

Patch& Patch::SetLastAttempt(const LastAttempt& attempt, int64_t failures) {
  Set({"status", "failures"}, failures);
  return Set({"status", "lastAttempt"}, WriteFields(kAttemptFields, attempt));
}

Patch& Patch::SetBase(const std::optional<VolumeBase>& base) {
  return Set({"status", "base"}, WriteFields(kBaseFields, base));
}

Patch& Patch::SetVerification(const Verification& verification) {
  return Set({"status", "verification"}, WriteFields(kVerificationFields, verification));
}

Patch& Patch::SetRepository(const RepositorySize& size) {
  return Set({"status", "repository"}, WriteFields(kSizeFields, size));
}

Patch& Patch::SetRestoredAt(absl::Time at) {
  return Set({"status", "restoredAt"}, JsonFieldWriter::Write(at, WholeSeconds()));
}

Patch& Patch::SetPvcGoneAt(std::optional<absl::Time> at) {
  return Set({"status", "pvcGoneAt"}, JsonFieldWriter::Write(at, WholeSeconds()));
}

Patch& Patch::SetNextStep(absl::string_view text) { return Set({"status", "nextStep"}, text); }

}  // namespace csidelta::objects
