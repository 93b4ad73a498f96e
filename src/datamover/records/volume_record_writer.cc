#include "datamover/records/volume_record_writer.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/human_text.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "datamover/records/restored_pvcs.h"
#include "datamover/transfer_object.h"
#include "datamover/worker/worker_pod.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/data_transfer.h"
#include "objects/keys.h"
#include "objects/outcome.h"
#include "objects/persistent_volume.h"
#include "velero/data_reference.h"

namespace csidelta::datamover {
namespace {

using objects::DataPhase;
using objects::LastAttempt;
using objects::LastGoodBackup;
using objects::ProtectedVolume;
using objects::ProtectedVolumeSpec;

// Below what the schema of the record allows, which has no use for more.
constexpr std::size_t kRecordTextBytesMax = 1000;
constexpr std::size_t kModeBytesMax = 63;
// Uploads that failed in a row, after the last good one, and are still counted one by one.
constexpr std::size_t kFailedMax = 1000;
constexpr absl::Duration kSyncedAskedEvery = absl::Milliseconds(500);
constexpr absl::Duration kIdleMax = absl::Minutes(1);

// As a record keeps it.
absl::Time WholeSeconds(absl::Time time) {
  return absl::FromUnixSeconds(absl::ToUnixSeconds(time));
}

std::string BackupNameOf(const objects::DataUpload& upload) {
  const std::string owner = OwningBackupOf(upload);
  return owner.empty() ? upload.Label(objects::kBackupNameLabel) : owner;
}

// Of the PVC: Velero labels DataUploads with it, and what was stored names it. "" where neither
// does.
std::string PvcUidOf(const objects::DataUpload& upload) {
  if (!upload.pvc_uid().empty()) {
    return velero::IsUid(upload.pvc_uid()) ? upload.pvc_uid() : "";
  }
  const absl::StatusOr<velero::DataReference> reference =
      velero::ParseDataReference(upload.snapshot_id());
  return reference.ok() ? reference->claim_uid : "";
}

VolumeRecordKey KeyOf(absl::string_view velero_namespace, absl::string_view pvc_uid,
                      absl::string_view location) {
  return {std::string(velero_namespace), ProtectedVolume::NameOf(pvc_uid, location)};
}

LastGoodBackup GoodBackupIn(const objects::DataUpload& object, absl::Time completed_at) {
  std::optional<absl::Time> taken_at =
      ParseRfc3339(object.Annotation(objects::kMoverTakenAtAnnotation));
  if (!taken_at.has_value()) {
    taken_at = object.created_at();
  }
  const objects::BackupFigures figures = object.figures();
  return {.backup = BackupNameOf(object),
          .upload = object.uid(),
          .snapshot_id = CutText(object.snapshot_id(), kRecordTextBytesMax),
          .taken_at = taken_at,
          .completed_at = completed_at,
          .mode = CutText(figures.mode, kModeBytesMax),
          .reason = CutText(objects::ReasonText(figures), kRecordTextBytesMax),
          .logical_bytes = figures.logical_bytes,
          .changed_bytes = figures.changed_bytes,
          .stored_bytes = figures.stored_bytes};
}

std::pair<absl::Time, std::string> EndOf(const std::optional<LastGoodBackup>& good) {
  return good.has_value()
             ? std::pair(good->completed_at.value_or(absl::InfinitePast()), good->upload)
             : std::pair(absl::InfinitePast(), std::string());
}

std::pair<absl::Time, std::string> EndOf(const std::optional<LastAttempt>& attempt) {
  return attempt.has_value()
             ? std::pair(attempt->at.value_or(absl::InfinitePast()), attempt->upload)
             : std::pair(absl::InfinitePast(), std::string());
}

// Spread over the time between two looks.
absl::Duration FirstCheckOf(const VolumeRecordKey& key) {
  constexpr std::size_t kParts = 3600;
  return kRecordPvcEvery * (static_cast<double>(std::hash<std::string>()(key.second) % kParts) /
                            static_cast<double>(kParts));
}

// The backup that is the last good one when a loss is first seen is remembered with it.
void MergeLostData(const objects::PersistentVolumeClaim& pvc, ProtectedVolumeRecord& record,
                   objects::Patch& patch) {
  std::optional<objects::LostData>& known = record.status.lost_data;
  const std::string loss = pvc.lost_data();
  if (known.has_value() == !loss.empty()) {
    return;
  }
  known.reset();
  if (!loss.empty()) {
    known = {.backup = record.status.last_good.value_or(LastGoodBackup()).backup,
             .message = CutText(loss, kRecordTextBytesMax)};
  }
  patch.SetLostData(known);
}

}  // namespace

VolumeRecordWriter::VolumeRecordWriter(const MoverEnvironment& env, VolumeRecords& records,
                                       Seams seams)
    : env_(env), records_(records), rules_(env.settings.records), seams_(std::move(seams)) {}

template <typename Change>
void VolumeRecordWriter::RecordChange(const VolumeRecordKey& key, const Change& change) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end() && entries_.size() >= kVolumeRecordsMax) {
    return;
  }
  Entry& entry = found == entries_.end() ? entries_[key] : found->second;
  if (entry.pending == nullptr) {
    entry.pending = std::make_unique<Pending>();
  }
  change(*entry.pending);
  ++entry.pending->version;
  Schedule(key, entry, absl::ZeroDuration());
}

void VolumeRecordWriter::Record(const objects::DataUpload& object) {
  if (!object.Validate().ok() || !object.is_managed() || object.known_phase() == DataPhase::kNew ||
      object.known_phase() == DataPhase::kUnknown) {
    return;
  }
  const ProtectedVolumeSpec spec{.pvc_namespace = object.source_namespace(),
                                 .pvc = object.source_pvc(),
                                 .pvc_uid = PvcUidOf(object),
                                 .location = object.storage_location()};
  const std::optional<absl::Time> completed_at = object.completed_at();
  if (spec.pvc_uid.empty() || (object.is_over() && !completed_at.has_value())) {
    return;
  }
  RecordChange(KeyOf(object.namespace_name(), spec.pvc_uid, spec.location), [&](Pending& pending) {
    pending.spec = spec;
    if (!object.is_over()) {
      return;
    }
    const EndKey end(WholeSeconds(*completed_at), object.uid());
    if (end > EndOf(pending.attempt)) {
      pending.attempt = {.backup = BackupNameOf(object),
                         .upload = end.second,
                         .phase = objects::ToString(object.known_phase()),
                         .at = end.first,
                         .message = CutText(object.message(), kRecordTextBytesMax)};
    }
    if (object.known_phase() == DataPhase::kCompleted && end > EndOf(pending.good)) {
      pending.good = GoodBackupIn(object, end.first);
      const objects::BackupFigures figures = object.figures();
      pending.repository = {.bytes = figures.repository_bytes,
                            .snapshots = figures.repository_snapshots};
      const int64_t restored_bytes =
          std::max(pending.good->logical_bytes, pending.repository.bytes.value_or(0));
      pending.repository.restore_memory_bytes = RestoreMemoryBytesFor(restored_bytes);
      pending.repository.restore_scratch_bytes = ScratchBytesFor(restored_bytes);
      pending.failed.erase(pending.failed.begin(), pending.failed.upper_bound(end));
    }
    if (object.known_phase() == DataPhase::kFailed && end > EndOf(pending.good) &&
        pending.failed.size() < kFailedMax) {
      pending.failed.insert(end);
    }
  });
}

void VolumeRecordWriter::Record(const objects::DataDownload& object) {
  const std::optional<absl::Time> completed_at = object.completed_at();
  if (!object.Validate().ok() || !object.is_managed() ||
      object.known_phase() != DataPhase::kCompleted || !completed_at.has_value()) {
    return;
  }
  const absl::StatusOr<velero::DataReference> source =
      velero::ParseDataReference(object.moved_snapshot());
  if (!source.ok()) {
    return;
  }
  std::vector<VolumeRecordKey> keys = KeysOf(object.moved_snapshot());
  if (keys.empty()) {
    keys.push_back(KeyOf(object.namespace_name(), source->claim_uid, object.storage_location()));
  }
  for (const VolumeRecordKey& key : keys) {
    RecordChange(key, [&](Pending& pending) {
      pending.restored_at =
          std::max(pending.restored_at.value_or(absl::InfinitePast()), WholeSeconds(*completed_at));
    });
  }
}

std::vector<VolumeRecordKey> VolumeRecordWriter::KeysOf(absl::string_view snapshot_id) const {
  std::vector<VolumeRecordKey> keys;
  records_.ForEach([&](const ProtectedVolumeRecord& record) {
    if (record.status.last_good.has_value() &&
        record.status.last_good->snapshot_id == snapshot_id) {
      keys.emplace_back(record.velero_namespace, record.name);
    }
  });
  return keys;
}

void VolumeRecordWriter::Record(const objects::DataDeletion& deletion) {
  if (deletion.phase() != objects::DeletionPhase::kCompleted) {
    return;
  }
  const objects::DataDeletionSpec spec = deletion.spec();
  const absl::StatusOr<velero::DataReference> data = velero::ParseDataReference(spec.snapshot_id);
  if (data.ok() && spec.upload.empty()) {
    Enqueue(KeyOf(deletion.namespace_name(), data->claim_uid, spec.location));
    absl::c_for_each(KeysOf(spec.snapshot_id), [this](const auto& key) { Enqueue(key); });
  }
}

void VolumeRecordWriter::Enqueue(const VolumeRecordKey& key) {
  const MutexLock lock(mutex_);
  Schedule(key, entries_[key], absl::ZeroDuration());
}

void VolumeRecordWriter::Schedule(const VolumeRecordKey& key, Entry& entry, absl::Duration due) {
  if (due >= entry.due) {
    return;
  }
  queue_.erase({entry.due, key});
  entry.due = due;
  queue_.insert({due, key});
  changed_.notify_all();
}

std::optional<VolumeRecordWriter::Taken> VolumeRecordWriter::Take(absl::Duration now) {
  const MutexLock lock(mutex_);
  if (queue_.empty() || queue_.begin()->first > now) {
    return std::nullopt;
  }
  Taken taken{.key = queue_.begin()->second, .pending = {}, .is_pvc_due = false};
  queue_.erase(queue_.begin());
  Entry& entry = entries_[taken.key];
  entry.due = absl::InfiniteDuration();
  if (entry.pvc_due == absl::InfiniteDuration()) {
    entry.pvc_due = now + FirstCheckOf(taken.key);
  }
  if (entry.pending != nullptr) {
    taken.pending = *entry.pending;
  }
  taken.is_pvc_due = entry.pvc_due <= now;
  return taken;
}

void VolumeRecordWriter::Settle(const Taken& taken, bool is_written, absl::Duration now) {
  const bool is_there = records_.Find(taken.key).has_value();
  const MutexLock lock(mutex_);
  const auto found = entries_.find(taken.key);
  if (found == entries_.end()) {
    return;
  }
  Entry& entry = found->second;
  if (is_written && entry.pending != nullptr && entry.pending->version == taken.pending.version) {
    entry.pending = nullptr;
  }
  if (taken.is_pvc_due) {
    entry.pvc_due = now + kRecordPvcEvery;
  }
  if (!is_there && entry.pending == nullptr) {
    queue_.erase({entry.due, taken.key});
    entries_.erase(found);
    return;
  }
  Schedule(taken.key, entry, is_written ? entry.pvc_due : now + kRecordWriteAgain);
}

void VolumeRecordWriter::WorkOnce(const CallContext& ctx) {
  heartbeat_.Beat(*ctx.clock);
  if (!seams_.is_synced()) {
    return;
  }
  while (ctx.Check().ok()) {
    heartbeat_.Beat(*ctx.clock);
    const std::optional<Taken> taken = Take(ctx.clock->Uptime());
    if (!taken.has_value()) {
      return;
    }
    const absl::StatusOr<WriteResult> outcome = WriteOne(ctx, *taken);
    if (!outcome.ok()) {
      CSIDELTA_LOG(kWarn, "the record of a volume was not written; trying again",
                   {"namespace", taken->key.first}, {"name", taken->key.second},
                   {"error", std::string(outcome.status().message())});
    }
    Settle(*taken, outcome.ok() && outcome->is_written, ctx.clock->Uptime());
    if (!outcome.ok() || outcome->has_asked) {
      ctx.clock->SleepFor(kRecordWriteEvery, ctx.stop);
    }
  }
}

void VolumeRecordWriter::Work(const CallContext& ctx) {
  while (ctx.Check().ok()) {
    WorkOnce(ctx);
    const bool is_synced = seams_.is_synced();
    const absl::Duration now = ctx.clock->Uptime();
    MutexLock lock(mutex_);
    const absl::Duration wait = !is_synced       ? kSyncedAskedEvery
                                : queue_.empty() ? kIdleMax
                                                 : std::min(kIdleMax, queue_.begin()->first - now);
    changed_.wait_for(lock, ctx.stop, absl::ToChronoMilliseconds(wait),
                      [this, is_synced, now]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                        return is_synced && !queue_.empty() && queue_.begin()->first <= now;
                      });
  }
}

absl::StatusOr<VolumeRecordWriter::WriteResult> VolumeRecordWriter::WriteOne(const CallContext& ctx,
                                                                             const Taken& taken) {
  std::optional<ProtectedVolumeRecord> record = records_.Find(taken.key);
  const bool leads = seams_.leads();
  WriteResult outcome;
  if (!record.has_value()) {
    if (taken.pending.spec.pvc_uid.empty() || !leads) {
      return WriteResult{.is_written = taken.pending.spec.pvc_uid.empty(), .has_asked = false};
    }
    outcome.has_asked = true;
    ASSIGN_OR_RETURN(record, Make(ctx, taken));
    if (!record.has_value()) {
      return outcome;
    }
  }
  const absl::Time now = ctx.clock->Now();
  Pending pending = taken.pending;
  DropDeleted(*record, pending);
  objects::Patch patch = Merge(pending, *record);
  if (leads) {
    ASSIGN_OR_RETURN(const bool is_gone, IsLastGoodGone(ctx, taken, *record));
    if (is_gone) {
      outcome.has_asked = true;
      RETURN_IF_ERROR(FallBack(ctx, *record, patch));
    }
  }
  std::optional<absl::Time>& gone_at = record->status.pvc_gone_at;
  if (leads && taken.is_pvc_due && !gone_at.has_value()) {
    outcome.has_asked = true;
    ASSIGN_OR_RETURN(const auto pvc, ReadPvc(ctx, record->spec));
    if (!pvc.has_value()) {
      gone_at = WholeSeconds(now);
      patch.SetPvcGoneAt(gone_at);
    } else if (!pvc->name().empty()) {
      MergeLostData(*pvc, *record, patch);
    }
  }
  if (leads && gone_at.has_value() && now >= *gone_at + rules_.keep_after_pvc &&
      !IsKeptForLocks(record->status)) {
    return Remove(ctx, *record);
  }
  if (!patch.is_empty() || taken.is_pvc_due) {
    MergeBase(*record, patch);
  }
  if (const std::string next_step = NextStepOf(*record, rules_, now);
      next_step != record->status.next_step) {
    patch.SetNextStep(next_step);
  }
  if (patch.is_empty() || !leads) {
    outcome.is_written = patch.is_empty();
    return outcome;
  }
  outcome.has_asked = true;
  patch.IfUid(record->uid);
  const absl::StatusOr<ProtectedVolume> stored = objects::Apply<ProtectedVolume>(
      ctx, env_.api, ProtectedVolume::Key(taken.key.first, taken.key.second), patch, "status");
  RETURN_IF_ERROR(stored.status());
  records_.Put(*stored);
  return outcome;
}

absl::StatusOr<std::optional<ProtectedVolumeRecord>> VolumeRecordWriter::Make(
    const CallContext& ctx, const Taken& taken) {
  const Pending& pending = taken.pending;
  if (records_.size() >= kVolumeRecordsMax) {
    CSIDELTA_LOG(kWarn, "there are too many ProtectedVolumes, so a volume gets none",
                 {"namespace", pending.spec.pvc_namespace}, {"pvc", pending.spec.pvc});
    return std::optional<ProtectedVolumeRecord>();
  }
  if (pending.attempt.has_value() &&
      ctx.clock->Now() >= *pending.attempt->at + rules_.keep_after_pvc) {
    // Of a PVC that has been gone for as long, the record is gone as well.
    ASSIGN_OR_RETURN(const auto pvc, ReadPvc(ctx, pending.spec));
    if (!pvc.has_value()) {
      return std::optional<ProtectedVolumeRecord>();
    }
  }
  ProtectedVolume object = ProtectedVolume::Make(taken.key.first, taken.key.second);
  object.SetSpec(pending.spec);
  // Restored in another cluster, it would report volumes of this one.
  object.SetLabel(objects::kExcludeFromBackupLabel, "true");
  ASSIGN_OR_RETURN(const ProtectedVolume stored, objects::CreateOrGet(ctx, env_.api, object));
  records_.Put(stored);
  return records_.Find(taken.key);
}

absl::StatusOr<VolumeRecordWriter::WriteResult> VolumeRecordWriter::Remove(
    const CallContext& ctx, const ProtectedVolumeRecord& record) {
  RETURN_IF_ERROR(ForgetRestored(ctx, env_,
                                 {.velero_namespace = record.velero_namespace,
                                  .location = record.spec.location,
                                  .pvc_namespace = record.spec.pvc_namespace,
                                  .pvc = record.spec.pvc},
                                 record.spec.pvc_uid));
  const k8s::ObjectKey key = ProtectedVolume::Key(record.velero_namespace, record.name);
  const absl::Status removed = env_.api.Delete(ctx, key, {.uid = record.uid});
  if (!removed.ok() && !absl::IsNotFound(removed)) {
    return removed;
  }
  CSIDELTA_LOG(kInfo, "the record of a volume whose PVC is gone is deleted",
               {"namespace", record.spec.pvc_namespace}, {"pvc", record.spec.pvc});
  return WriteResult{.is_written = true, .has_asked = true};
}

absl::StatusOr<std::optional<objects::PersistentVolumeClaim>> VolumeRecordWriter::ReadPvc(
    const CallContext& ctx, const ProtectedVolumeSpec& spec) {
  absl::StatusOr<std::optional<objects::PersistentVolumeClaim>> pvc =
      objects::Find<objects::PersistentVolumeClaim>(ctx, env_.api, spec.pvc_namespace, spec.pvc);
  if (absl::IsPermissionDenied(pvc.status())) {
    return std::optional(objects::PersistentVolumeClaim());
  }
  const bool is_gone = pvc.ok() && pvc->has_value() && (*pvc)->uid() != spec.pvc_uid;
  return is_gone ? std::optional<objects::PersistentVolumeClaim>() : std::move(pvc);
}

void VolumeRecordWriter::MergeEnd(const Pending& pending, ProtectedVolumeRecord& record,
                                  objects::Patch& patch) {
  objects::ProtectedVolumeStatus& status = record.status;
  const EndKey known = EndOf(status.last_attempt);
  int64_t failures = status.failures;
  if (EndOf(pending.good) > EndOf(status.last_good)) {
    failures = 0;
    status.last_good = pending.good;
    status.repository = pending.repository;
    patch.SetLastGood(pending.good).SetRepository(pending.repository);
    if (status.deleted_backup.has_value()) {
      status.deleted_backup.reset();
      patch.SetDeletedBackup(std::nullopt);
    }
  }
  const EndKey counted = std::max(known, EndOf(status.last_good));
  failures += std::distance(pending.failed.upper_bound(counted), pending.failed.end());
  if (EndOf(pending.attempt) > known || failures != status.failures) {
    status.failures = failures;
    if (EndOf(pending.attempt) > known) {
      status.last_attempt = pending.attempt;
    }
    patch.SetLastAttempt(status.last_attempt.value_or(LastAttempt()), failures);
  }
}

objects::Patch VolumeRecordWriter::Merge(const Pending& pending, ProtectedVolumeRecord& record) {
  objects::Patch patch;
  MergeEnd(pending, record, patch);
  if (pending.restored_at.has_value() &&
      *pending.restored_at > record.status.restored_at.value_or(absl::InfinitePast())) {
    record.status.restored_at = pending.restored_at;
    patch.SetRestoredAt(*pending.restored_at);
  }
  return patch;
}

void VolumeRecordWriter::DropDeleted(const ProtectedVolumeRecord& record, Pending& pending) const {
  const std::optional<objects::DeletedBackup>& deleted = record.status.deleted_backup;
  if (!pending.good.has_value()) {
    return;
  }
  const bool is_known = deleted.has_value() && deleted->upload == pending.good->upload;
  // Without another one it is merged first, and replaced then.
  if (is_known ||
      (record.status.last_good.has_value() && seams_.is_deleted(pending.good->snapshot_id))) {
    pending.good.reset();
  }
}

absl::StatusOr<bool> VolumeRecordWriter::IsLastGoodGone(const CallContext& ctx, const Taken& taken,
                                                        const ProtectedVolumeRecord& record) {
  const std::optional<LastGoodBackup>& good = record.status.last_good;
  if (!good.has_value() || seams_.is_deleted(good->snapshot_id)) {
    return good.has_value();
  }
  if (!taken.is_pvc_due || good->backup.empty()) {
    return false;
  }
  ASSIGN_OR_RETURN(
      const absl::Duration missing_for,
      presence_.MissingFor(ctx, env_.api, objects::Backup::Key(taken.key.first, good->backup)));
  return missing_for >= kMissingGracePeriod;
}

absl::Status VolumeRecordWriter::FallBack(const CallContext& ctx, ProtectedVolumeRecord& record,
                                          objects::Patch& patch) {
  objects::ProtectedVolumeStatus& status = record.status;
  ASSIGN_OR_RETURN(std::optional<LastGoodBackup> left, NewestLeft(ctx, record));
  status.deleted_backup = {.backup = status.last_good->backup, .upload = status.last_good->upload};
  status.last_good = std::move(left);
  patch.SetLastGood(status.last_good).SetDeletedBackup(status.deleted_backup);
  if (!status.last_good.has_value() && status.verification.has_value()) {
    // No check will be made that could end its finding.
    status.verification = objects::Verification();
    patch.SetVerification(*status.verification);
  }
  CSIDELTA_LOG(kInfo, "the last good backup of a volume was deleted",
               {"namespace", record.spec.pvc_namespace}, {"pvc", record.spec.pvc},
               {"backup", status.deleted_backup->backup},
               {"now", status.last_good.has_value() ? status.last_good->backup : ""});
  return absl::OkStatus();
}

absl::StatusOr<std::optional<LastGoodBackup>> VolumeRecordWriter::NewestLeft(
    const CallContext& ctx, const ProtectedVolumeRecord& record) const {
  ASSIGN_OR_RETURN(
      const std::vector<objects::DataUpload> uploads,
      objects::List<objects::DataUpload>(
          ctx, env_.api, record.velero_namespace,
          {.label_selector = absl::StrCat(objects::kPvcUidLabel, "=", record.spec.pvc_uid)}));
  std::map<EndKey, LastGoodBackup, std::greater<>> left;  // the newest first
  for (const objects::DataUpload& object : uploads) {
    const std::optional<absl::Time> completed_at = object.completed_at();
    if (!object.Validate().ok() || !object.is_managed() ||
        object.known_phase() != DataPhase::kCompleted || !completed_at.has_value() ||
        object.storage_location() != record.spec.location) {
      continue;
    }
    const EndKey end(WholeSeconds(*completed_at), object.uid());
    LastGoodBackup good = GoodBackupIn(object, end.first);
    if (end < EndOf(record.status.last_good) && !seams_.is_deleted(good.snapshot_id)) {
      left.emplace(end, std::move(good));
    }
  }
  for (auto& [end, good] : left) {
    const absl::Status backup =
        objects::Get<objects::Backup>(ctx, env_.api, record.velero_namespace, good.backup).status();
    if (backup.ok() || absl::IsPermissionDenied(backup) || good.backup.empty()) {
      return std::optional(std::move(good));
    }
    if (!absl::IsNotFound(backup)) {
      return backup;
    }
  }
  return std::optional<LastGoodBackup>();
}

void VolumeRecordWriter::MergeBase(ProtectedVolumeRecord& record, objects::Patch& patch) const {
  const std::optional<std::vector<csi::BaseSnapshot>> bases =
      env_.bases == nullptr ? std::nullopt : env_.bases->OfClaim(record.spec.pvc_uid);
  if (!bases.has_value()) {
    return;  // They are not known yet.
  }
  std::optional<objects::VolumeBase> newest;
  for (const csi::BaseSnapshot& base : *bases) {
    if (base.owner.velero_namespace == record.velero_namespace &&
        base.owner.location == record.spec.location &&
        (!newest.has_value() || base.snapshot_taken_at > newest->taken_at)) {
      newest = {.content = base.content_name, .taken_at = base.snapshot_taken_at};
    }
  }
  const objects::VolumeBase none;
  if (record.status.base.value_or(none).content != newest.value_or(none).content) {
    record.status.base = newest;
    patch.SetBase(newest);
  }
}

}  // namespace csidelta::datamover
