#include "datamover/controller/download_reconciler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/rfc3339.h"
#include "datamover/controller/leftover_reconcilers.h"
#include "datamover/controller/upload_reconciler.h"
#include "datamover/records/restored_pvcs.h"
#include "datamover/repository_access.h"
#include "datamover/write_fence.h"
#include "inplace/in_place_volume.h"
#include "k8s/object.h"
#include "objects/copy_record.h"
#include "objects/keys.h"
#include "objects/persistent_volume.h"
#include "tests/datamover/mover_bed.h"
#include "tests/support/event_texts.h"
#include "tests/support/kind_names.h"
#include "tests/support/status_matchers.h"
#include "velero/data_reference.h"

namespace csidelta::datamover::download_reconciler_test {
namespace {

using support::Fault;
using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

const k8s::ResourceType kRestoreType = {"velero.io", "v1", "restores", "Restore", true};
constexpr char kSourceCluster[] = "c2000000-0000-4000-8000-000000000002";
constexpr char kSourceClaim[] = "c1a10000-0000-4000-8000-00000000000a";

// The bed around a restore: a location with a key, a target without a volume, a DataDownload.
class DownloadBed : public MoverBed {
 public:
  DownloadBed() {
    cluster.ProtectVolumes();
    api.Remove(ClaimKey("shop", "data"));
    reference_.cluster = kSourceCluster;
    reference_.namespace_name = "shop";
    reference_.claim_uid = kSourceClaim;
    reference_.snapshot_id = snapshot_id;
    const auto access = OpenRepositoryAccess(ctx, api,
                                             {.velero_namespace = "velero",
                                              .location = "default",
                                              .mover_namespace = kMover,
                                              .repository_path = velero::RepositoryPath(reference_),
                                              .for_writing = true,
                                              .written_with_key = ""},
                                             secure_random);
    EXPECT_THAT(access, IsOk());
    reference_.key = access.ok() ? access->key_fingerprint : "";
  }

  // What Velero makes for one claim of a restore.
  void AddDownload(const std::string& mode = "Filesystem") {
    AddTarget(mode);
    AddDownloadOf(velero::FormatDataReference(reference_));
  }
  void AddTarget(const std::string& mode, const std::string& name = "data") {
    Json claim = {{"metadata", {{"name", name}, {"namespace", "new"}}}};
    claim["spec"] = {
        {"storageClassName", "shop-class"},
        {"volumeMode", mode},
        {"accessModes", Json::array({"ReadWriteOnce"})},
        {"resources", {{"requests", {{"storage", absl::StrCat(kClaimBytes)}}}}},
        {"selector", {{"matchLabels", {{objects::kDynamicPvRestoreLabel, "new.data.x"}}}}}};
    SetJson(claim, {"status", "phase"}, "Pending");
    api.Seed(PersistentVolumeClaimType(), claim);
  }
  // What restore --into asks for: a PVC that has a volume, which no Pod uses.
  void AddInPlace(const std::string& uid = "target-uid", const std::string& mode = "Block") {
    env.settings.writes_into_existing = true;
    Json claim = {{"metadata", {{"name", "data"}, {"namespace", "new"}, {"uid", "target-uid"}}}};
    claim["spec"] = {{"storageClassName", "shop-class"},
                     {"volumeMode", mode},
                     {"volumeName", "pv-target"},
                     {"accessModes", Json::array({"ReadWriteOnce"})}};
    SetJson(claim, {"status", "phase"}, "Bound");
    api.Seed(PersistentVolumeClaimType(), claim);
    Json volume = {{"metadata", {{"name", "pv-target"}}}, {"status", {{"phase", "Bound"}}}};
    volume["spec"] = {{"accessModes", Json::array({"ReadWriteOnce"})},
                      {"capacity", {{"storage", absl::StrCat(kClaimBytes)}}},
                      {"claimRef", {{"namespace", "new"}, {"name", "data"}, {"uid", "target-uid"}}},
                      {"csi", {{"driver", "d.example.com"}, {"volumeHandle", "v-target"}}},
                      {"persistentVolumeReclaimPolicy", "Delete"},
                      {"volumeMode", mode}};
    api.Seed(PersistentVolumeType(), volume);
    AddDownloadOf(velero::FormatDataReference(reference_),
                  {{objects::kIntoAnnotation, uid},
                   {objects::kIntoUploadAnnotation, "nightly"},
                   {objects::kStartBeforeAnnotation, FormatRfc3339(clock.Now() + kStartTime)}},
                  "pv-target");
    SetConsent(k8s::Uid(Download()));
  }
  void SetConsent(const std::string& uid) {
    api.SetField(ClaimKey("new", "data"), {"metadata", "annotations", objects::kMayWriteAnnotation},
                 uid);
  }
  static constexpr absl::Duration kStartTime = absl::Minutes(30);
  void ChangeDownload(const std::function<void(Json&)>& change) {
    api.Mutate({DataDownloadType(), "velero", "restore-1"}, change);
  }
  // The Restore "r" of Velero.
  void SeedRestore(const char* phase, const Json& spec = {{"backupName", "b"}}) {
    api.Seed(kRestoreType, {{"metadata", {{"name", "r"}, {"namespace", "velero"}, {"uid", "u"}}},
                            {"spec", spec},
                            {"status", {{"phase", phase}}}});
  }
  void WaitForConsumers() {
    api.SetField({StorageClassType(), "", "shop-class"}, {"volumeBindingMode"},
                 "WaitForFirstConsumer");
  }
  // Another PVC, and what restores it.
  void AddOther(const std::string& name, const std::string& claim) {
    AddTarget("Filesystem", claim);
    AddDownloadOf(velero::FormatDataReference(reference_), {}, "", name, claim);
  }
  // A Restore of Velero owns the DataDownload.
  void OwnByRestore(const std::string& name) {
    ChangeDownload([&](Json& download) {
      SetJson(download, {"metadata", "ownerReferences"},
              Json::array({{{"apiVersion", "velero.io/v1"},
                            {"kind", "Restore"},
                            {"name", name},
                            {"uid", "u"}}}));
    });
  }
  // The volume that the worker has in place is attached, and stays so until it is removed.
  void AttachVolume() {
    api.SetField(VolumeKey(TaskName()), {"metadata", "finalizers"},
                 Json::array({"external-attacher/d-example-com"}));
  }
  void AddUser() {
    api.Seed(PodType(),
             {{"metadata", {{"name", "app-0"}, {"namespace", "new"}}},
              {"spec",
               {{"volumes", Json::array({{{"persistentVolumeClaim", {{"claimName", "data"}}}}})}}},
              {"status", {{"phase", "Running"}}}});
  }
  // As a worker that is told to end.
  void EndWorker() { SetTaskStatus(TaskName(), {{"phase", "Canceled"}}); }
  std::string Consent() const { return k8s::Annotation(Target(), objects::kMayWriteAnnotation); }
  // What the PVC says of a restore that is not complete.
  std::optional<objects::CopyRecord> Record() const {
    return objects::ParseCopyRecord(*objects::PersistentVolumeClaim::Of(Target()));
  }
  // The PVC has the volume that it had, which goes when the PVC does, and not before.
  void ExpectVolumeKept() const {
    EXPECT_EQ(GetString(Target(), {"spec", "volumeName"}), "pv-target");
    const auto volume = api.Find(VolumeKey("pv-target"));
    ASSERT_TRUE(volume.has_value());
    EXPECT_EQ(GetString(*volume, {"spec", "persistentVolumeReclaimPolicy"}), "Delete");
    EXPECT_EQ(GetString(*volume, {"spec", "claimRef", "uid"}), "target-uid");
  }

  void AddDownloadOf(const std::string& snapshot,
                     const std::map<std::string, std::string>& annotations = {},
                     const std::string& volume = "", const std::string& name = "restore-1",
                     const std::string& claim = "data") {
    api.Seed(DataDownloadType(),
             {{"metadata", {{"name", name}, {"namespace", "velero"}, {"annotations", annotations}}},
              {"spec",
               {{"datamover", "csi-delta"},
                {"backupStorageLocation", "default"},
                {"sourceNamespace", "shop"},
                {"snapshotID", snapshot},
                {"operationTimeout", "10m0s"},
                {"targetVolume", {{"namespace", "new"}, {"pvc", claim}, {"pv", volume}}}}}});
    api.ClearCalls();
  }

  Json Download() const {
    return api.Find({DataDownloadType(), "velero", "restore-1"}).value_or(Json());
  }
  std::string Phase() const { return GetString(Download(), {"status", "phase"}); }
  std::string Message() const { return GetString(Download(), {"status", "message"}); }
  std::string TaskName() const { return TaskNameOf("DataDownload", k8s::Uid(Download())); }
  Json Target() const { return api.Find(ClaimKey("new", "data")).value_or(Json()); }
  void Cancel() {
    api.SetField({DataDownloadType(), "velero", "restore-1"}, {"spec", "cancel"}, true);
  }
  std::string TargetPhase() const { return GetString(Target(), {"status", "phase"}); }

  // The backup is of the PVC that is restored.
  void RestoreTheSamePvc() {
    reference_.namespace_name = "new";
    restored_host = reference_.cluster;
    restored_path = "/new/data";
  }
  // What the mover recorded of the target.
  std::optional<RestoredPvc> Restored() {
    const auto found = FindRestored(ctx, env, {"velero", "default", "new", "data"});
    EXPECT_THAT(found, IsOk());
    return found.value_or(std::nullopt);
  }

  velero::DataReference reference_;
};

// One controller, from its start: what it knows is what the API server holds.
class Controller {
 public:
  // Looks so often at all DataDownloads.
  explicit Controller(DownloadBed& bed, int looks = 0)
      : bed_((bed.UseCache(), bed)),
        scheduler_(
            LimitsOf(bed.env.settings), bed.clock, [] { return true; }, [](const std::string&) {}),
        reconciler_(bed.env, scheduler_, [this](const TransferEnd& end) { ends.push_back(end); }) {
    LookTimes(looks);
  }

  void LookTimes(int times) {
    for (int i = 0; i < times; ++i) {
      bed_.TellWatchers();
      for (const Json& download : bed_.api.All(DataDownloadType())) {
        if (std::optional<QueuedTransfer> queued = QueuedDownload(objects::Object(download));
            queued.has_value()) {
          scheduler_.Put(*std::move(queued));
        } else {
          scheduler_.Remove(k8s::Uid(download));
        }
        last = reconciler_.Reconcile(bed_.ctx, download).status();
      }
      ReleaseClaims();
      bed_.clock.Advance(absl::Milliseconds(500));
    }
  }
  // Until it is over, but not longer than that.
  void LookUntilOver(int times) {
    for (int i = 0; i < times && QueuedDownload(objects::Object(bed_.Download())).has_value();
         ++i) {
      LookTimes(1);
    }
  }
  TransferScheduler& scheduler() { return scheduler_; }

  // As the loop over tasks does for those that are never enqueued.
  void Sweep() {
    for (const Json& task : bed_.api.All(objects::VolumeTask::Type())) {
      EXPECT_THAT(
          RemoveDownloadLeftovers(bed_.ctx, bed_.env, support::As<objects::VolumeTask>(task)),
          IsOk());
    }
    support::DeleteFreeVolumes(bed_.api);
  }

  std::vector<TransferEnd> ends;
  absl::Status last;

 private:
  void ReleaseClaims() {
    ClaimReconciler claims(bed_.env);
    for (const Json& claim : bed_.api.All(PersistentVolumeClaimType())) {
      if (claims.Concerns(claim)) {
        claims.Reconcile(bed_.ctx, claim).IgnoreError();
      }
    }
  }

  DownloadBed& bed_;
  TransferScheduler scheduler_;
  DownloadReconciler reconciler_;
};

// What is left when nothing runs: the keyring, and what was there before.
void ExpectNothingLeft(const DownloadBed& bed, std::size_t volumes, std::size_t secrets = 2) {
  EXPECT_THAT(bed.api.All(PodType()), IsEmpty());
  EXPECT_THAT(bed.api.All(objects::VolumeTask::Type()), IsEmpty());
  EXPECT_THAT(bed.api.All(SecretType()), SizeIs(secrets));
  EXPECT_THAT(bed.api.All(PersistentVolumeClaimType()), SizeIs(1));
  EXPECT_THAT(bed.api.All(PersistentVolumeType()), SizeIs(volumes));
  const Json download = bed.Download();
  if (const Json* finalizers = FindJson(download, {"metadata", "finalizers"})) {
    EXPECT_THAT(*finalizers, IsEmpty());
  }
}

class DownloadReconcilerTest : public testing::Test {
 protected:
  // The controller of a download whose worker runs.
  Controller& StartRunning() {
    bed_.worker = MoverBed::Worker::kRuns;
    bed_.AddDownload();
    return LookUntilItRuns(5);
  }
  Controller& StartInPlace() {
    bed_.worker = MoverBed::Worker::kRuns;
    bed_.AddInPlace();
    return LookUntilItRuns(8);
  }

  DownloadBed bed_;
  std::optional<Controller> started_;

 private:
  Controller& LookUntilItRuns(int looks) {
    Controller& controller = started_.emplace(bed_, looks);
    EXPECT_EQ(bed_.Phase(), "InProgress") << bed_.Message();
    return controller;
  }
};

TEST_F(DownloadReconcilerTest, GoesFromNewToCompletedInEitherMode) {
  for (const char* mode : {"Block", "Filesystem"}) {
    SCOPED_TRACE(mode);
    DownloadBed bed;
    bed.AddDownload(mode);
    Controller controller(bed, 8);
    EXPECT_EQ(bed.Phase(), "Completed") << bed.Message();
    EXPECT_EQ(bed.TargetPhase(), "Bound");
    const auto volume = bed.api.Find(VolumeKey(GetString(bed.Target(), {"spec", "volumeName"})));
    ASSERT_TRUE(volume.has_value());
    EXPECT_EQ(GetString(*volume, {"spec", "volumeMode"}), mode);
    EXPECT_EQ(k8s::Label(*volume, objects::kDynamicPvRestoreLabel), "new.data.x");
    EXPECT_NE(GetString(bed.Download(), {"status", "completionTimestamp"}), "");
    EXPECT_NE(GetString(bed.Download(), {"status", "startTimestamp"}), "");
    EXPECT_EQ(GetString(bed.Download(), {"status", "node"}), "");
    EXPECT_EQ(k8s::Label(bed.Download(), objects::kExcludeFromBackupLabel), "true")
        << "one that a restore brings back would write again";
    EXPECT_THAT(controller.ends, SizeIs(1));
    ExpectNothingLeft(bed, 1);
  }
}

// A larger PVC has a larger volume, and no resizer sees that its file system is not.
TEST_F(DownloadReconcilerTest, AFileSystemThatLeavesVolumeUnusedIsReported) {
  for (const auto& [mode, factor, reports] :
       {std::tuple("Filesystem", 2, 1), std::tuple("Filesystem", 1, 0),
        std::tuple("Block", 2, 0)}) {
    SCOPED_TRACE(absl::StrCat(mode, factor));
    DownloadBed bed;
    bed.AddDownload(mode);
    bed.api.Mutate(ClaimKey("new", "data"), [factor = factor](Json& claim) {
      SetJson(claim, {"spec", "resources", "requests", "storage"},
              absl::StrCat(factor * MoverBed::kClaimBytes));
    });
    Controller controller(bed, 8);
    EXPECT_EQ(bed.Phase(), "Completed") << bed.Message();
    std::vector<std::string> texts = support::EventTexts(bed.api);
    std::erase_if(texts,
                  [](const auto& one) { return !absl::StrContains(one, " FileSystemNotGrown: "); });
    EXPECT_THAT(texts, SizeIs(reports));
    EXPECT_THAT(texts, testing::Each(AllOf(HasSubstr("new/data has 192Mi, its file system 96Mi"),
                                           HasSubstr(R"("storage":"1216Mi")"))));
  }
}

TEST_F(DownloadReconcilerTest, AVolumeIsMountedAsWhatItHolds) {
  for (const auto& [seen, mounted] :
       {std::pair("xfs", "xfs"), std::pair("", "ext4"), std::pair("xfs,suid", "ext4")}) {
    SCOPED_TRACE(seen);
    DownloadBed bed;
    bed.file_system = seen;
    bed.AddDownload("Filesystem");
    bed.api.SetField({DataDownloadType(), "velero", "restore-1"},
                     {"spec", "targetVolume", "fsType"}, "ext4");
    Controller controller(bed, 8);
    ASSERT_EQ(bed.Phase(), "Completed") << bed.Message();
    const auto volume = bed.api.Find(VolumeKey(GetString(bed.Target(), {"spec", "volumeName"})));
    ASSERT_TRUE(volume.has_value());
    EXPECT_EQ(GetString(*volume, {"spec", "csi", "fsType"}), mounted);
  }
}

TEST_F(DownloadReconcilerTest, TheWorkerIsToldWhatToDo) {
  StartRunning();
  EXPECT_EQ(GetInt(bed_.Download(), {"status", "progress", "bytesDone"}), 1 << 20);
  const objects::VolumeJob job = bed_.Job(bed_.TaskName());
  EXPECT_EQ(job.work, objects::VolumeWork(objects::DownloadWork{.device = "/dev/volume",
                                                                .snapshot_id = bed_.snapshot_id}));
  EXPECT_EQ(job.repository.address, absl::StrCat("s3:http://s3:9000/b/p/plugins/csi-delta/",
                                                 kSourceCluster, "/shop/", kSourceClaim));
  EXPECT_EQ(job.lock_wait, std::nullopt);
  EXPECT_EQ(job.limits.memory_bytes, MemoryBudgetBytes(bed_.env.settings.worker.resources));
  const auto task = support::As<objects::VolumeTask>(
                        *bed_.api.Find(objects::VolumeTask::Key("mover", bed_.TaskName())))
                        .spec();
  ASSERT_THAT(task, IsOk());
  EXPECT_EQ(task->kind, objects::TaskKind::kDownload);
  EXPECT_EQ(task->subject.kind, "DataDownload");
}

TEST_F(DownloadReconcilerTest, AForeignSnapshotIdIsRefusedBeforeAnythingIsMade) {
  bed_.AddTarget("Block");
  for (const std::string& text :
       std::vector<std::string>{"", "csi-delta/1/../../x", "kopia-id",
                                velero::FormatDataReference(bed_.reference_) + "/more"}) {
    SCOPED_TRACE(text);
    bed_.AddDownloadOf(text);
    Controller(bed_).LookTimes(2);
    EXPECT_EQ(bed_.Phase(), "Failed");
    EXPECT_THAT(bed_.Message(), HasSubstr("snapshotID"));
    EXPECT_EQ(bed_.api.CallCount("create", "*"), 0);
    bed_.api.Remove({DataDownloadType(), "velero", "restore-1"});
  }
}

// Another one may open the repository; where none does, the one that did is named.
TEST_F(DownloadReconcilerTest, AKeyThatIsNotThereIsTriedWithoutAndNamedWhenNoneFits) {
  bed_.worker = MoverBed::Worker::kRuns;
  bed_.reference_.key = std::string(16, '0');
  bed_.AddDownload();
  Controller controller(bed_, 5);
  EXPECT_EQ(bed_.Phase(), "InProgress") << bed_.Message();
  bed_.SetTaskStatus(bed_.TaskName(),
                     {{"phase", "Failed"},
                      {"outcome", objects::ToJson({.code = objects::OutcomeCode::kFailed,
                                                   .cause = objects::OutcomeCause::kNoKey,
                                                   .message = "no key opens it"})}});
  bed_.SetPodStatus(bed_.TaskName(), {{"phase", "Failed"}});
  controller.LookTimes(3);
  EXPECT_EQ(bed_.Phase(), "Failed");
  EXPECT_THAT(bed_.Message(), AllOf(StartsWith("volume new/data (downloading)"),
                                    HasSubstr("no key opens it"), HasSubstr("0000000000000000")));
  support::DeleteFreeVolumes(bed_.api);
  ExpectNothingLeft(bed_, 0);
  EXPECT_EQ(bed_.TargetPhase(), "Pending");
}

TEST_F(DownloadReconcilerTest, ATargetThatNeverComesEndsAtThePrepareTimeout) {
  bed_.AddDownloadOf(velero::FormatDataReference(bed_.reference_));
  Controller controller(bed_, 3);
  EXPECT_EQ(bed_.Phase(), "Accepted");
  EXPECT_THAT(bed_.Message(), HasSubstr("claim new/data to be made"));
  bed_.clock.Advance(absl::Minutes(31));
  controller.LookTimes(2);
  EXPECT_EQ(bed_.Phase(), "Failed");
  EXPECT_THAT(bed_.Message(), AllOf(HasSubstr("not prepared within 30m"), HasSubstr("new/data")));
  EXPECT_THAT(bed_.EventReasons(), ElementsAre("Warning Failed"));
}

// Velero's own action made the DataDownload, and the plugin died in the next one: the PVC never
// comes, and Velero waits for the DataDownload.
TEST_F(DownloadReconcilerTest, ATargetThatVeleroDidNotRestoreEndsAtOnce) {
  bed_.SeedRestore("InProgress");
  bed_.AddDownloadOf(velero::FormatDataReference(bed_.reference_));
  bed_.OwnByRestore("r");
  Controller controller(bed_, 3);
  EXPECT_EQ(bed_.Phase(), "Accepted") << bed_.Message();
  for (const char* const later : {"NotYetInvented", "New", ""}) {
    bed_.SeedRestore(later);
    controller.LookTimes(1);
    EXPECT_EQ(bed_.Phase(), "Accepted") << later;
  }
  bed_.SeedRestore("WaitingForPluginOperationsPartiallyFailed");
  controller.LookTimes(2);
  EXPECT_EQ(bed_.Phase(), "Failed");
  EXPECT_THAT(bed_.Message(), AllOf(HasSubstr("new/data was not restored"), HasSubstr("Restore r"),
                                    HasSubstr("WaitingForPluginOperationsPartiallyFailed")));
  EXPECT_THAT(bed_.api.All(objects::VolumeTask::Type()), IsEmpty());
}

TEST_F(DownloadReconcilerTest, ATargetThatIsThereIsFilledWhateverItsRestoreIsAt) {
  bed_.worker = MoverBed::Worker::kRuns;
  bed_.SeedRestore("WaitingForPluginOperations", {});
  bed_.AddDownload();
  bed_.OwnByRestore("r");
  Controller(bed_).LookTimes(5);
  EXPECT_EQ(bed_.Phase(), "InProgress") << bed_.Message();
}

TEST_F(DownloadReconcilerTest, ADownloadWhoseRestoreIsGoneWaitsForItsTarget) {
  bed_.AddDownloadOf(velero::FormatDataReference(bed_.reference_));
  bed_.OwnByRestore("gone");
  Controller controller(bed_);
  controller.LookTimes(3);  // None exists: the DataDownload goes with it.
  EXPECT_EQ(bed_.Phase(), "Accepted") << bed_.Message();
}

// Restored without the Pods that use them, or with Pods that are started later.
TEST_F(DownloadReconcilerTest, TargetsThatWaitForAConsumerHoldNoAdmissions) {
  bed_.worker = MoverBed::Worker::kRuns;
  bed_.WaitForConsumers();
  constexpr int kRestores = 12;
  for (int i = 0; i < kRestores; ++i) {
    bed_.AddOther(absl::StrCat("restore-", i), absl::StrCat("data-", i));
  }
  Controller controller(bed_, 4);
  EXPECT_THAT(bed_.Message(), HasSubstr("a Pod that uses claim new/data-1 to be scheduled"));
  bed_.AddClaim("shop", "data");
  const Json upload = bed_.AddUpload("nightly");
  UploadReconciler uploads(bed_.env, controller.scheduler(), [](const TransferEnd&) {});
  for (int i = 0; i < 8; ++i) {
    bed_.TellWatchers();
    controller.scheduler().Put(*QueuedUpload(objects::Object(bed_.Upload())));
    ASSERT_THAT(uploads.Reconcile(bed_.ctx, upload), IsOk());
  }
  EXPECT_EQ(bed_.PhaseOf(), "InProgress") << bed_.MessageOf();
  // One gets its consumer.
  bed_.api.SetField(ClaimKey("new", "data-1"),
                    {"metadata", "annotations", objects::kSelectedNodeAnnotation}, "node-1");
  controller.LookTimes(6);
  EXPECT_EQ(bed_.Phase(), "InProgress") << bed_.Message();
  EXPECT_EQ(controller.scheduler().counts().admitted, 2);
  EXPECT_THAT(bed_.api.All(PodType()), SizeIs(2));
}

// The scheduler's message does not name it.
TEST_F(DownloadReconcilerTest, TheRefusalOfAVolumeThatWaitsForItsPodIsNamed) {
  bed_.worker = MoverBed::Worker::kPending;
  bed_.env.settings.ignore_delay_binding = true;
  bed_.AddDownload();
  bed_.WaitForConsumers();
  bed_.api.SetField(ClaimKey("new", "data"), {"spec", "volumeAttributesClassName"}, "gold");
  Controller controller(bed_, 6);
  bed_.SetUnschedulable(bed_.TaskName(), "0/3 nodes are available");
  controller.LookTimes(2);
  const auto named = AllOf(HasSubstr("0/3 nodes are available"), HasSubstr("\"gold\" not found"));
  EXPECT_THAT(bed_.Message(), named);
  bed_.clock.Advance(bed_.env.settings.prepare_timeout);
  controller.LookTimes(3);
  EXPECT_EQ(bed_.Phase(), "Failed");
  EXPECT_THAT(bed_.Message(), named);
}

// A restore of the PVC alone brings no Pod, and perhaps none ever comes.
TEST_F(DownloadReconcilerTest, ARestoreWithoutPodsFillsWithoutAConsumer) {
  for (const bool has_pods : {true, false}) {
    SCOPED_TRACE(has_pods);
    DownloadBed bed;
    bed.WaitForConsumers();
    Json resources = {"persistentvolumeclaims", "persistentvolumes"};
    if (has_pods) {
      resources.push_back("pods");
    }
    bed.SeedRestore("WaitingForPluginOperations",
                    {{"backupName", "b"}, {"includedResources", resources}});
    bed.AddDownload();
    bed.OwnByRestore("r");
    Controller(bed).LookTimes(10);
    EXPECT_EQ(bed.Phase(), has_pods ? "Accepted" : "Completed") << bed.Message();
    EXPECT_EQ(bed.TargetPhase(), has_pods ? "Pending" : "Bound");
    EXPECT_EQ(bed.api.All(PersistentVolumeType()).size(), has_pods ? 0U : 1U);
  }
}

TEST_F(DownloadReconcilerTest, TheLimitOfItsStorageClassHoldsForADownload) {
  bed_.env.settings.storage_classes["shop-class"].transfers_max = 1;
  bed_.worker = MoverBed::Worker::kRuns;
  bed_.AddDownload();
  bed_.clock.Advance(absl::Seconds(1));
  bed_.AddOther("restore-2", "data-2");
  bed_.clock.Advance(absl::Seconds(1));
  bed_.AddDownloadOf(velero::FormatDataReference(bed_.reference_), {}, "", "restore-3", "data-3");
  const auto message = [&](const std::string& name) {
    return GetString(bed_.api.Find({DataDownloadType(), "velero", name}).value_or(Json()),
                     {"status", "message"});
  };
  Controller controller(bed_, 6);
  EXPECT_EQ(bed_.Phase(), "InProgress") << bed_.Message();
  EXPECT_EQ(message("restore-2"), "waits: at most 1 transfer of storage class shop-class at once");
  // A PVC that comes later has its class then.
  EXPECT_THAT(message("restore-3"), HasSubstr("claim new/data-3 to be made"));
  bed_.AddTarget("Filesystem", "data-3");
  controller.LookTimes(3);
  EXPECT_EQ(message("restore-3"), "waits: at most 1 transfer of storage class shop-class at once");
}

// The first Pod may write on, on an unreachable node, until it finds itself cut off.
TEST_F(DownloadReconcilerTest, AVolumeIsNotGivenAwayWhileALostPodMayWriteIntoIt) {
  Controller& controller = StartRunning();
  bed_.api.Remove({PodType(), MoverBed::kMover, bed_.TaskName()});  // By force.
  bed_.worker = MoverBed::Worker::kSucceeds;
  controller.LookTimes(2);
  bed_.clock.Advance(kFencedAfter - absl::Seconds(10));
  controller.LookTimes(4);
  EXPECT_EQ(bed_.pods_made, 1);
  EXPECT_EQ(bed_.TargetPhase(), "Pending");
  bed_.clock.Advance(absl::Seconds(10));
  controller.LookTimes(8);
  EXPECT_EQ(bed_.pods_made, 2);
  EXPECT_EQ(bed_.Phase(), "Completed") << bed_.Message();
  EXPECT_EQ(bed_.TargetPhase(), "Bound");
}

TEST_F(DownloadReconcilerTest, AVolumeThatIsNotBoundIsTriedAgainAndThenGivenUp) {
  bed_.AddDownload("Block");
  Controller controller(bed_);
  bed_.api.Forbid("patch", "persistentvolumes");
  controller.LookTimes(8);
  EXPECT_EQ(bed_.Phase(), "InProgress") << bed_.Message();
  EXPECT_TRUE(absl::IsPermissionDenied(controller.last)) << controller.last;
  bed_.clock.Advance(kBindingTimeMax);
  controller.LookTimes(2);
  EXPECT_EQ(bed_.Phase(), "Failed");
  EXPECT_THAT(bed_.Message(), AllOf(HasSubstr("(binding)"), HasSubstr("not bound")));
}

// What attached the volume is a node that died: the storage gives it free hours later.
TEST_F(DownloadReconcilerTest, ACompleteRestoreWaitsForHoursAndHoldsNoAdmission) {
  bed_.env.settings.transfers_max = 1;
  Controller& controller = StartRunning();
  const std::string volume = GetString(*bed_.api.Find(ClaimKey(MoverBed::kMover, bed_.TaskName())),
                                       {"spec", "volumeName"});
  bed_.api.Mutate(VolumeKey(volume), [](Json& attached) {
    attached["metadata"]["finalizers"].push_back("external-attacher/d-example-com");
  });
  bed_.Finish(bed_.TaskName());
  controller.LookTimes(4);
  EXPECT_EQ(bed_.Phase(), "InProgress");
  EXPECT_THAT(bed_.Message(), AllOf(StartsWith("all of its data is restored; until "),
                                    HasSubstr("volume " + volume + " to be detached")));
  const absl::Time until = bed_.clock.Now() + kBindingTimeMax;
  EXPECT_THAT(bed_.Message(), HasSubstr(FormatRfc3339Seconds(until).substr(0, 14)));
  EXPECT_EQ(controller.scheduler().counts().admitted, 0);
  bed_.AddOther("restore-2", "other");
  controller.LookTimes(6);
  EXPECT_EQ(controller.scheduler().counts().admitted, 1) << "the other one";
  for (int hour = 0; hour < 23; ++hour) {
    bed_.clock.Advance(absl::Hours(1));
    Controller(bed_).LookTimes(1);
    ASSERT_EQ(bed_.Phase(), "InProgress") << bed_.Message();
  }
  bed_.api.Remove(VolumeKey(volume));
  controller.LookTimes(6);
  EXPECT_EQ(bed_.Phase(), "Completed") << bed_.Message();
  EXPECT_EQ(bed_.TargetPhase(), "Bound");
}

// It died between the last message of the worker and the end of its Pod, which is not ended.
TEST_F(DownloadReconcilerTest, ACompleteRestoreOfADeadNodeIsBound) {
  Controller& controller = StartRunning();
  bed_.api.SetField({PodType(), MoverBed::kMover, bed_.TaskName()}, {"metadata", "finalizers"},
                    Json::array({support::kKubeletFinalizer}));
  bed_.Finish(bed_.TaskName());
  bed_.SetPodStatus(bed_.TaskName(), {{"phase", "Running"}});
  controller.LookTimes(4);
  ASSERT_EQ(bed_.Phase(), "InProgress") << bed_.Message();
  EXPECT_THAT(bed_.Message(), HasSubstr(bed_.TaskName() + " to be gone"));
  bed_.clock.Advance(kPodGoneAfter);
  controller.LookTimes(6);
  EXPECT_EQ(bed_.Phase(), "Completed") << bed_.Message();
}

TEST_F(DownloadReconcilerTest, WhatIsCancelledWhileTheBinderIsSlowStaysThePvcs) {
  for (const char* policy : {"Retain", "Delete"}) {
    SCOPED_TRACE(policy);
    DownloadBed bed;
    bed.cluster.reclaim_policy = policy;
    bed.cluster.binder_runs = false;
    bed.AddDownload("Block");
    Controller controller(bed, 8);
    ASSERT_EQ(bed.Phase(), "InProgress") << bed.Message();
    EXPECT_THAT(bed.Message(), HasSubstr("to be bound to volume"));
    bed.Cancel();
    controller.LookTimes(2);
    bed.clock.Advance(kWorkerStopTimeMax);
    controller.LookTimes(2);
    EXPECT_EQ(bed.Phase(), "Canceled") << bed.Message();
    support::DeleteFreeVolumes(bed.api);
    bed.cluster.binder_runs = true;
    bed.cluster.Resync();
    EXPECT_EQ(bed.TargetPhase(), "Bound");
    const std::vector<Json> volumes = bed.api.All(PersistentVolumeType());
    ASSERT_THAT(volumes, SizeIs(1));
    EXPECT_EQ(GetString(volumes[0], {"spec", "persistentVolumeReclaimPolicy"}), policy);
    EXPECT_EQ(k8s::Annotation(volumes[0], objects::kVolumeOfAnnotation), "");
  }
}

TEST_F(DownloadReconcilerTest, ARebindingThatIsCalledOffIsNotAwaitedWithoutEnd) {
  bed_.AddDownload("Block");
  Controller controller(bed_);
  bed_.api.Forbid("patch", "persistentvolumes");
  controller.LookTimes(8);
  ASSERT_EQ(bed_.Phase(), "InProgress") << bed_.Message();
  bed_.Cancel();
  controller.LookTimes(2);
  EXPECT_EQ(bed_.Phase(), "Canceling") << bed_.Message();
  bed_.clock.Advance(kWorkerStopTimeMax);
  controller.LookTimes(2);
  EXPECT_EQ(bed_.Phase(), "Canceled") << bed_.Message();
}

TEST_F(DownloadReconcilerTest, ItIsCancelledInEveryPhase) {
  std::set<std::string> met;
  for (const absl::string_view pod : {"waits", "says nothing", "runs"}) {
    for (int looks = 0; looks < 7; ++looks) {
      SCOPED_TRACE(absl::StrCat("the Pod ", pod, ", after looks: ", looks));
      DownloadBed bed;
      bed.worker = pod == "runs" ? MoverBed::Worker::kRuns : MoverBed::Worker::kPending;
      bed.AddDownload();
      Controller controller(bed);
      for (int look = 0; look < looks; ++look) {
        controller.LookTimes(1);
        if (pod == "says nothing" && bed.api.Find({PodType(), MoverBed::kMover, bed.TaskName()})) {
          bed.SetPodStatus(bed.TaskName(), {{"phase", "Running"}});
        }
      }
      met.insert(bed.Phase());
      bed.Cancel();
      controller.LookTimes(1);
      EXPECT_THAT(bed.Phase(), testing::AnyOf("Canceling", "Canceled"));
      controller.LookTimes(20);
      EXPECT_EQ(bed.Phase(), "Canceled") << bed.Message();
      support::DeleteFreeVolumes(bed.api);
      ExpectNothingLeft(bed, 0);
      EXPECT_EQ(bed.TargetPhase(), "Pending");
    }
  }
  EXPECT_THAT(met, ElementsAre("", "Accepted", "InProgress", "Prepared"));
}

// --- In place

TEST_F(DownloadReconcilerTest, WhatFilledAPvcIsRecorded) {
  bed_.RestoreTheSamePvc();
  StartRunning().LookTimes(2);
  EXPECT_FALSE(bed_.Restored().has_value()) << "not filled yet";
  bed_.Finish(bed_.TaskName());
  started_->LookTimes(8);
  ASSERT_EQ(bed_.Phase(), "Completed") << bed_.Message();
  const std::optional<RestoredPvc> restored = bed_.Restored();
  ASSERT_TRUE(restored.has_value());
  EXPECT_EQ(restored->pvc_uid, k8s::Uid(bed_.Target()));
  EXPECT_EQ(restored->source, bed_.reference_);
  EXPECT_EQ(restored->data_bytes, MoverBed::kClaimBytes);
  EXPECT_THAT(bed_.EventReasons(), Contains("Normal RestoredFromAnotherCluster"));
}

TEST_F(DownloadReconcilerTest, ARestoreWhoseRecordIsRefusedIsCompleteAllTheSame) {
  bed_.RestoreTheSamePvc();
  StartRunning();
  bed_.api.Forbid("create", "secrets");  // As a quota does.
  bed_.Finish(bed_.TaskName());
  started_->LookTimes(8);
  EXPECT_EQ(bed_.Phase(), "Completed") << bed_.Message();
  EXPECT_FALSE(bed_.Restored().has_value());
}

// By what the repository says, and not by what the DataDownload does, which others may write.
TEST_F(DownloadReconcilerTest, OfAPvcOfAnotherNameNothingIsRecorded) {
  for (void (*const change)(DownloadBed&) :
       {+[](DownloadBed& bed) { bed.restored_path = "/new/other"; },
        +[](DownloadBed& bed) { bed.restored_path = "/shop/data"; },
        +[](DownloadBed& bed) { bed.restored_path.clear(); },
        +[](DownloadBed& bed) { bed.restored_host = "elsewhere"; },
        +[](DownloadBed& bed) { bed.reference_.namespace_name = "shop"; }}) {
    DownloadBed bed;
    bed.RestoreTheSamePvc();
    change(bed);
    bed.AddDownload();
    Controller controller(bed, 8);
    EXPECT_EQ(bed.Phase(), "Completed") << bed.Message();
    EXPECT_FALSE(bed.Restored().has_value());
  }
}

// It is another one, which gets no volume, and begins a repository of its own.
TEST_F(DownloadReconcilerTest, OfAPvcThatWasMadeAgainMeanwhileNothingIsRecorded) {
  bed_.RestoreTheSamePvc();
  StartRunning().LookTimes(2);
  bed_.api.SetField(ClaimKey("new", "data"), {"metadata", "uid"}, "made-again");
  bed_.Finish(bed_.TaskName());
  started_->LookTimes(8);
  EXPECT_EQ(bed_.Phase(), "Failed") << bed_.Message();
  EXPECT_FALSE(bed_.Restored().has_value());
}

TEST_F(DownloadReconcilerTest, InPlaceNothingIsRecordedForThePvcHasItsRepository) {
  bed_.RestoreTheSamePvc();
  bed_.AddInPlace();
  Controller controller(bed_, 14);
  EXPECT_EQ(bed_.Phase(), "Completed") << bed_.Message();
  EXPECT_FALSE(bed_.Restored().has_value());
}

TEST_F(DownloadReconcilerTest, WhatDiffersIsWrittenIntoThePvcThatThereIs) {
  bed_.AddInPlace();
  Controller controller(bed_, 10);
  EXPECT_EQ(bed_.Phase(), "Completed") << bed_.Message();
  bed_.ExpectVolumeKept();
  EXPECT_FALSE(bed_.Record().has_value());
  EXPECT_TRUE(ParseRfc3339(k8s::Annotation(bed_.Target(), objects::kRestoredAtAnnotation)));
  EXPECT_EQ(bed_.Consent(), "");
  const auto counted =
      ParseJsonObject(k8s::Annotation(bed_.Download(), objects::kRestoredBytesAnnotation));
  ASSERT_THAT(counted, IsOk());
  EXPECT_EQ(GetInt(*counted, {"logical_bytes"}), MoverBed::kClaimBytes);
  EXPECT_THAT(controller.ends, SizeIs(1));
  ExpectNothingLeft(bed_, 1);
}

TEST_F(DownloadReconcilerTest, InPlaceTheWorkerHasTheVolumeAndComparesIt) {
  StartInPlace();
  const objects::VolumeJob job = bed_.Job(bed_.TaskName());
  const auto* const work = std::get_if<objects::DownloadWork>(&job.work);
  ASSERT_NE(work, nullptr);
  EXPECT_TRUE(work->only_differing);
  EXPECT_TRUE(work->start_before.has_value());
  const auto alias = bed_.api.Find(VolumeKey(bed_.TaskName()));
  ASSERT_TRUE(alias.has_value());
  EXPECT_EQ(GetString(*alias, {"spec", "csi", "volumeHandle"}), "v-target");
  ASSERT_TRUE(bed_.Record().has_value());
  EXPECT_EQ(bed_.Record()->from, "velero/restore-1");
  EXPECT_EQ(bed_.Record()->id, k8s::Uid(bed_.Download()));
  EXPECT_EQ(bed_.Record()->upload, "nightly");
}

TEST_F(DownloadReconcilerTest, InPlaceNothingIsWrittenOverWhatIsInUseOrAnother) {
  for (const bool is_in_use : {true, false}) {
    SCOPED_TRACE(is_in_use);
    DownloadBed bed;
    bed.AddInPlace(is_in_use ? "target-uid" : "of-one-before");
    if (is_in_use) {
      bed.AddUser();
    }
    const int pods_before = bed.pods_made;
    Controller(bed).LookTimes(6);
    EXPECT_EQ(bed.Phase(), "Failed");
    EXPECT_THAT(bed.Message(),
                AllOf(HasSubstr("new/data"), HasSubstr(is_in_use ? "app-0" : "of-one-before")));
    EXPECT_EQ(bed.pods_made, pods_before);
    EXPECT_FALSE(bed.Record().has_value());
    bed.ExpectVolumeKept();
    EXPECT_THAT(bed.api.All(PersistentVolumeType()), SizeIs(1));
    EXPECT_THAT(bed.api.All(objects::VolumeTask::Type()), IsEmpty());
  }
}

TEST_F(DownloadReconcilerTest, InPlaceACancelledOneSaysThatTheVolumeIsPartlyOld) {
  Controller& controller = StartInPlace();
  bed_.Cancel();
  bed_.EndWorker();
  controller.LookTimes(24);
  EXPECT_EQ(bed_.Phase(), "Canceled") << bed_.Message();
  ASSERT_TRUE(bed_.Record().has_value());
  EXPECT_TRUE(bed_.Record()->has_ended);
  EXPECT_EQ(k8s::Annotation(bed_.Target(), objects::kRestoredAtAnnotation), "");
  support::DeleteFreeVolumes(bed_.api);
  bed_.ExpectVolumeKept();
  ExpectNothingLeft(bed_, 1);
}

// Others may restore into the PVC as soon as it is over.
TEST_F(DownloadReconcilerTest, InPlaceItIsNotOverWhileItsVolumeIsAttached) {
  for (const bool is_cut_off : {false, true}) {
    SCOPED_TRACE(is_cut_off);
    DownloadBed bed;
    bed.worker = MoverBed::Worker::kRuns;
    bed.AddInPlace();
    Controller controller(bed, 8);
    bed.AttachVolume();
    bed.Cancel();
    bed.EndWorker();
    controller.LookTimes(30);
    EXPECT_EQ(bed.Phase(), "Canceling") << bed.Message();
    EXPECT_TRUE(objects::IsWrittenByMover(*bed.Record(), ""));
    if (is_cut_off) {
      bed.clock.Advance(kFencedAfter);
    } else {
      bed.api.Remove(VolumeKey(bed.TaskName()));
    }
    controller.LookTimes(3);
    EXPECT_EQ(bed.Phase(), "Canceled") << bed.Message();
    EXPECT_FALSE(objects::IsWrittenByMover(*bed.Record(), ""));
    bed.ExpectVolumeKept();
  }
}

TEST_F(DownloadReconcilerTest, InPlaceWhatIsLeftOfOneThatIsGoneIsRemoved) {
  StartInPlace();
  bed_.api.Remove({DataDownloadType(), "velero", "restore-1"});  // By force.
  // Of a Pod whose end was not observed.
  const std::vector<Json> tasks = bed_.api.All(objects::VolumeTask::Type());
  ASSERT_THAT(tasks, SizeIs(1));
  EXPECT_THAT(
      RemoveDownloadLeftovers(bed_.ctx, bed_.env, support::As<objects::VolumeTask>(tasks.front())),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("may still write")));
  EXPECT_TRUE(objects::IsWrittenByMover(*bed_.Record(), ""));
  EXPECT_THAT(bed_.api.All(PersistentVolumeType()), SizeIs(2));
  bed_.clock.Advance(kFencedAfter);
  // A program that uninstalls has the task as it was.
  EXPECT_THAT(
      RemoveDownloadLeftovers(bed_.ctx, bed_.env, support::As<objects::VolumeTask>(tasks.front())),
      IsOk());
  support::DeleteFreeVolumes(bed_.api);
  EXPECT_EQ(bed_.Consent(), "");
  ASSERT_TRUE(bed_.Record().has_value());
  EXPECT_TRUE(bed_.Record()->has_ended);
  bed_.ExpectVolumeKept();
  ExpectNothingLeft(bed_, 1);
}

// A client that may create it may write all of it, so no phase skips what is checked at first.
TEST_F(DownloadReconcilerTest, InPlaceTheSettingsAndItsMakerAreCheckedInEveryPhase) {
  for (const char* phase : {"", "Accepted"}) {
    for (const bool is_off : {true, false}) {
      SCOPED_TRACE(absl::StrCat(phase, is_off));
      DownloadBed bed;
      bed.AddInPlace();
      bed.env.settings.writes_into_existing = !is_off;
      bed.ChangeDownload([&](Json& download) {
        SetJson(download, {"metadata", "annotations", objects::kInPlaceAnnotation}, "target-uid");
        SetJson(download, {"metadata", "labels", objects::kRestoreNameLabel}, "monday");
        SetJson(download, {"status", "phase"}, phase);
      });
      Controller(bed).LookTimes(6);
      EXPECT_EQ(bed.Phase(), "Failed");
      EXPECT_THAT(bed.Message(),
                  HasSubstr(is_off ? "restore.intoExistingVolumes" : "a restore of Velero"));
      EXPECT_EQ(bed.pods_made, 0);
      EXPECT_FALSE(bed.Record().has_value());
      EXPECT_THAT(bed.api.All(objects::VolumeTask::Type()), IsEmpty());
    }
  }
}

// However it came to its phase: what is left behind must not begin when no client thinks of it.
TEST_F(DownloadReconcilerTest, InPlaceNothingBeginsWithoutATimeOrWithOneThatIsFar) {
  const absl::Duration kLongest = inplace::kMoverStartTimeMax + inplace::kMoverClockSkewMax;
  for (const char* phase : {"", "Accepted"}) {
    for (const absl::Duration after :
         {absl::ZeroDuration(), kLongest, kLongest + absl::Seconds(1), absl::Hours(9000)}) {
      SCOPED_TRACE(absl::StrCat(phase, absl::FormatDuration(after)));
      DownloadBed bed;
      bed.AddInPlace();
      bed.ChangeDownload([&](Json& download) {
        SetJson(download, {"metadata", "annotations", objects::kStartBeforeAnnotation},
                after == absl::ZeroDuration() ? "soon"
                                              : FormatRfc3339(*k8s::CreatedAt(download) + after));
        SetJson(download, {"metadata", "annotations", objects::kInPlaceAnnotation}, "target-uid");
        SetJson(download, {"status", "phase"}, phase);
      });
      Controller(bed).LookTimes(10);
      const bool is_good = after == kLongest;
      EXPECT_EQ(bed.Phase(), is_good ? "Completed" : "Failed") << bed.Message();
      EXPECT_THAT(bed.Message(), HasSubstr(is_good ? "" : "start-before"));
      EXPECT_EQ(bed.pods_made, is_good ? 1 : 0);
      EXPECT_FALSE(bed.Record().has_value());
    }
  }
}

// Made, accepted, and only then consented to. What is left of an earlier consent counts for
// nothing, even with another DataDownload of that name.
TEST_F(DownloadReconcilerTest, InPlaceTheConsentIsToTheVeryDownload) {
  for (const bool is_meant : {true, false}) {
    SCOPED_TRACE(is_meant);
    DownloadBed bed;
    bed.AddInPlace();
    const std::string uid = k8s::Uid(bed.Download());
    Json another = bed.Download();
    bed.api.Remove({DataDownloadType(), "velero", "restore-1"});
    for (const char* field : {"uid", "creationTimestamp", "resourceVersion"}) {
      EraseJson(another, {"metadata", field});
    }
    bed.api.Seed(DataDownloadType(), another);
    ASSERT_NE(k8s::Uid(bed.Download()), uid);
    Controller controller(bed, 6);
    EXPECT_EQ(bed.Phase(), "Accepted");
    EXPECT_THAT(bed.Message(), HasSubstr("may-write"));
    EXPECT_FALSE(bed.Record().has_value());
    if (is_meant) {
      bed.SetConsent(k8s::Uid(bed.Download()));
    }
    bed.clock.Advance(kConsentTimeMax);
    controller.LookTimes(10);
    EXPECT_EQ(bed.Phase(), is_meant ? "Completed" : "Failed") << bed.Message();
    EXPECT_EQ(bed.pods_made, is_meant ? 1 : 0);
    EXPECT_EQ(bed.Consent(), is_meant ? "" : uid);
    EXPECT_FALSE(bed.Record().has_value());
    bed.ExpectVolumeKept();
  }
}

TEST_F(DownloadReconcilerTest, InPlaceItFailsWhenThePvcChangesUnderTheWorker) {
  struct Case {
    const char* want;
    std::function<void(DownloadBed& bed)> change;
  };
  for (const Case& test : std::vector<Case>{
           {"a Pod started to use it", [](DownloadBed& bed) { bed.AddUser(); }},
           {"does not exist", [](DownloadBed& bed) { bed.api.Remove(ClaimKey("new", "data")); }},
           {"pv-2", [](DownloadBed& bed) {
              bed.api.SetField(ClaimKey("new", "data"), {"spec", "volumeName"}, "pv-2");
            }}}) {
    for (const bool is_done : {false, true}) {
      SCOPED_TRACE(absl::StrCat(test.want, is_done));
      DownloadBed bed;
      bed.worker = MoverBed::Worker::kRuns;
      bed.AddInPlace();
      Controller controller(bed, 8);
      ASSERT_EQ(bed.Phase(), "InProgress") << bed.Message();
      test.change(bed);
      if (is_done) {
        bed.Finish(bed.TaskName());
      }
      controller.LookTimes(2);
      bed.clock.Advance(kFencedAfter);
      controller.LookTimes(4);
      EXPECT_EQ(bed.Phase(), "Failed");
      EXPECT_THAT(bed.Message(), HasSubstr(test.want));
      if (!bed.Target().is_null()) {
        ASSERT_TRUE(bed.Record().has_value());
        EXPECT_TRUE(bed.Record()->has_ended);
      }
    }
  }
}

// The look at the PVC goes on while the worker's Pod waits for its node.
TEST_F(DownloadReconcilerTest, InPlaceItFailsWhenThePvcIsUsedBeforeTheWorkerRuns) {
  bed_.worker = MoverBed::Worker::kPending;
  bed_.AddInPlace();
  Controller controller(bed_, 8);
  ASSERT_EQ(bed_.Phase(), "Accepted") << bed_.Message();
  ASSERT_EQ(bed_.pods_made, 1);
  bed_.AddUser();
  controller.LookTimes(2);
  bed_.clock.Advance(kFencedAfter);
  controller.LookTimes(4);
  EXPECT_EQ(bed_.Phase(), "Failed");
  EXPECT_THAT(bed_.Message(), HasSubstr("a Pod started to use it"));
  bed_.ExpectVolumeKept();
}

// A worker that starts late must not begin. What is partly old is finished however late it is.
TEST_F(DownloadReconcilerTest, InPlaceTheFirstWorkerBeginsInTimeAndALaterOneFinishes) {
  bed_.worker = MoverBed::Worker::kRuns;
  bed_.AddInPlace();
  const absl::Time start_before = bed_.clock.Now() + absl::Minutes(1);
  bed_.ChangeDownload([&](Json& download) {
    SetJson(download, {"metadata", "annotations", objects::kStartBeforeAnnotation},
            FormatRfc3339(start_before));
  });
  const auto told = [this] {
    return std::get<objects::DownloadWork>(bed_.Job(bed_.TaskName()).work).start_before;
  };
  Controller controller(bed_, 8);
  ASSERT_EQ(bed_.Phase(), "InProgress") << bed_.Message();
  EXPECT_EQ(told(), start_before);
  bed_.api.Remove({PodType(), MoverBed::kMover, bed_.TaskName()});  // By force.
  controller.LookTimes(2);
  bed_.clock.Advance(kFencedAfter);
  controller.LookTimes(8);
  ASSERT_EQ(bed_.pods_made, 2);
  EXPECT_GT(told(), bed_.clock.Now());
}

// Written, and then deleted with its volume before that was given free: nothing is restored.
TEST_F(DownloadReconcilerTest, InPlaceItFailsWhenThePvcGoesBeforeTheEnd) {
  Controller& controller = StartInPlace();
  bed_.AttachVolume();
  bed_.Finish(bed_.TaskName());
  controller.LookTimes(4);
  ASSERT_EQ(bed_.Phase(), "InProgress") << bed_.Message();
  EXPECT_THAT(bed_.Message(), HasSubstr("to be detached"));
  bed_.api.Remove(ClaimKey("new", "data"));
  controller.LookTimes(2);
  bed_.api.Remove(VolumeKey(bed_.TaskName()));
  controller.LookTimes(4);
  EXPECT_EQ(bed_.Phase(), "Failed");
  EXPECT_THAT(bed_.Message(), HasSubstr("does not exist"));
}

// All of it was written: nothing has to be finished, though the restore has failed.
TEST_F(DownloadReconcilerTest, InPlaceWhatIsWholeIsNotMarkedThoughItsVolumeIsNotGivenFree) {
  Controller& controller = StartInPlace();
  bed_.AttachVolume();
  bed_.Finish(bed_.TaskName());
  controller.LookTimes(4);
  ASSERT_THAT(bed_.Message(), HasSubstr("to be detached"));
  bed_.clock.Advance(kBindingTimeMax);
  controller.LookTimes(2);
  bed_.clock.Advance(kFencedAfter);
  controller.LookTimes(4);
  EXPECT_EQ(bed_.Phase(), "Failed");
  EXPECT_THAT(bed_.Message(), HasSubstr("its data was restored, but"));
  EXPECT_FALSE(bed_.Record().has_value());
  EXPECT_EQ(bed_.Consent(), "");
  bed_.ExpectVolumeKept();
}

// Its node is lost, and no attacher holds the volume.
TEST_F(DownloadReconcilerTest, InPlaceItIsNotOverWhileALostWorkerMayWrite) {
  for (const bool is_cancelled : {true, false}) {
    SCOPED_TRACE(is_cancelled);
    DownloadBed bed;
    bed.worker = MoverBed::Worker::kRuns;
    bed.AddInPlace();
    Controller controller(bed, 8);
    ASSERT_EQ(bed.Phase(), "InProgress") << bed.Message();
    is_cancelled ? bed.Cancel() : bed.AddUser();
    controller.LookTimes(60);
    EXPECT_FALSE(bed.Phase() == "Canceled" || bed.Phase() == "Failed") << bed.Message();
    EXPECT_TRUE(objects::IsWrittenByMover(*bed.Record(), ""));
    bed.clock.Advance(kFencedAfter);
    controller.LookTimes(3);
    EXPECT_EQ(bed.Phase(), is_cancelled ? "Canceled" : "Failed");
    EXPECT_TRUE(bed.Record()->has_ended);
    bed.ExpectVolumeKept();
  }
}

// What was accepted in one way is ended in that.
TEST_F(DownloadReconcilerTest, InPlaceIsDecidedWhenItIsAccepted) {
  Controller& controller = StartInPlace();
  bed_.ChangeDownload([](Json& download) {
    EraseJson(download, {"metadata", "annotations", objects::kIntoAnnotation});
  });
  bed_.Finish(bed_.TaskName());
  controller.LookTimes(6);
  EXPECT_EQ(bed_.Phase(), "Completed") << bed_.Message();
  EXPECT_FALSE(bed_.Record().has_value());
  bed_.ExpectVolumeKept();
  ExpectNothingLeft(bed_, 1);

  DownloadBed other;
  other.AddDownload();
  Controller another(other);
  another.LookTimes(1);
  other.ChangeDownload([](Json& download) {
    SetJson(download, {"metadata", "annotations", objects::kIntoAnnotation}, "target-uid");
  });
  another.LookTimes(10);
  EXPECT_EQ(other.Phase(), "Completed") << other.Message();
  EXPECT_EQ(other.TargetPhase(), "Bound");
}

// Each call of a controller fails, or its answer is lost, and it is killed there; another goes on.
class KilledDownloadTest : public testing::TestWithParam<Fault> {
 protected:
  // For each call, counted from 1, of a controller that looks so often at what `prepare` makes;
  // there are more than `calls_least`. `expect` sees what another controller then finds.
  static void KillAtEachCall(
      int looks, int calls_least, const std::function<void(DownloadBed& bed, int call)>& prepare,
      const std::function<void(DownloadBed& bed, Controller& another)>& expect) {
    bool was_hit = true;
    int call = 0;
    while (was_hit) {
      SCOPED_TRACE(++call);
      DownloadBed bed;
      prepare(bed, call);
      bed.api.FailCall(call, absl::UnavailableError("killed"), GetParam());
      {
        Controller killed(bed);
        for (int look = 0; look < looks && !bed.api.sweep_hit(); ++look) {
          bed.clock.Advance(look == 2 && looks > 12 ? kFencedAfter : absl::ZeroDuration());
          killed.LookTimes(1);
        }
      }
      was_hit = bed.api.sweep_hit();
      bed.api.ClearFaults();
      Controller another(bed);
      expect(bed, another);
    }
    EXPECT_GT(call, calls_least);
  }
};

// At no moment has a target its volume and no record; and there is one record in the end.
TEST_P(KilledDownloadTest, AnotherGoesOnToTheEndAndRecordsWhatFilledThePvc) {
  KillAtEachCall(
      9, 42,
      [](DownloadBed& bed, int) {
        bed.RestoreTheSamePvc();
        bed.AddDownload();
      },
      [](DownloadBed& bed, Controller& another) {
        if (!GetString(bed.Target(), {"spec", "volumeName"}).empty()) {
          EXPECT_TRUE(bed.Restored().has_value());
        }
        another.LookUntilOver(12);
        EXPECT_EQ(bed.Phase(), "Completed") << bed.Message();
        const std::optional<RestoredPvc> restored = bed.Restored();
        ASSERT_TRUE(restored.has_value());
        EXPECT_EQ(restored->pvc_uid, k8s::Uid(bed.Target()));
        EXPECT_EQ(bed.TargetPhase(), "Bound");
        another.Sweep();
        ExpectNothingLeft(bed, 1, /*secrets=*/3);  // credentials, keys, record
      });
}

// The PVC of the mover is held by a finalizer until it is known what becomes of its volume.
TEST_P(KilledDownloadTest, AnotherEndsThoseOfAClassThatRetainsVolumes) {
  for (const bool is_cancelled : {false, true}) {
    const auto prepare = [&](DownloadBed& bed, int) {
      bed.api.SetField({StorageClassType(), "", "shop-class"}, {"reclaimPolicy"}, "Retain");
      bed.cluster.reclaim_policy = "Retain";
      bed.worker = is_cancelled ? MoverBed::Worker::kRuns : MoverBed::Worker::kSucceeds;
      bed.AddDownload();
      if (is_cancelled) {
        Controller(bed).LookTimes(3);
        bed.Cancel();
      }
    };
    KillAtEachCall(9, 10, prepare, [&](DownloadBed& bed, Controller& another) {
      another.LookUntilOver(24);
      another.LookTimes(1);
      EXPECT_EQ(bed.Phase(), is_cancelled ? "Canceled" : "Completed") << bed.Message();
      another.Sweep();
      another.LookTimes(1);
      support::DeleteFreeVolumes(bed.api);
      ExpectNothingLeft(bed, is_cancelled ? 0 : 1);
      for (const Json& volume : bed.api.All(PersistentVolumeType())) {
        EXPECT_EQ(GetString(volume, {"spec", "persistentVolumeReclaimPolicy"}), "Retain");
      }
    });
  }
}

TEST_P(KilledDownloadTest, AnotherCancelsToTheEnd) {
  const auto prepare = [](DownloadBed& bed, int) {
    bed.worker = MoverBed::Worker::kRuns;
    bed.AddDownload();
    Controller(bed).LookTimes(3);
    bed.Cancel();
  };
  KillAtEachCall(9, 10, prepare, [](DownloadBed& bed, Controller& another) {
    another.LookUntilOver(24);
    EXPECT_EQ(bed.Phase(), "Canceled") << bed.Message();
    another.Sweep();
    ExpectNothingLeft(bed, 0);
  });
}

TEST_P(KilledDownloadTest, AnotherGoesOnInPlaceToTheEnd) {
  // Each call fails in both modes, once by each fault.
  const auto prepare = [](DownloadBed& bed, int call) {
    const bool is_block = (call % 2 == 0) == (GetParam() == Fault::kRefused);
    bed.AddInPlace("target-uid", is_block ? "Block" : "Filesystem");
  };
  KillAtEachCall(12, 40, prepare, [](DownloadBed& bed, Controller& another) {
    another.LookUntilOver(16);
    EXPECT_EQ(bed.Phase(), "Completed") << bed.Message();
    EXPECT_FALSE(bed.Record().has_value());
    another.Sweep();
    bed.ExpectVolumeKept();
    ExpectNothingLeft(bed, 1);
  });
}

TEST_P(KilledDownloadTest, AnotherEndsInPlaceWhatIsCancelledOrFails) {
  for (const bool is_cancelled : {true, false}) {
    SCOPED_TRACE(is_cancelled);
    const auto prepare = [&](DownloadBed& bed, int) {
      bed.worker = MoverBed::Worker::kRuns;
      bed.AddInPlace("target-uid", is_cancelled ? "Filesystem" : "Block");
      Controller controller(bed, 8);
      is_cancelled ? bed.Cancel() : bed.AddUser();
    };
    KillAtEachCall(24, 10, prepare, [&](DownloadBed& bed, Controller& another) {
      another.LookTimes(3);
      bed.clock.Advance(kFencedAfter);
      another.LookUntilOver(24);
      EXPECT_EQ(bed.Phase(), is_cancelled ? "Canceled" : "Failed") << bed.Message();
      another.Sweep();
      EXPECT_TRUE(bed.Record()->has_ended);
      EXPECT_EQ(bed.Consent(), "");
      bed.ExpectVolumeKept();
      bed.api.Remove({PodType(), "new", "app-0"});
      ExpectNothingLeft(bed, 1);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, KilledDownloadTest,
                         testing::Values(Fault::kRefused, Fault::kAnswerLost),
                         [](const auto& fault) {
                           return fault.param == Fault::kRefused ? "Refused" : "AnswerLost";
                         });

}  // namespace
}  // namespace csidelta::datamover::download_reconciler_test
