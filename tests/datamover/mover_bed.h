#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "csi/base_index.h"
#include "csi/base_snapshots.h"
#include "csi/expose/exposed_snapshot.h"
#include "datamover/controller/leftover_reconcilers.h"
#include "datamover/controller/transfer_step.h"
#include "datamover/mover_environment.h"
#include "k8s/cached_client.h"
#include "k8s/informer.h"
#include "k8s/object.h"
#include "k8s/object_cache.h"
#include "objects/backup_storage_location.h"
#include "objects/client.h"
#include "objects/data_transfer.h"
#include "objects/keys.h"
#include "objects/patch.h"
#include "objects/protected_volume.h"
#include "objects/volume_task.h"
#include "objects/workload.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_secure_random.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"
#include "tests/support/selectors.h"
#include "tests/support/typed.h"

namespace csidelta::datamover {

// status.verification of a record.
inline Json VerificationJson(const objects::Verification& verification) {
  return objects::Patch().SetVerification(verification).json()["status"]["verification"];
}

// A cluster around the mover: an API server, the programs that make snapshots and volumes, a
// location "default" of the Velero in "velero", and a node whose kubelet runs workers as the
// switches say.
class MoverBed {
 public:
  static constexpr char kMover[] = "mover";
  static constexpr int64_t kClaimBytes = 96 << 20;

  enum class Worker {
    kSucceeds,  // at once
    kRuns,      // until Finish() or Lose()
    kPending,   // the Pod is never started
  };
  Worker worker = Worker::kSucceeds;
  objects::OutcomeCause cause =
      objects::OutcomeCause::kNone;  // that a worker which is done tells of
  std::atomic<int> pods_made = 0;
  std::string snapshot_id = std::string(64, 'a');
  std::string file_system;    // that the worker saw in a volume
  std::string reason;         // why the worker read everything
  std::string restored_host;  // that the snapshot which a worker restored has, and its path
  std::string restored_path;

  MoverBed() {
    clock.SetAutoAdvance(true);
    api.SetStatusSubresource("volumetasks", true);
    api.SetStatusSubresource("protectedvolumes", true);
    api.Seed(VolumeSnapshotClassType(),
             {{"metadata", {{"name", "fast"}}}, {"driver", "d.example.com"}});
    api.Seed({"storage.k8s.io", "v1", "storageclasses", "StorageClass", false},
             {{"metadata", {{"name", "shop-class"}}}, {"volumeBindingMode", "Immediate"}});
    api.Seed(SecretType(),
             {{"metadata", {{"name", "creds"}, {"namespace", "velero"}}},
              {"data",
               {{"cloud", absl::Base64Escape(
                              "[default]\naws_access_key_id=id\naws_secret_access_key=shh\n")}}}});
    api.Seed(objects::BackupStorageLocation::Type(),
             {{"metadata", {{"name", "default"}, {"namespace", "velero"}}},
              {"spec",
               {{"provider", "aws"},
                {"objectStorage", {{"bucket", "b"}, {"prefix", "p"}}},
                {"config", {{"region", "minio"}, {"s3Url", "http://s3:9000/"}}},
                {"credential", {{"name", "creds"}, {"key", "cloud"}}}}}});
    AddClaim("shop", "data");
    api.OnCreate("pods", [this](support::FakeApiClient&, const Json& pod) { OnPod(pod); });
  }

  void AddClaim(const std::string& space, const std::string& name) {
    Json claim = {
        {"metadata", {{"name", name}, {"namespace", space}, {"uid", ClaimUid(space, name)}}}};
    claim["spec"] = {{"storageClassName", "shop-class"},
                     {"accessModes", Json::array({"ReadWriteOnce"})}};
    SetJson(claim, {"status", "capacity", "storage"}, absl::StrCat(kClaimBytes));
    SetJson(claim, {"status", "phase"}, "Bound");
    api.Seed(PersistentVolumeClaimType(), claim);
  }
  static std::string ClaimUid(const std::string& space, const std::string& name) {
    return absl::StrCat(
        "c1a10000-0000-4000-8000-",
        absl::Dec(std::hash<std::string>()(space + name) % 1000000000000ULL, absl::kZeroPad12));
  }

  // What Velero makes for one claim of a backup: a VolumeSnapshot, and a DataUpload "<name>".
  Json AddUpload(const std::string& name, const std::string& space = "shop",
                 const std::string& claim = "data") {
    const std::string snapshot = absl::StrCat("velero-", name);
    api.Create(ctx, VolumeSnapshotType(), space,
               {{"apiVersion", "snapshot.storage.k8s.io/v1"},
                {"kind", "VolumeSnapshot"},
                {"metadata", {{"name", snapshot}, {"namespace", space}}},
                {"spec",
                 {{"source", {{"persistentVolumeClaimName", claim}}},
                  {"volumeSnapshotClassName", "fast"}}}})
        .IgnoreError();
    const Json upload = api.Seed(
        DataUploadType(),
        {{"metadata",
          {{"name", name},
           {"namespace", "velero"},
           {"labels", {{"velero.io/pvc-uid", ClaimUid(space, claim)}}}}},
         {"spec",
          {{"snapshotType", "CSI"},
           {"datamover", "csi-delta"},
           {"backupStorageLocation", "default"},
           {"sourceNamespace", space},
           {"sourcePVC", claim},
           {"operationTimeout", "10m0s"},
           {"csiSnapshot", {{"volumeSnapshot", snapshot}, {"storageClass", "shop-class"}}}}}});
    api.ClearCalls();
    return upload;
  }

  // The base that an upload of a claim of "shop" left.
  Json AddBase(const std::string& claim, const std::string& of_cluster) {
    Json content = {{"metadata",
                     {{"name", "du-1"},
                      {"labels", {{objects::kBaseLabel, "true"}}},
                      {"annotations",
                       {{"mover.csi-delta.io/velero-namespace", "velero"},
                        {"mover.csi-delta.io/location", "default"},
                        {"mover.csi-delta.io/claim-namespace", "shop"},
                        {"mover.csi-delta.io/claim", claim},
                        {"mover.csi-delta.io/claim-uid", ClaimUid("shop", claim)},
                        {"mover.csi-delta.io/cluster", of_cluster}}}}}};
    content["spec"] = {{"driver", "d.example.com"},
                       {"deletionPolicy", "Retain"},
                       {"source", {{"snapshotHandle", "snap-1"}}}};
    return api.Seed(VolumeSnapshotContentType(), content);
  }

  void Cancel(const std::string& name) {
    api.SetField({DataUploadType(), "velero", name}, {"spec", "cancel"}, true);
  }
  Json Upload(const std::string& name = "nightly") const {
    return api.Find({DataUploadType(), "velero", name}).value_or(Json());
  }
  std::string PhaseOf(const std::string& name = "nightly") const {
    return GetString(Upload(name), {"status", "phase"});
  }
  std::string MessageOf(const std::string& name = "nightly") const {
    return GetString(Upload(name), {"status", "message"});
  }
  std::string TaskNameOfUpload(const std::string& name = "nightly") const {
    return TaskNameOf("DataUpload", k8s::Uid(Upload(name)));
  }
  std::optional<Json> Pod(const std::string& name = "nightly") const {
    return api.Find({PodType(), kMover, TaskNameOfUpload(name)});
  }
  std::optional<Json> Task(const std::string& name = "nightly") const {
    return api.Find({objects::VolumeTask::Type(), kMover, TaskNameOfUpload(name)});
  }

  // What the worker of this stem is told to do.
  objects::VolumeJob Job(const std::string& task_name) const {
    const absl::StatusOr<objects::VolumeJob> job =
        support::As<objects::VolumeTask>(
            api.Find({objects::VolumeTask::Type(), kMover, task_name}).value_or(Json::object()))
            .job();
    EXPECT_TRUE(job.ok()) << job.status();
    return job.value_or(objects::VolumeJob());
  }

  // Type and reason of each.
  std::vector<std::string> EventReasons() const {
    std::vector<std::string> reasons;
    for (const Json& event : api.All({"", "v1", "events", "Event", true})) {
      reasons.push_back(
          absl::StrCat(GetString(event, {"type"}), " ", GetString(event, {"reason"})));
    }
    return reasons;
  }

  // From now on objects are read as informers delivered them last: in TellWatchers().
  void UseCache() {
    if (env.cache != nullptr) {
      return;
    }
    informers_.emplace_back(csi::BaseContents()).Add(bases);
    Deliver(MadeForTasks(objects::VolumeSnapshotContent::Type(), ""));
    Deliver({.type = objects::VolumeTask::Type(), .namespace_name = kMover});
    for (const k8s::ResourceType* type :
         {&PodType(), &VolumeSnapshotType(), &PersistentVolumeClaimType()}) {
      Deliver(MadeForTasks(*type, kMover));
    }
    Deliver(csi::SourceSnapshots());
    for (const k8s::ResourceType* type : {&StorageClassType(), &VolumeSnapshotClassType()}) {
      Deliver({.type = *type});
    }
    const auto is_to_be_moved = objects::FilterOf<objects::DataTransfer>(
        [](const objects::DataTransfer& transfer) { return IsToBeMoved(transfer); });
    Deliver({.type = DataUploadType(), .namespace_name = "velero"}, is_to_be_moved);
    Deliver({.type = DataDownloadType(), .namespace_name = "velero"}, is_to_be_moved);
    env.cache = &cache;
    env.bases = &bases;
    TellWatchers();
  }

  // What informers tell, as it is now; those of one kind alone, where its plural is named.
  void TellWatchers(const std::string& plural = "") {
    for (k8s::Informer& informer : informers_) {
      const k8s::WatchedObjects& which = informer.objects();
      if (!plural.empty() && plural != which.type.plural) {
        continue;
      }
      std::vector<Json> objects = api.All(which.type);
      std::erase_if(objects, [&](const Json& object) {
        return (!which.namespace_name.empty() && k8s::Namespace(object) != which.namespace_name) ||
               !support::MatchesLabels(object, which.label_selector).value();
      });
      informer.OnAll(objects);
    }
    for (const Json& task : api.All(objects::VolumeTask::Type())) {
      env.running->RecordTask(support::As<objects::VolumeTask>(task));
    }
    std::set<std::string> pods;
    for (const Json& pod : api.All(PodType())) {
      env.running->RecordPod(support::As<objects::Pod>(pod));
      pods.insert(k8s::Name(pod));
    }
    for (const std::string& pod : std::exchange(pods_, pods)) {
      if (!pods.contains(pod)) {
        env.running->RecordPodGone(pod);
      }
    }
  }

  // As a worker writes it.
  void SetTaskStatus(const std::string& task_name, const Json& status) {
    api.SetField({objects::VolumeTask::Type(), kMover, task_name}, {"status"}, status);
  }
  void SetPodStatus(const std::string& task_name, const Json& status) {
    api.SetField({PodType(), kMover, task_name}, {"status"}, status);
  }

  // The kubelet has seen the end of the Pod's only container.
  void EndContainer(const std::string& task_name, int exit_code) {
    const Json terminated = {{"exitCode", exit_code}, {"containerID", "c"}};
    SetPodStatus(task_name,
                 {{"phase", exit_code == 0 ? "Succeeded" : "Failed"},
                  {"containerStatuses", Json::array({{{"state", {{"terminated", terminated}}}}})}});
  }

  // As the scheduler says it of a Pod that no node takes.
  void SetUnschedulable(const std::string& task_name, const std::string& why) {
    SetPodStatus(task_name, {{"phase", "Pending"},
                             {"conditions", Json::array({{{"type", "PodScheduled"},
                                                          {"status", "False"},
                                                          {"reason", "Unschedulable"},
                                                          {"message", why}}})}});
  }
  // A node has it, and its volume cannot be mapped, as the kubelet says in an Event alone.
  void FailToMount(const std::string& task_name, const std::string& why) {
    SetPodStatus(task_name,
                 {{"phase", "Pending"},
                  {"containerStatuses",
                   Json::array({{{"state", {{"waiting", {{"reason", "ContainerCreating"}}}}}}})}});
    api.SetField({PodType(), kMover, task_name}, {"spec", "nodeName"}, "node-1");
    api.Seed({"", "v1", "events", "Event", true},
             {{"metadata", {{"name", task_name + ".1"}, {"namespace", kMover}}},
              {"involvedObject", {{"uid", k8s::Uid(*api.Find({PodType(), kMover, task_name}))}}},
              {"type", "Warning"},
              {"reason", "FailedMapVolume"},
              {"message", why}});
  }
  // Another worker's Pod has the slot of that one on the only node.
  void TakeRoomOf(const std::string& task_name) {
    SetUnschedulable(task_name,
                     "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.");
    const std::string slot =
        k8s::Label(*api.Find({PodType(), kMover, task_name}), objects::kSlotLabel);
    api.Seed(PodType(),
             {{"metadata",
               {{"name", "du-other"},
                {"namespace", kMover},
                {"labels", {{objects::kMoverTaskLabel, "du-other"}, {objects::kSlotLabel, slot}}}}},
              {"spec", {{"nodeName", "node-1"}}},
              {"status", {{"phase", "Running"}}}});
  }
  void GiveRoom() { api.Remove({PodType(), kMover, "du-other"}); }

  // Of the task that is called `stem`.
  objects::Outcome OutcomeOfWorker(const std::string& task_name) const {
    objects::Outcome outcome{.code = objects::OutcomeCode::kDone, .cause = cause};
    if (task_name.starts_with("du-")) {
      outcome.backup = objects::BackupFigures{.snapshot_id = snapshot_id,
                                              .mode = "incremental",
                                              .reason = reason,
                                              .base = "b",
                                              .logical_bytes = kClaimBytes,
                                              .changed_bytes = 4096,
                                              .read_bytes = 4096,
                                              .audit_bytes = 512,
                                              .stored_bytes = 1024,
                                              .repository_bytes = 65536,
                                              .repository_snapshots = 2};
    } else if (task_name.starts_with("dd-")) {
      outcome.restore = objects::RestoreFigures{.file_system = file_system,
                                                .logical_bytes = kClaimBytes,
                                                .written_bytes = kClaimBytes,
                                                .host = restored_host,
                                                .path = restored_path};
    } else if (task_name.starts_with("ck-")) {
      outcome.check = objects::CheckFigures{
          .packs = 100, .packs_read = 5, .read_bytes = 5 << 20, .snapshots = 2};
    }
    return outcome;
  }
  // The worker ends, and its task with this phase.
  void End(const std::string& task_name, const char* phase, const objects::Outcome& outcome) {
    SetTaskStatus(task_name, {{"phase", phase}, {"outcome", ToJson(outcome)}});
    SetPodStatus(task_name, {{"phase", "Succeeded"}});
  }
  // The worker does what it was made for.
  void Finish(const std::string& task_name) {
    SetTaskStatus(task_name, {{"phase", "Succeeded"},
                              {"completionTimestamp", "2026-11-22T09:00:00Z"},
                              {"node", "node-1"},
                              {"outcome", ToJson(OutcomeOfWorker(task_name))}});
    SetPodStatus(task_name, {{"phase", "Succeeded"}});
  }

  support::FakeClock clock;
  support::FakeApiClient api{clock};
  support::FakeSnapshotCluster cluster{api};
  support::FakeSecureRandom secure_random;
  CallContext ctx{.deadline = absl::InfiniteDuration(), .stop = {}, .clock = &clock};
  k8s::ObjectCache cache;
  csi::BaseIndex bases;
  k8s::RecordingClient noting{api, cache};
  MoverEnvironment env{.api = noting,
                       .random = Random::Real(),
                       .secure_random = secure_random,
                       .mover_namespace = kMover,
                       .cluster = "c1000000-0000-4000-8000-000000000001",
                       .image = "csi-delta:test",
                       .worker_service_account = "csi-delta-worker",
                       .settings = {},
                       .cache = nullptr,
                       .bases = nullptr};

 private:
  void Deliver(const k8s::WatchedObjects& which, k8s::ObjectCache::Filter filter = {}) {
    cache.Add(informers_.emplace_back(which), std::move(filter));
  }

  std::deque<k8s::Informer> informers_;
  std::set<std::string> pods_;  // that there were

  void OnPod(const Json& pod) {
    ++pods_made;
    const std::string task_name = k8s::Name(pod);
    if (worker == Worker::kPending) {
      return;
    }
    api.Mutate({PodType(), kMover, task_name}, [](Json& started) {
      started["spec"]["nodeName"] = "node-1";
      started["status"] = {{"phase", "Running"}};
    });
    SetTaskStatus(task_name, {{"phase", "Running"},
                              {"stage", "transfer"},
                              {"doneBytes", 1 << 20},
                              {"totalBytes", kClaimBytes},
                              {"node", "node-1"}});
    if (worker == Worker::kSucceeds) {
      Finish(task_name);
    }
  }
};

}  // namespace csidelta::datamover
