#include "report/collect.h"

#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/human_text.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "incremental/mover/volume_record.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/data_transfer.h"
#include "objects/outcome.h"
#include "objects/protected_volume.h"
#include "velero/data_reference.h"

namespace csidelta::report {
namespace {

using repository::RepoSnapshot;
using repository::StoredSnapshot;

constexpr std::size_t kIdDigits = 8;
constexpr int kUploadsPerPage = 250;
constexpr absl::Duration kReachTolerance =
    absl::Hours(36);  // the oldest record may be of a day later
constexpr objects::KindName kScheduleKind = {"velero.io", "v1", "schedules", "Schedule"};

BackupEntry EntryOf(const StoredSnapshot& stored) {
  const RepoSnapshot& snapshot = stored.snapshot;
  const repository::VolumeSummary volume = snapshot.volume.value_or(repository::VolumeSummary());
  BackupEntry entry = {.at = snapshot.time,
                       .backup = repository::TagValue(snapshot, repository::kBackupTag),
                       .snapshot = stored.id.ShortHex(),
                       .base = snapshot.parent.has_value() ? snapshot.parent->ShortHex() : "",
                       .mode = volume.mode,
                       .reason = volume.reason,
                       .changed_bytes = volume.changed_bytes};
  entry.backup.erase(0, entry.backup.find('/') + 1);  // Velero's namespace
  if (snapshot.summary.has_value()) {
    entry.size_bytes = static_cast<int64_t>(snapshot.summary->total_bytes_processed);
    entry.stored_bytes = static_cast<int64_t>(snapshot.summary->data_added_packed);
  }
  return entry;
}

// Adds what only /volume.json has. Returns the name of the PVC, "" if it is not known.
absl::StatusOr<std::string> AddManifest(const CallContext& ctx, repository::Repository& repository,
                                        const StoredSnapshot& stored, BackupEntry& entry) {
  const auto record = incremental::OpenVolumeRecord(ctx, repository, stored);
  if (absl::IsDataLoss(record.status()) || absl::IsNotFound(record.status())) {
    entry.state = BackupState::kBroken;
    entry.message = CutText(record.status().message(), kTextBytesMax);
    return std::string();
  }
  RETURN_IF_ERROR(record.status());
  const repository::VolumeManifest& manifest = (*record)->manifest;
  entry.mode = manifest.kind;
  entry.reason = manifest.reason;
  entry.size_bytes = manifest.size_bytes;
  entry.read_bytes = manifest.read_bytes;
  return manifest.pvc_name.empty() ? ""
                                   : absl::StrCat(manifest.pvc_namespace, "/", manifest.pvc_name);
}

BackupEntry EntryOf(const objects::DataUpload& upload) {
  const objects::BackupFigures figures = upload.figures();
  const auto reference = velero::ParseDataReference(upload.snapshot_id());
  const bool is_good = upload.known_phase() == objects::DataPhase::kCompleted;
  BackupEntry entry = {.at = upload.created_at().value_or(absl::UnixEpoch()),
                       .state = is_good ? BackupState::kGood : BackupState::kFailed,
                       .backup = upload.Label(objects::kBackupNameLabel)};
  if (!is_good) {
    entry.message = CutText(upload.message(), kTextBytesMax);
    return entry;
  }
  entry.snapshot = reference.ok() ? reference->snapshot_id.substr(0, kIdDigits) : "";
  entry.base = figures.base.substr(0, kIdDigits);
  entry.mode = figures.mode;
  entry.reason = figures.reason;
  entry.size_bytes = figures.logical_bytes;
  entry.changed_bytes = figures.changed_bytes;
  entry.read_bytes = figures.read_bytes;
  entry.audit_bytes = figures.audit_bytes;
  entry.stored_bytes = figures.stored_bytes;
  return entry;
}

// Reads the records of one Velero after the other.
class ClusterReader {
 public:
  ClusterReader(const CallContext& ctx, k8s::ApiClient& api, const ClusterScope& scope)
      : ctx_(ctx), api_(api), scope_(scope) {}

  absl::Status Read(const std::string& velero);
  ClusterVolumes Take() &&;

 private:
  bool IsWanted(absl::string_view pvc_namespace) const {
    return scope_.namespace_name.empty() || scope_.namespace_name == pvc_namespace;
  }

  // The volume of this PVC and location, which is added if it is new.
  std::size_t IndexOf(const std::string& pvc_namespace, const std::string& pvc,
                      const std::string& uid, const std::string& location);
  void AddReference(std::size_t at, const std::string& snapshot_id);
  absl::Status ReadRecords();
  absl::Status ReadUploads();

  // Calls `add` with each volume of this Velero that a backup moves.
  template <typename Add>
  void ForVolumesOf(const objects::Backup& backup, Add add);

  // Those that failed before they made a DataUpload.
  absl::Status ReadBackups();
  absl::Status ReadSchedules();
  void Note(const absl::Status& read) {
    if (!read.ok()) {
      all_.notes.push_back(absl::StrCat("not read in namespace ", velero_, ": ", read.message()));
    }
  }

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const ClusterScope& scope_;
  std::string velero_;
  std::map<std::tuple<std::string, std::string, std::string, std::string, std::string>, std::size_t>
      by_key_;
  std::vector<std::set<std::string>> broken_;            // of each volume: Backups
  std::set<std::pair<std::string, std::string>> moved_;  // Backup and volume
  ClusterVolumes all_;
};

absl::Status ClusterReader::Read(const std::string& velero) {
  velero_ = velero;
  Note(ReadRecords());
  RETURN_IF_ERROR(ReadUploads());
  Note(ReadBackups());
  Note(ReadSchedules());
  return absl::OkStatus();
}

ClusterVolumes ClusterReader::Take() && {
  for (std::size_t i = 0; i < all_.volumes.size(); ++i) {
    const VolumeEntry& volume = all_.volumes[i];
    absl::Time oldest = absl::InfiniteFuture();
    for (const BackupEntry& backup : volume.backups) {
      oldest = std::min(oldest, backup.at);
    }
    all_.repositories[i].has_more =
        oldest >
        std::max(scope_.since, volume.known_since.value_or(absl::InfinitePast())) + kReachTolerance;
  }
  return std::move(all_);
}

std::size_t ClusterReader::IndexOf(const std::string& pvc_namespace, const std::string& pvc,
                                   const std::string& uid, const std::string& location) {
  const auto [found, is_new] =
      by_key_.try_emplace({velero_, pvc_namespace, pvc, uid, location}, all_.volumes.size());
  if (is_new) {
    all_.volumes.push_back({.name = absl::StrCat(pvc_namespace, "/", pvc),
                            .location = absl::StrCat(velero_, "/", location)});
    all_.repositories.push_back({.velero_namespace = velero_, .location = location});
    broken_.emplace_back();
  }
  return found->second;
}

void ClusterReader::AddReference(std::size_t at, const std::string& snapshot_id) {
  if (const auto reference = velero::ParseDataReference(snapshot_id); reference.ok()) {
    all_.repositories[at].path = velero::RepositoryPath(*reference);
    all_.repositories[at].key = reference->key;
  }
}

absl::Status ClusterReader::ReadRecords() {
  ASSIGN_OR_RETURN(const auto records,
                   objects::List<objects::ProtectedVolume>(ctx_, api_, velero_));
  for (const objects::ProtectedVolume& record : records) {
    const objects::ProtectedVolumeSpec spec = record.spec();
    if (!IsWanted(spec.pvc_namespace)) {
      continue;
    }
    const objects::ProtectedVolumeStatus status = record.status();
    const std::size_t at = IndexOf(spec.pvc_namespace, spec.pvc, spec.pvc_uid, spec.location);
    VolumeEntry& volume = all_.volumes[at];
    volume.known_since = record.created_at();
    volume.gone_at = status.pvc_gone_at;
    volume.next_step = CutText(status.next_step, kTextBytesMax);
    if (status.verification.has_value()) {
      volume.verified_at = status.verification->at;
      volume.finding = CutText(status.verification->finding, kTextBytesMax);
      broken_[at] = {status.verification->broken_backups.begin(),
                     status.verification->broken_backups.end()};
    }
    AddReference(at, status.last_good.value_or(objects::LastGoodBackup()).snapshot_id);
  }
  return absl::OkStatus();
}

absl::Status ClusterReader::ReadUploads() {
  const auto add = [this](const objects::DataUpload& upload) {
    if (!upload.is_managed() || !upload.is_over() || !IsWanted(upload.source_namespace())) {
      return;
    }
    const std::size_t at = IndexOf(upload.source_namespace(), upload.source_pvc(), upload.pvc_uid(),
                                   upload.storage_location());
    BackupEntry entry = EntryOf(upload);
    if (entry.state == BackupState::kGood && broken_[at].contains(entry.backup)) {
      entry.state = BackupState::kBroken;
    }
    moved_.insert({entry.backup, all_.volumes[at].name});
    all_.volumes[at].backups.push_back(std::move(entry));
    AddReference(at, upload.snapshot_id());
  };
  const auto begin = [this] {  // Also where the list begins again.
    for (VolumeEntry& volume : all_.volumes) {
      std::erase_if(volume.backups, [&](const BackupEntry&) {
        return volume.location.starts_with(absl::StrCat(velero_, "/"));
      });
    }
  };
  return objects::ReadPages<objects::DataUpload>(
      ctx_, api_, objects::DataUpload::Type(), velero_,
      {.label_selector = "", .field_selector = "", .page_items_max = kUploadsPerPage},
      objects::ForEach<objects::DataUpload>(begin, add));
}

template <typename Add>
void ClusterReader::ForVolumesOf(const objects::Backup& backup, Add add) {
  for (const auto& [key, at] : by_key_) {
    if (std::get<0>(key) == velero_ && backup.is_moved_by_us() &&
        backup.IncludesNamespace(std::get<1>(key))) {
      add(all_.volumes[at]);
    }
  }
}

absl::Status ClusterReader::ReadBackups() {
  ASSIGN_OR_RETURN(const auto backups, objects::List<objects::Backup>(ctx_, api_, velero_));
  for (const objects::Backup& backup : backups) {
    if (backup.phase() != "Failed" && backup.phase() != "FailedValidation") {
      continue;
    }
    const std::string why = absl::StrJoin(backup.validation_errors(), ", ");
    ForVolumesOf(backup, [&](VolumeEntry& volume) {
      if (!moved_.contains({backup.name(), volume.name})) {
        volume.backups.push_back(
            {.at = backup.created_at().value_or(absl::UnixEpoch()),
             .state = BackupState::kFailed,
             .backup = backup.name(),
             .message =
                 CutText(absl::StrCat("Velero: ", why.empty() ? backup.failure_reason() : why,
                                      "; velero backup describe ", backup.name(), " tells more"),
                         kTextBytesMax)});
      }
    });
  }
  return absl::OkStatus();
}

absl::Status ClusterReader::ReadSchedules() {
  ASSIGN_OR_RETURN(const auto schedules,
                   objects::List<objects::Object>(ctx_, api_, kScheduleKind.Type(), velero_));
  for (const objects::Object& schedule : schedules) {
    const auto backup = objects::Backup::OfSchedule(schedule);
    if (backup.ok() && !GetBool(schedule.json(), {"spec", "paused"})) {
      ForVolumesOf(*backup, [&](VolumeEntry& volume) {
        volume.schedules.push_back(
            CutText(GetString(schedule.json(), {"spec", "schedule"}), kTextBytesMax));
      });
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<VolumeEntry>> ReadRepository(
    const CallContext& ctx, repository::Repository& repository, const std::string& location,
    absl::Time since, const repository::DamagedSnapshotSink& damaged) {
  ASSIGN_OR_RETURN(const std::vector<StoredSnapshot> snapshots,
                   repository.ListSnapshots(ctx, damaged));
  std::map<std::string, VolumeEntry> volumes;  // by host and paths
  for (const StoredSnapshot& stored : snapshots) {
    if (!repository::IsVolume(stored.snapshot) || stored.snapshot.time < since) {
      continue;
    }
    BackupEntry entry = EntryOf(stored);
    ASSIGN_OR_RETURN(const std::string pvc, AddManifest(ctx, repository, stored, entry));
    const std::string path = absl::StrJoin(stored.snapshot.paths, ", ");
    VolumeEntry& volume = volumes[absl::StrCat(stored.snapshot.hostname, ":", path)];
    volume.name = !pvc.empty()          ? pvc
                  : volume.name.empty() ? absl::StrCat(stored.snapshot.hostname, ":", path)
                                        : volume.name;
    volume.location = location;
    volume.backups.push_back(std::move(entry));
  }
  std::vector<VolumeEntry> all;
  all.reserve(volumes.size());
  for (auto& [name, volume] : volumes) {
    all.push_back(std::move(volume));
  }
  return all;
}

void AddBackups(const VolumeEntry& from, VolumeEntry& volume) {
  std::set<std::string> known;
  for (const BackupEntry& backup : volume.backups) {
    known.insert(backup.snapshot);
  }
  absl::c_copy_if(from.backups, std::back_inserter(volume.backups),
                  [&](const BackupEntry& backup) { return !known.contains(backup.snapshot); });
}

absl::StatusOr<ClusterVolumes> ReadCluster(const CallContext& ctx, k8s::ApiClient& api,
                                           const ClusterScope& scope) {
  ClusterReader reader(ctx, api, scope);
  for (const std::string& velero : scope.velero_namespaces) {
    RETURN_IF_ERROR(reader.Read(velero));
  }
  return std::move(reader).Take();
}

}  // namespace csidelta::report
