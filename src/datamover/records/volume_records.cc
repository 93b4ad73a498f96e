#include "datamover/records/volume_records.h"

#include <atomic>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/human_text.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "objects/client.h"
#include "objects/event_handler.h"

namespace csidelta::datamover {
namespace {

// Of what a worker or a check reported, in our sentence.
constexpr std::size_t kCauseBytesMax = 200;

std::string CauseOf(absl::string_view text) {
  return absl::StrCat(CutText(text, kCauseBytesMax), text.size() > kCauseBytesMax ? "..." : "");
}

// Before what else is to be said of a volume without a good backup.
std::string NoBackupText(const objects::ProtectedVolumeStatus& status) {
  return status.deleted_backup.has_value()
             ? absl::StrCat("no backup is left since ", status.deleted_backup->backup,
                            " was deleted; ")
             : "never backed up; ";
}

std::string FailureText(const objects::ProtectedVolumeStatus& status) {
  return absl::StrCat(status.last_good.has_value() ? "" : NoBackupText(status),
                      status.failures == 1
                          ? "the last upload failed: "
                          : absl::StrCat("the last ", status.failures, " uploads failed: "),
                      status.last_attempt.has_value() ? CauseOf(status.last_attempt->message) : "",
                      "; correct that, and back up again");
}

std::string LostDataText(const objects::LostData& lost) {
  return absl::StrCat("the storage has lost data of the volume: ", CauseOf(lost.message),
                      lost.backup.empty()
                          ? "; there was no good backup when that was seen"
                          : absl::StrCat("; backup ", lost.backup,
                                         " is from before that was seen: restore it, and keep it "
                                         "from expiring until then"));
}

std::string FindingStep(const objects::Verification& verification) {
  const bool names_packs = verification.damage.has_value() && verification.damage->packs_found > 0;
  return absl::StrCat(
      "a check found: ", CauseOf(verification.finding),
      names_packs ? "; the next backup does not rely on what is damaged, and mends what the "
                    "volume still has: then repair the packs"
                  : "; repair the repository, and only then make a full backup");
}

std::string OrphansText(const objects::ProtectedVolumeStatus& status) {
  if (!status.verification.has_value() || status.verification->orphaned_snapshots == 0) {
    return "";
  }
  return absl::StrCat(
      "the Backups of ", status.verification->orphaned_snapshots,
      " repository snapshots are gone: verify those in status.verification.orphans with velero "
      "backup get, then remove them with csi-delta forget");
}

// With which the ids of all snapshots of the repository begin.
std::string SnapshotIdPrefix(const velero::DataReference& reference) {
  velero::DataReference any = reference;
  any.snapshot_id.clear();
  any.key.clear();
  return std::string(absl::StripSuffix(velero::FormatDataReference(any), "/"));
}

}  // namespace

ProtectedVolumeRecord ReadProtectedVolume(const objects::ProtectedVolume& object) {
  return {.velero_namespace = object.namespace_name(),
          .name = object.name(),
          .uid = object.uid(),
          .created_at = object.created_at(),
          .spec = object.spec(),
          .status = object.status()};
}

bool IsKeptForLocks(const objects::ProtectedVolumeStatus& status) {
  return status.last_good.has_value() && status.verification.has_value() &&
         status.verification->locks.has_value();
}

std::string NextStepOf(const ProtectedVolumeRecord& record, const RecordSettings& rules,
                       absl::Time now) {
  const objects::ProtectedVolumeStatus& status = record.status;
  if (status.pvc_gone_at.has_value()) {
    return absl::StrCat(
        "the PVC is gone: ",
        status.last_good.has_value()
            ? absl::StrCat("restore backup ", status.last_good->backup, " if it is missed; ")
            : "",
        IsKeptForLocks(status)
            ? "this record goes after its last backup, whose object locks are renewed until then"
            : absl::StrCat("this record goes at ",
                           FormatRfc3339Seconds(*status.pvc_gone_at + rules.keep_after_pvc)));
  }
  if (status.lost_data.has_value()) {
    return LostDataText(*status.lost_data);
  }
  if (status.verification.has_value() && !status.verification->finding.empty()) {
    return FindingStep(*status.verification);
  }
  if (status.verification.has_value() && status.verification->locks.has_value() &&
      !status.verification->locks->finding.empty()) {
    return absl::StrCat(CauseOf(status.verification->locks->finding),
                        "; correct that, such as a missing right of the credentials");
  }
  if (status.failures > 0) {
    return FailureText(status);
  }
  if (!status.last_good.has_value() && status.deleted_backup.has_value()) {
    return absl::StrCat(NoBackupText(status), "back up again");
  }
  if (!status.last_good.has_value()) {
    return record.created_at.has_value() && now > *record.created_at + rules.stale_after
               ? absl::StrCat("never backed up, since ", FormatRfc3339Seconds(*record.created_at),
                              ": see csi-delta status for what its upload waits for")
               : "";
  }
  const std::optional<absl::Time> taken_at = status.last_good->recovery_point();
  return taken_at.has_value() && now > *taken_at + rules.stale_after
             ? absl::StrCat(
                   "the last good backup was taken at ", FormatRfc3339Seconds(*taken_at),
                   status.deleted_backup.has_value()
                       ? absl::StrCat(", since ", status.deleted_backup->backup, " was deleted")
                       : "",
                   ": see whether a Schedule of Velero includes the PVC")
             : OrphansText(status);
}

class VolumeRecords::Handler : public objects::EventHandler<objects::ProtectedVolume> {
 public:
  Handler(VolumeRecords& records, k8s::Informer& informer)
      : records_(records), informer_(informer) {}

  k8s::Informer& informer() { return informer_; }
  bool is_synced() const { return is_synced_; }
  bool Holds(const k8s::ObjectId& id) const override {
    return records_.Find(VolumeRecordKey(id.namespace_name, id.name)).has_value();
  }
  void OnListed() override { is_synced_ = true; }

 private:
  void OnChanged(const objects::ProtectedVolume& object) override { records_.Keep(object); }
  void OnDeleted(const k8s::ObjectId& id, const objects::ProtectedVolume* /*last*/) override {
    records_.Drop({id.namespace_name, id.name}, id.uid);
  }

  VolumeRecords& records_;
  k8s::Informer& informer_;
  std::atomic<bool> is_synced_ = false;
};

VolumeRecords::VolumeRecords(OnChange on_change) : on_change_(std::move(on_change)) {}
VolumeRecords::~VolumeRecords() = default;

void VolumeRecords::Add(k8s::Informer& informer) {
  informer.Add(*handlers_.emplace_back(std::make_unique<Handler>(*this, informer)));
}

bool VolumeRecords::is_synced() const {
  return !handlers_.empty() &&
         absl::c_all_of(handlers_, [](const auto& handler) { return handler->is_synced(); });
}

std::size_t VolumeRecords::size() const {
  const MutexLock lock(mutex_);
  return records_.size();
}

std::optional<ProtectedVolumeRecord> VolumeRecords::Find(absl::string_view velero_namespace,
                                                         absl::string_view pvc_uid,
                                                         absl::string_view location) const {
  return Find(
      VolumeRecordKey(velero_namespace, objects::ProtectedVolume::NameOf(pvc_uid, location)));
}

std::optional<ProtectedVolumeRecord> VolumeRecords::Find(const VolumeRecordKey& key) const {
  const MutexLock lock(mutex_);
  const auto found = records_.find(key);
  return found == records_.end() ? std::nullopt : std::optional(found->second);
}

void VolumeRecords::ForEach(
    absl::FunctionRef<void(const ProtectedVolumeRecord& record)> call) const {
  const MutexLock lock(mutex_);
  for (const auto& [key, record] : records_) {
    call(record);
  }
}

void VolumeRecords::Put(const objects::ProtectedVolume& object) {
  for (const auto& handler : handlers_) {
    if (handler->informer().objects().namespace_name == object.namespace_name()) {
      handler->informer().Expect(
          {.namespace_name = object.namespace_name(), .name = object.name(), .uid = object.uid()});
    }
  }
  Keep(object);
}

void VolumeRecords::Keep(const objects::ProtectedVolume& object) {
  ProtectedVolumeRecord record = ReadProtectedVolume(object);
  VolumeRecordKey key(record.velero_namespace, record.name);
  // One that another program made would be taken for that of a volume that it does not name.
  if (record.name != objects::ProtectedVolume::NameOf(record.spec.pvc_uid, record.spec.location)) {
    return;
  }
  {
    const MutexLock lock(mutex_);
    if (records_.size() >= kVolumeRecordsMax && !records_.contains(key)) {
      return;
    }
    records_.insert_or_assign(key, std::move(record));
  }
  on_change_(key);
}

void VolumeRecords::Drop(const VolumeRecordKey& key, absl::string_view uid) {
  {
    const MutexLock lock(mutex_);
    const auto found = records_.find(key);
    if (found == records_.end() || found->second.uid != uid) {
      return;
    }
    records_.erase(found);
  }
  on_change_(key);
}

absl::StatusOr<std::optional<objects::RepositoryDamage>> FindDamage(
    const CallContext& ctx, k8s::ApiClient& api, const VolumeRecords* records,
    const RecordedRepository& repository) {
  const std::string& of_name = repository.reference.claim_uid;
  std::set<std::string> names;
  for (const std::string& uid : {of_name, repository.pvc_uid}) {
    if (!uid.empty()) {
      names.insert(objects::ProtectedVolume::NameOf(uid, repository.location));
    }
  }
  std::optional<objects::Verification> newest;
  const auto take = [&newest](const objects::ProtectedVolumeStatus& status) {
    if (status.verification.has_value() &&
        (!newest.has_value() || newest->at < status.verification->at)) {
      newest = status.verification;
    }
  };
  if (records != nullptr && records->is_synced()) {
    const std::string prefix = SnapshotIdPrefix(repository.reference);
    records->ForEach([&](const ProtectedVolumeRecord& record) {
      if (record.velero_namespace == repository.velero_namespace &&
          (names.contains(record.name) ||
           (record.spec.location == repository.location && record.status.last_good.has_value() &&
            absl::StartsWith(record.status.last_good->snapshot_id, prefix)))) {
        take(record.status);
      }
    });
    return newest.has_value() ? std::move(newest->damage) : std::nullopt;
  }
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(
        const std::optional<objects::ProtectedVolume> record,
        objects::Find<objects::ProtectedVolume>(ctx, api, repository.velero_namespace, name));
    take(record.has_value() ? record->status() : objects::ProtectedVolumeStatus());
  }
  return newest.has_value() ? std::move(newest->damage) : std::nullopt;
}

}  // namespace csidelta::datamover
