#include "tests/bench/control_cluster.h"
#include "objects/backup_storage_location.h"
#include "objects/cluster.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "datamover/keyring.h"
#include "datamover/repository_access.h"
#include "k8s/config.h"
#include "k8s/object.h"
#include "k8s/rest_client.h"
#include "objects/keys.h"
#include "objects/protected_volume.h"
#include "objects/volume_task.h"
#include "tests/support/fake_secure_random.h"
#include "tests/support/finished_upload.h"
#include "tests/support/kind_names.h"
#include "tests/support/mover_kinds.h"
#include "velero/data_reference.h"

namespace csidelta::bench {
namespace {

constexpr int kVolumesPerNamespace = 10;
constexpr int kNights = 30;
constexpr std::size_t kHistoryMax = 20'000;  // changes; those of some seconds
constexpr int kTuningRequests = 100;
constexpr char kBackup[] = "nightly";
constexpr char kBackupUid[] = "ba000000-0000-4000-8000-000000000000";
constexpr char kCluster[] = "c1000000-0000-4000-8000-000000000001";

k8s::ResourceType NamespaceType() { return {"", "v1", "namespaces", "Namespace", false}; }

std::vector<k8s::ResourceType> ServedTypes() {
  return {NamespaceType(),
          BackupType(),
          ConfigMapType(),
          DataDeletionType(),
          objects::ProtectedVolume::Type(),
          DataDownloadType(),
          DataUploadType(),
          EventType(),
          LeaseType(),
          PersistentVolumeClaimType(),
          PersistentVolumeType(),
          PodType(),
          SecretType(),
          StorageClassType(),
          VolumeAttachmentType(),
          VolumeGroupSnapshotContentType("v1"),
          VolumeGroupSnapshotType("v1"),
          VolumeSnapshotClassType(),
          VolumeSnapshotContentType(),
          VolumeSnapshotType(),
          objects::CustomResourceDefinition::Type(),
          objects::BackupStorageLocation::Type(),
          objects::VolumeTask::Type()};
}

std::string SourceNamespace(int volume) {
  return absl::StrCat("app-", volume / kVolumesPerNamespace);
}
std::string ClaimName(int volume) { return absl::StrCat("data-", volume % kVolumesPerNamespace); }
std::string ClaimUid(int volume) {
  return absl::StrFormat("c1a10000-0000-4000-8000-%012d", volume);
}
std::string SnapshotName(int volume) { return absl::StrFormat("velero-data-%05d", volume); }

// A night has checks of repositories, too.
bool IsOfUpload(const Json& task) {
  return GetString(task, {"spec", "subject", "kind"}) == "DataUpload";
}

bool IsWatch(const support::ServedRequest& request) {
  return request.target.find("watch=true") != std::string::npos;
}

}  // namespace

ControlCluster::ControlCluster(const ScaledClock& clock, const ClusterOptions& options)
    : clock_(clock),
      latency_(options.latency / clock.factor()),
      pause_ns_(absl::ToInt64Nanoseconds(latency_)),
      api_(clock),
      snapshots_(api_),
      tracks_(clock) {
  api_.LimitHistory(kHistoryMax);
  snapshots_.driver().cut_at_nanoseconds = 0;  // Now: a base that is weeks old would be dropped.
  api_.SetStatusSubresource("volumetasks", true);
  api_.SetStatusSubresource("protectedvolumes", true);
  SeedMover(options);
  SeedVelero();
  api_.OnEvent("datauploads", [this](support::FakeApiClient&, const k8s::WatchEvent& event) {
    tracks_.Note(event.object);
  });
  api_.SetStatusSubresource("datadeletions", true);
  api_.OnEvent("datadeletions", [this](support::FakeApiClient&, const k8s::WatchEvent& event) {
    if (GetString(event.object, {"status", "phase"}) != "Completed") {
      return;
    }
    const std::scoped_lock lock(mutex_);
    if (deletions_done_.insert(k8s::Name(event.object)).second) {
      deletions_done_at_ = clock_.Now();
      changed_.notify_all();
    }
  });
  nodes_ = std::make_unique<SimulatedNodes>(
      api_, clock, options.admissions, options.worker,
      SimulatedNodes::Listener{
          .on_end =
              [this](const Json& task, absl::Time at) {
                if (IsOfUpload(task)) {
                  tracks_.NoteWorkerEnd(GetString(task, {"spec", "subject", "uid"}), at);
                }
              },
          .on_report =
              [this](const Json& task, int64_t done_bytes, absl::Time at) {
                if (IsOfUpload(task)) {
                  tracks_.NoteReport(GetString(task, {"spec", "subject", "uid"}), done_bytes, at);
                }
              }});
  server_ = std::make_unique<support::ApiTestServer>(
      api_, ServedTypes(), support::TestServerOptions{.tls = true},
      [this](const support::ServedRequest& request, support::ServedConnection& connection) {
        counts_.Count(request);
        if (!IsWatch(request)) {
          Clock::Real().SleepFor(absl::Nanoseconds(pause_ns_.load()), connection.stop());
        }
        return false;
      });
}

void ControlCluster::SeedMover(const ClusterOptions& options) {
  support::SeedMoverKinds(api_);
  api_.Seed(NamespaceType(), {{"metadata", {{"name", "kube-system"}, {"uid", kCluster}}}});
  api_.Seed(VolumeSnapshotClassType(),
            {{"metadata", {{"name", "fast"}}}, {"driver", "d.example.com"}});
  api_.Seed(StorageClassType(),
            {{"metadata", {{"name", "fast"}}}, {"volumeBindingMode", "Immediate"}});
  const Json settings = {{"limits", {{"total", options.admissions}}}};
  api_.Seed(ConfigMapType(), {{"metadata", {{"name", "csi-delta-mover"}, {"namespace", kMover}}},
                              {"data", {{"config.json", DumpJson(settings)}}}});
}

void ControlCluster::SeedVelero() {
  const std::string credentials = "[default]\naws_access_key_id=id\naws_secret_access_key=secret\n";
  api_.Seed(SecretType(), {{"metadata", {{"name", "creds"}, {"namespace", kVelero}}},
                           {"data", {{"cloud", absl::Base64Escape(credentials)}}}});
  api_.Seed(objects::BackupStorageLocation::Type(),
            {{"metadata", {{"name", "default"}, {"namespace", kVelero}}},
             {"spec",
              {{"provider", "aws"},
               {"objectStorage", {{"bucket", "b"}, {"prefix", "p"}}},
               {"config", {{"region", "minio"}, {"s3Url", "http://s3:9000/"}}},
               {"credential", {{"name", "creds"}, {"key", "cloud"}}}}}});
  api_.Seed(BackupType(),
            {{"metadata", {{"name", kBackup}, {"namespace", kVelero}, {"uid", kBackupUid}}},
             {"status", {{"phase", "WaitingForPluginOperations"}}}});
}

void ControlCluster::AddClaims(int first, int count) {
  for (int i = first; i < first + count; ++i) {
    api_.Seed(
        PersistentVolumeClaimType(),
        {{"metadata",
          {{"name", ClaimName(i)}, {"namespace", SourceNamespace(i)}, {"uid", ClaimUid(i)}}},
         {"spec", {{"storageClassName", "fast"}, {"accessModes", Json::array({"ReadWriteOnce"})}}},
         {"status", {{"phase", "Bound"}, {"capacity", {{"storage", "1Gi"}}}}}});
  }
}

void ControlCluster::AddVolumes(int first, int count) {
  AddClaims(first, count);
  for (int i = first; i < first + count; ++i) {
    api_.Create({}, VolumeSnapshotType(), SourceNamespace(i),
                {{"apiVersion", "snapshot.storage.k8s.io/v1"},
                 {"kind", "VolumeSnapshot"},
                 {"metadata",
                  {{"name", SnapshotName(i)},
                   {"namespace", SourceNamespace(i)},
                   {"labels", {{objects::kCsiDeltaLabel, kVelero}}}}},
                 {"spec",
                  {{"source", {{"persistentVolumeClaimName", ClaimName(i)}}},
                   {"volumeSnapshotClassName", "fast"}}}})
        .IgnoreError();
  }
}

void ControlCluster::AddUploads(int first, int count) {
  for (int i = first; i < first + count; ++i) {
    Json upload = {{"apiVersion", "velero.io/v2alpha1"}, {"kind", "DataUpload"}};
    upload["metadata"] = {
        {"name", absl::StrFormat("%s-%05d", kBackup, i)},
        {"namespace", kVelero},
        {"labels", {{"velero.io/backup-name", kBackup}, {"velero.io/pvc-uid", ClaimUid(i)}}},
        {"ownerReferences", Json::array({{{"apiVersion", "velero.io/v1"},
                                          {"kind", "Backup"},
                                          {"name", kBackup},
                                          {"uid", kBackupUid},
                                          {"controller", true}}})}};
    upload["spec"] = {{"snapshotType", "CSI"},
                      {"datamover", "csi-delta"},
                      {"backupStorageLocation", "default"},
                      {"sourceNamespace", SourceNamespace(i)},
                      {"sourcePVC", ClaimName(i)},
                      {"operationTimeout", "10m0s"},
                      {"csiSnapshot",
                       {{"volumeSnapshot", SnapshotName(i)},
                        {"storageClass", "fast"},
                        {"snapshotClass", "fast"}}}};
    api_.Create({}, DataUploadType(), kVelero, upload).IgnoreError();
  }
}

void ControlCluster::Cancel(const std::string& upload) {
  api_.Patch({}, {DataUploadType(), kVelero, upload}, k8s::PatchKind::kMerge,
             {{"spec", {{"cancel", true}}}}, "")
      .IgnoreError();
}

absl::Status ControlCluster::AddDeletions(int repositories, int per_repository) {
  support::FakeSecureRandom random;
  ASSIGN_OR_RETURN(
      const repository::Keyring keyring,
      datamover::OpenKeyring({}, api_, kMover, {.velero_namespace = kVelero, .location = "default"},
                             /*make=*/true, random));
  for (int i = 0; i < repositories * per_repository; ++i) {
    const int volume = i % repositories;
    Json deletion = {{"apiVersion", "mover.csi-delta.io/v1alpha1"}, {"kind", "DataDeletion"}};
    deletion["metadata"] = {{"name", absl::StrFormat("csi-delta-%05d", i)},
                            {"namespace", kVelero},
                            {"labels", {{"velero.io/backup-name", kBackup}}}};
    deletion["spec"] = {
        {"backupStorageLocation", "default"},
        {"backup", kBackup},
        {"snapshotID", velero::FormatDataReference({.cluster = kCluster,
                                                    .namespace_name = SourceNamespace(volume),
                                                    .claim_uid = ClaimUid(volume),
                                                    .snapshot_id = absl::StrFormat("%064x", i),
                                                    .key = keyring.newest().fingerprint})}};
    RETURN_IF_ERROR(api_.Create({}, DataDeletionType(), kVelero, deletion).status());
  }
  return absl::OkStatus();
}

bool ControlCluster::AwaitDeletions(int count, absl::Duration time_max) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, absl::ToChronoNanoseconds(time_max / clock_.factor()),
                           [&] { return std::ssize(deletions_done_) >= count; });
}

int ControlCluster::deletions_done() const {
  const std::scoped_lock lock(mutex_);
  return static_cast<int>(deletions_done_.size());
}

absl::Time ControlCluster::deletions_done_at() const {
  const std::scoped_lock lock(mutex_);
  return deletions_done_at_;
}

void ControlCluster::AddFinished(int uploads, int bases) {
  for (int night = 0; night < kNights; ++night) {
    api_.Seed(BackupType(), {{"metadata",
                              {{"name", absl::StrCat("nightly-", night)},
                               {"namespace", kVelero},
                               {"uid", absl::StrCat("backup-uid-", night)}}},
                             {"status", {{"phase", "Completed"}}}});
  }
  const std::string form = support::FinishedUpload();
  for (int i = 0; i < uploads; ++i) {
    const std::string text = support::FinishedUpload(form, i, kNights);
    api_.Seed(DataUploadType(), ParseJson(text).value_or(Json()));
  }
  AddClaims(0, bases);
  for (int i = 0; i < bases; ++i) {
    api_.Seed(VolumeSnapshotContentType(),
              {{"metadata",
                {{"name", absl::StrFormat("du-%012d", i)},
                 {"labels", {{objects::kBaseLabel, "true"}}},
                 {"annotations",
                  {{"mover.csi-delta.io/velero-namespace", kVelero},
                   {"mover.csi-delta.io/location", "default"},
                   {"mover.csi-delta.io/claim-namespace", SourceNamespace(i)},
                   {"mover.csi-delta.io/claim", ClaimName(i)},
                   {"mover.csi-delta.io/claim-uid", ClaimUid(i)},
                   {"mover.csi-delta.io/cluster", kCluster}}}}},
               {"spec",
                {{"driver", "d.example.com"},
                 {"deletionPolicy", "Retain"},
                 {"source", {{"snapshotHandle", absl::StrCat("snap-", i)}}}}},
               {"status", {{"readyToUse", true}, {"snapshotHandle", absl::StrCat("snap-", i)}}}});
  }
}

void ControlCluster::ExpireWatches() {
  api_.CompactHistory();
  api_.EndWatches();
}

absl::StatusOr<absl::Duration> ControlCluster::TuneLatency(const std::string& kubeconfig_path) {
  k8s::ClientSettings settings;
  settings.own_kubeconfig = kubeconfig_path;
  settings.qps = 0;  // No limit.
  const std::unique_ptr<k8s::ApiClient> client = k8s::MakeClient(settings);
  const auto median = [&]() -> absl::StatusOr<absl::Duration> {
    std::vector<absl::Duration> times;
    for (int i = 0; i < kTuningRequests; ++i) {
      const absl::Duration begun = Clock::Real().Uptime();
      RETURN_IF_ERROR(client->Get({}, {NamespaceType(), "", "kube-system"}).status());
      times.push_back(Clock::Real().Uptime() - begun);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  };
  ASSIGN_OR_RETURN(const absl::Duration before, median());
  const absl::Duration pause = absl::Nanoseconds(pause_ns_.load()) - (before - latency_);
  pause_ns_ = absl::ToInt64Nanoseconds(std::max(pause, absl::ZeroDuration()));
  ASSIGN_OR_RETURN(const absl::Duration after, median());
  return after * clock_.factor();
}

bool ControlCluster::AwaitRest(absl::Duration rest, absl::Duration time_max,
                               const std::function<bool()>& goes_on) {
  const k8s::ObjectKey lease{LeaseType(), kMover, "csi-delta-datamover"};
  const auto leads = [&] {
    return !GetString(api_.Find(lease).value_or(Json()), {"spec", "holderIdentity"}).empty();
  };
  const auto asked = [&] {
    int64_t count = 0;
    for (const auto& [name, times] : counts_.all()) {
      count += name.ends_with(" leases") ? 0 : times;
    }
    return count;
  };
  const absl::Time end = clock_.Now() + time_max;
  int64_t before = -1;
  while (clock_.Now() < end && goes_on()) {
    const int64_t now = asked();
    if (now == before && leads() && api_.watches() > 0) {
      return true;
    }
    before = now;
    clock_.SleepFor(rest, {});
  }
  return false;
}

}  // namespace csidelta::bench
