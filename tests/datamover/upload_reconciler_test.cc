#include "datamover/controller/upload_reconciler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/escaping.h"
#include "base/rfc3339.h"
#include "csi/group/moved_group.h"
#include "datamover/controller/leftover_reconcilers.h"
#include "datamover/keyring.h"
#include "datamover/records/restored_pvcs.h"
#include "datamover/transfer_object.h"
#include "datamover/worker/deletion_queue.h"
#include "datamover/worker/job.h"
#include "datamover/worker/task_runner.h"
#include "datamover/worker/task_watch.h"
#include "incremental/mover/backup_result.h"
#include "k8s/cached_client.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/datamover/mover_bed.h"
#include "tests/support/await.h"
#include "tests/support/kind_names.h"
#include "tests/support/report_all.h"
#include "tests/support/snapshot_fields.h"
#include "tests/support/status_matchers.h"
#include "velero/data_reference.h"

namespace csidelta::datamover::upload_reconciler_test {
namespace {

using support::IsOk;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;
using testing::UnorderedElementsAre;

// One controller, from its start: what it knows is what the API server holds.
class Controller {
 public:
  // Looks so often at everything that there is.
  explicit Controller(MoverBed& bed, int looks = 0, const VolumeRecords* records = nullptr)
      : bed_((bed.UseCache(), bed)),
        scheduler_(
            LimitsOf(bed.env.settings), bed.clock, [] { return true; },
            [this](const std::string& task) { enqueue_table_.Enqueue(task); }),
        reconciler_(
            bed.env, scheduler_, [this](const TransferEnd& end) { ends.push_back(end); }, records),
        loop_(
            DataUploadType(), reconciler_, [] { return true; }, bed.clock,
            k8s::kConcurrentReconciles, &bed.cache),
        handler_(TransferSubjects("DataUpload", QueuedUpload, scheduler_), enqueue_table_, loop_),
        tasks_(bed.env, enqueue_table_, [] { return true; }),
        contents_(bed.env, enqueue_table_, [] { return true; }) {
    LookTimes(looks);
  }

  // Looks at everything that there is, once.
  void Look() {
    bed_.TellWatchers();
    support::ReportAll(informer_, bed_.api.All(DataUploadType()));
    loop_.WorkOnce(bed_.ctx);
    for (const Json& task : bed_.api.All(objects::VolumeTask::Type())) {
      tasks_.Reconcile(bed_.ctx, task).IgnoreError();
    }
    for (const Json& content : bed_.api.All(VolumeSnapshotContentType())) {
      contents_.Reconcile(bed_.ctx, content).IgnoreError();
    }
  }
  void LookTimes(int times) {
    for (int i = 0; i < times; ++i) {
      Look();
      bed_.clock.Advance(absl::Milliseconds(500));
    }
  }

  std::vector<TransferEnd> ends;

 private:
  MoverBed& bed_;
  EnqueueTable enqueue_table_;
  TransferScheduler scheduler_;
  UploadReconciler reconciler_;
  k8s::ReconcileLoop loop_;
  SubjectEventHandler handler_;
  k8s::Informer informer_{{.type = DataUploadType()}, {&handler_, &loop_}};
  TaskReconciler tasks_;
  ContentReconciler contents_;
};

// What is left when nothing runs: the keyring, and what was there before.
void ExpectNothingButBases(const MoverBed& bed, std::size_t bases) {
  EXPECT_THAT(bed.api.All(PodType()), IsEmpty());
  EXPECT_THAT(bed.api.All(objects::VolumeTask::Type()), IsEmpty());
  EXPECT_THAT(bed.api.All(SecretType()), SizeIs(testing::Le(2U)));
  EXPECT_THAT(bed.api.All(PersistentVolumeClaimType()), SizeIs(1));
  EXPECT_THAT(bed.api.All(PersistentVolumeType()), IsEmpty());
  EXPECT_THAT(bed.api.All(VolumeSnapshotType()), IsEmpty());
  EXPECT_THAT(bed.api.All(VolumeSnapshotContentType()), SizeIs(bases));
  EXPECT_THAT(bed.cluster.driver().snapshots(), SizeIs(bases));
}

class UploadReconcilerTest : public testing::Test {
 protected:
  // The controller of the upload "nightly", after so many looks.
  Controller& Start(int looks, MoverBed::Worker worker = MoverBed::Worker::kSucceeds) {
    bed_.worker = worker;
    bed_.AddUpload("nightly");
    return started_.emplace(bed_, looks);
  }
  // The same once the worker runs, or its Pod waits.
  Controller& StartRunning() {
    Controller& controller = Start(4, MoverBed::Worker::kRuns);
    EXPECT_EQ(bed_.PhaseOf(), "InProgress") << bed_.MessageOf();
    return controller;
  }
  Controller& StartPending() { return Start(4, MoverBed::Worker::kPending); }

  void ExpectFailsInTime(Controller& controller, const std::string& why,
                         const std::string& name = "nightly") {
    bed_.clock.Advance(bed_.env.settings.prepare_timeout);
    controller.LookTimes(3);
    EXPECT_EQ(bed_.PhaseOf(name), "Failed");
    EXPECT_THAT(bed_.MessageOf(name), HasSubstr(why));
  }

  // Of another PVC, which has the upload's name.
  void AddOther(const std::string& name = "other") {
    bed_.AddClaim("shop", name);
    bed_.AddUpload(name, "shop", name);
  }
  // What its worker is told.
  objects::UploadWork Work(const std::string& name = "nightly") {
    return std::get<objects::UploadWork>(bed_.Job(bed_.TaskNameOfUpload(name)).work);
  }
  // Its worker says that it runs on.
  void Beat(const std::string& name) {
    bed_.SetTaskStatus(
        bed_.TaskNameOfUpload(name),
        {{"phase", "Running"}, {"heartbeatTimestamp", FormatRfc3339(bed_.clock.Now())}});
  }
  // Its worker is killed, and another one is made.
  void ReplaceWorker(Controller& controller) {
    bed_.EndContainer(bed_.TaskNameOfUpload(), 137);
    for (int i = 0; i < 10 && bed_.pods_made < 2; ++i) {
      bed_.clock.Advance(absl::Seconds(10));
      controller.LookTimes(1);
    }
    ASSERT_EQ(bed_.pods_made, 2);
  }
  // A record of a PVC of "shop", which is called as its PVC and location say.
  k8s::ObjectKey SeedRecord(const std::string& pvc, const std::string& uid,
                            const std::string& location, const Json& status) {
    const std::string name = objects::ProtectedVolume::NameOf(uid, location);
    bed_.api.Seed(objects::ProtectedVolume::Type(),
                  {{"metadata", {{"name", name}, {"namespace", "velero"}}},
                   {"spec",
                    {{"namespace", "shop"},
                     {"pvc", pvc},
                     {"pvcUID", uid},
                     {"backupStorageLocation", location}}},
                   {"status", status}});
    return objects::ProtectedVolume::Key("velero", name);
  }

  MoverBed bed_;
  std::optional<Controller> started_;
};

TEST_F(UploadReconcilerTest, GoesFromNewToCompleted) {
  Controller& controller = Start(5);
  const Json upload = bed_.Upload();
  EXPECT_EQ(bed_.PhaseOf(), "Completed") << bed_.MessageOf();
  const auto reference = velero::ParseDataReference(GetString(upload, {"status", "snapshotID"}));
  ASSERT_THAT(reference, IsOk());
  EXPECT_EQ(reference->cluster, bed_.env.cluster);
  EXPECT_EQ(reference->namespace_name, "shop");
  EXPECT_EQ(reference->claim_uid, MoverBed::ClaimUid("shop", "data"));
  EXPECT_EQ(reference->snapshot_id, bed_.snapshot_id);
  EXPECT_EQ(GetInt(upload, {"status", "progress", "totalBytes"}), MoverBed::kClaimBytes);
  EXPECT_EQ(GetInt(upload, {"status", "progress", "bytesDone"}), MoverBed::kClaimBytes);
  EXPECT_EQ(GetInt(upload, {"status", "incrementalBytes"}), 4096);
  EXPECT_NE(GetString(upload, {"status", "completionTimestamp"}), "");
  EXPECT_EQ(GetString(upload, {"status", "node"}), "");
  EXPECT_EQ(k8s::Annotation(upload, "mover.csi-delta.io/mode"), "incremental");
  EXPECT_EQ(k8s::Annotation(upload, "mover.csi-delta.io/read-bytes"), "4096");
  EXPECT_EQ(k8s::Annotation(upload, objects::kAddressAnnotation),
            absl::StrCat("s3:http://s3:9000/b/p/", velero::RepositoryPath(*reference)));
  EXPECT_EQ(k8s::Annotation(upload, "mover.csi-delta.io/repository-bytes"), "65536");
  EXPECT_EQ(k8s::Annotation(upload, "mover.csi-delta.io/repository-snapshots"), "2");
  EXPECT_NE(k8s::Annotation(upload, "mover.csi-delta.io/cut-at"), "");
  EXPECT_THAT(*FindJson(upload, {"metadata", "finalizers"}), IsEmpty());
  EXPECT_THAT(bed_.EventReasons(),
              UnorderedElementsAre("Normal Completed", "Warning KeyNotConfirmed"));
  EXPECT_THAT(controller.ends, SizeIs(1));
  ExpectNothingButBases(bed_, 1);
}

TEST_F(UploadReconcilerTest, AScratchSizeThatARestoreMayExceedIsAnEvent) {
  bed_.env.settings.worker.scratch_size = "16Ki";
  Start(8);
  EXPECT_EQ(bed_.PhaseOf(), "Completed");
  EXPECT_THAT(bed_.EventReasons(), testing::Contains("Warning ScratchTooSmall"));
}

// A backup of the whole cluster meanwhile would find some of it gone, and restore the rest.
TEST_F(UploadReconcilerTest, AllThatATransferMakesIsExcludedFromBackups) {
  StartRunning();
  int found = 0;
  for (const k8s::ResourceType& type :
       {PodType(), SecretType(), PersistentVolumeClaimType(), VolumeSnapshotType(),
        VolumeSnapshotContentType(), objects::VolumeTask::Type()}) {
    for (const Json& object : bed_.api.All(type)) {
      if (!k8s::Label(object, objects::kMoverTaskLabel).empty()) {
        EXPECT_EQ(k8s::Label(object, objects::kExcludeFromBackupLabel), "true")
            << type.kind << " " << k8s::Name(object);
        ++found;
      }
    }
  }
  EXPECT_GE(found, 6);
}

// Workers may read all tasks of the mover's namespace.
TEST_F(UploadReconcilerTest, NoVolumeTaskHoldsASecret) {
  StartRunning();
  const absl::StatusOr<repository::Keyring> ring =
      OpenKeyring(bed_.ctx, bed_.api, MoverBed::kMover,
                  {.velero_namespace = "velero", .location = "default"}, false, bed_.secure_random);
  ASSERT_THAT(ring, IsOk());
  const std::string task = bed_.Task().value_or(Json()).dump();
  EXPECT_THAT(task, HasSubstr("/shop/data")) << "with its job";
  EXPECT_THAT(task, Not(HasSubstr("shh"))) << "the key of the bucket";
  EXPECT_THAT(task, Not(HasSubstr(ring->newest().password.Reveal())));
}

TEST_F(UploadReconcilerTest, CredentialsThatChangedBeforeItWasMadeAreThoseItUses) {
  k8s::RecentReads reads(absl::Minutes(5));
  bed_.env.recent_reads = &reads;
  Controller& controller = StartRunning();
  const std::string changed =
      absl::Base64Escape("[default]\naws_access_key_id=new\naws_secret_access_key=shh\n");
  bed_.api.SetField({SecretType(), "velero", "creds"}, {"data", "cloud"}, changed);
  AddOther();
  controller.LookTimes(8);
  const std::optional<Json> secret =
      bed_.api.Find({SecretType(), MoverBed::kMover, bed_.TaskNameOfUpload("other")});
  ASSERT_TRUE(secret.has_value()) << bed_.MessageOf("other");
  std::string text;
  ASSERT_TRUE(absl::Base64Unescape(GetString(*secret, {"data", "cloud"}), &text));
  EXPECT_THAT(text, HasSubstr("new"));
}

// Thousands may be made at once, of which few can be admitted.
TEST_F(UploadReconcilerTest, OneWriteAcceptsItAndSaysWhatItWaitsFor) {
  bed_.env.settings.transfers_max = 1;
  Controller& controller = StartRunning();
  AddOther();
  controller.LookTimes(4);
  EXPECT_EQ(bed_.PhaseOf("other"), "Accepted");
  EXPECT_EQ(bed_.MessageOf("other"), "waits: at most 1 transfer at once");
  EXPECT_EQ(bed_.api.CallCount("update", "datauploads"), 1);
}

TEST_F(UploadReconcilerTest, TheStepsThatUsuallyTakeSecondsAreNotWritten) {
  std::vector<std::string> messages;
  bed_.api.SetInterceptor([&](const support::ApiCall& call, const Json* body) -> absl::Status {
    if (call.plural == "datauploads" && body != nullptr) {
      messages.push_back(GetString(*body, {"status", "message"}));
    }
    return absl::OkStatus();
  });
  Controller& controller = StartRunning();
  EXPECT_THAT(messages, testing::Each(""));
  bed_.cluster.provisioner_runs = false;
  AddOther("slow");
  controller.LookTimes(12);
  EXPECT_THAT(bed_.MessageOf("slow"), HasSubstr("to be filled from the volume snapshot"));
}

// A claim that waits for its Pod is bound when that is scheduled: too late to be seen before.
TEST_F(UploadReconcilerTest, AVolumeThatItsClaimWasBoundToInsteadIsNotBackedUp) {
  bed_.api.SetField({StorageClassType(), "", "shop-class"}, {"volumeBindingMode"},
                    "WaitForFirstConsumer");
  bed_.cluster.provisioner_runs = false;
  Controller& controller = Start(6, MoverBed::Worker::kPending);
  ASSERT_TRUE(bed_.Pod().has_value()) << bed_.MessageOf();
  bed_.api.Seed(PersistentVolumeType(), {{"metadata", {{"name", "foreign"}}},
                                         {"spec", {{"claimRef", {{"uid", "of another claim"}}}}}});
  bed_.api.Mutate(ClaimKey(MoverBed::kMover, bed_.TaskNameOfUpload()), [](Json& claim) {
    claim["spec"]["volumeName"] = "foreign";
    claim["status"]["phase"] = "Bound";
  });
  bed_.SetPodStatus(bed_.TaskNameOfUpload(), {{"phase", "Running"}});
  controller.LookTimes(2);
  bed_.SetPodStatus(bed_.TaskNameOfUpload(), {{"phase", "Succeeded"}});
  controller.LookTimes(4);
  EXPECT_EQ(bed_.PhaseOf(), "Failed");
  EXPECT_THAT(bed_.MessageOf(), HasSubstr("bound to what is not the snapshot"));
}

velero::DataReference Reference(const std::string& cluster, const std::string& uid, char digit) {
  return {.cluster = cluster,
          .namespace_name = "shop",
          .claim_uid = uid,
          .snapshot_id = std::string(64, digit),
          .key = std::string(16, 'b')};
}

// The PVC shop/data was filled from the repository of one that is gone.
constexpr char kFormerUid[] = "c1a10000-0000-4000-8000-00000000000a";

void RecordFormer(MoverBed& bed, const std::string& cluster = "") {
  const std::string of_cluster = cluster.empty() ? bed.env.cluster : cluster;
  EXPECT_THAT(RecordRestored(bed.ctx, bed.env, {"velero", "default", "shop", "data"},
                             {.pvc_uid = MoverBed::ClaimUid("shop", "data"),
                              .source = Reference(of_cluster, kFormerUid, 'f'),
                              .data_bytes = int64_t{1} << 30}),
              IsOk());
}

// Velero 1.19 names the parent of a backup.
class NamedParentTest : public UploadReconcilerTest {
 protected:
  void StartWith(const std::string& field, const std::string& text) {
    bed_.worker = MoverBed::Worker::kRuns;
    bed_.AddUpload("nightly");
    bed_.api.SetField({DataUploadType(), "velero", "nightly"}, {"spec", field}, text);
    started_.emplace(bed_, 4);
  }
  std::string ReferenceTo(const std::string& claim_uid) {
    return velero::FormatDataReference(Reference(bed_.env.cluster, claim_uid, 'a'));
  }
};

TEST_F(NamedParentTest, NoneIsAFullBackup) {
  StartWith("parentSnapshot", "none");
  EXPECT_TRUE(Work().is_full);
  EXPECT_EQ(Work().parent, "");
}

TEST_F(NamedParentTest, ABackupOfTypeFullIsFull) {
  StartWith("backupType", "Full");
  EXPECT_TRUE(Work().is_full);
}

TEST_F(NamedParentTest, AutoIsTheNewestOfTheVolume) {
  StartWith("parentSnapshot", "auto");
  EXPECT_FALSE(Work().is_full);
  EXPECT_EQ(Work().parent, "");
}

TEST_F(NamedParentTest, ASnapshotOfTheVolumeIsTheParent) {
  StartWith("parentSnapshot", ReferenceTo(MoverBed::ClaimUid("shop", "data")));
  EXPECT_EQ(Work().parent, std::string(64, 'a'));
}

TEST_F(NamedParentTest, OfARestoredPvcItIsASnapshotOfTheRepositoryThatItGoesOnIn) {
  RecordFormer(bed_);
  StartWith("parentSnapshot", ReferenceTo(kFormerUid));
  EXPECT_EQ(Work().parent, std::string(64, 'a'));
  EXPECT_EQ(Work().restored_snapshot, std::string(64, 'f'));
  bed_.api.Remove({DataUploadType(), "velero", "nightly"});
  StartWith("parentSnapshot", ReferenceTo(MoverBed::ClaimUid("shop", "data")));
  started_->LookTimes(4);
  EXPECT_EQ(bed_.PhaseOf(), "Failed");
}

TEST_F(NamedParentTest, AnyOtherFailsTheUpload) {
  for (const std::string& other : {ReferenceTo(MoverBed::ClaimUid("shop", "other")),
                                   std::string("kopia-manifest"), std::string("../../secret")}) {
    bed_.api.Remove({DataUploadType(), "velero", "nightly"});
    StartWith("parentSnapshot", other);
    started_->LookTimes(4);
    EXPECT_EQ(bed_.PhaseOf(), "Failed") << other;
    EXPECT_THAT(bed_.MessageOf(), HasSubstr("is not a snapshot of this volume"));
  }
}

TEST_F(UploadReconcilerTest, TheWorkerIsToldWhatToDo) {
  bed_.env.settings.worker.rates_max.upload = 2048;
  bed_.env.settings.driver_parameters["d.example.com"] = {"tier=fast"};
  StartRunning();
  const std::string task_name = bed_.TaskNameOfUpload();
  const Json pod = bed_.Pod().value_or(Json());
  EXPECT_EQ(pod["spec"]["containers"][0]["args"],
            Json({"worker", "--task", absl::StrCat("mover/", task_name)}));
  const objects::VolumeJob job = bed_.Job(task_name);
  EXPECT_EQ(job.work, objects::VolumeWork(
                          objects::UploadWork{.device = "/dev/volume",
                                              .host = bed_.env.cluster,
                                              .path = "/shop/data",
                                              .volume_snapshot = absl::StrCat("mover/", task_name),
                                              .tags = {task_name},
                                              .pvc_uid = MoverBed::ClaimUid("shop", "data"),
                                              .driver_parameters = {"tier=fast"}}));
  EXPECT_EQ(job.repository.address,
            absl::StrCat("s3:http://s3:9000/b/p/plugins/csi-delta/", bed_.env.cluster, "/shop/",
                         MoverBed::ClaimUid("shop", "data")));
  EXPECT_TRUE(job.repository.has_keyring);
  EXPECT_EQ(job.limits.memory_bytes, MemoryBudgetBytes(bed_.env.settings.worker.resources));
  EXPECT_EQ(job.limits.rates.upload, 2048);
  EXPECT_EQ(job.limits.rates.download, 0);
  EXPECT_EQ(k8s::Label(pod, "velero.io/data-upload"), "");
  EXPECT_EQ(k8s::Label(pod, objects::kMoverTaskLabel), task_name);
  EXPECT_TRUE(bed_.api.Find({SecretType(), "mover", task_name}).has_value());
  const auto task = support::As<objects::VolumeTask>(bed_.Task().value_or(Json())).spec();
  ASSERT_THAT(task, IsOk());
  EXPECT_EQ(task->subject.uid, k8s::Uid(bed_.Upload()));
  EXPECT_EQ(pod["metadata"]["ownerReferences"][0]["uid"], k8s::Uid(*bed_.Task()));
}

constexpr char kForeign[] = "c2000000-0000-4000-8000-000000000002";

ForeignCluster Foreign() { return {MoverBed::kMover, "velero", "default", kForeign}; }

void Adopt(MoverBed& bed) {
  EXPECT_THAT(RecordAdoption(bed.ctx, bed.api, Foreign(), "ann"), IsOk());
}

class RestoredUploadTest : public UploadReconcilerTest {
 protected:
  std::string Address(const std::string& name = "nightly") {
    return bed_.Job(bed_.TaskNameOfUpload(name)).repository.address;
  }
  std::string RepositoryOf(const std::string& name = "nightly") {
    const auto reference =
        velero::ParseDataReference(GetString(bed_.Upload(name), {"status", "snapshotID"}));
    EXPECT_THAT(reference, IsOk());
    return reference.ok() ? reference->claim_uid : "";
  }
};

TEST_F(RestoredUploadTest, AllUploadsOfARestoredPvcGoOnInTheRepositoryOfItsBackup) {
  RecordFormer(bed_);
  Controller& controller = StartRunning();
  EXPECT_THAT(Address(), HasSubstr(absl::StrCat("/shop/", kFormerUid)));
  EXPECT_EQ(Work().restored_snapshot, std::string(64, 'f'));
  EXPECT_EQ(Work().pvc_uid, MoverBed::ClaimUid("shop", "data"));
  EXPECT_EQ(Work().path, "/shop/data");
  bed_.Finish(bed_.TaskNameOfUpload());
  controller.LookTimes(3);
  ASSERT_EQ(bed_.PhaseOf(), "Completed") << bed_.MessageOf();
  EXPECT_EQ(RepositoryOf(), kFormerUid);
  const std::vector<Json> bases = bed_.api.All(VolumeSnapshotContentType());
  ASSERT_THAT(bases, SizeIs(1));
  EXPECT_EQ(k8s::Annotation(bases[0], "mover.csi-delta.io/claim-uid"),
            MoverBed::ClaimUid("shop", "data"))
      << "the base is of the volume that there is";
  bed_.AddUpload("next");
  controller.LookTimes(4);
  EXPECT_THAT(Address("next"), HasSubstr(kFormerUid));
  EXPECT_EQ(Work("next").restored_snapshot, std::string(64, 'f'));
  EXPECT_EQ(Work("next").parent, "");
}

TEST_F(RestoredUploadTest, InAnotherClusterItStartsOverAndSaysWhyAndWhatItCosts) {
  RecordFormer(bed_, kForeign);
  Controller& controller = StartRunning();
  EXPECT_THAT(Address(), HasSubstr(absl::StrCat("/shop/", MoverBed::ClaimUid("shop", "data"))));
  EXPECT_EQ(Work().restored_snapshot, "");
  EXPECT_THAT(Work().why_no_parent,
              AllOf(HasSubstr("cluster c2000000"), HasSubstr("stores 1.0 GiB once more")));
  bed_.Finish(bed_.TaskNameOfUpload());
  controller.LookTimes(3);
  EXPECT_EQ(RepositoryOf(), MoverBed::ClaimUid("shop", "data"));
  Adopt(bed_);
  bed_.AddUpload("next");
  controller.LookTimes(4);
  EXPECT_THAT(Address("next"), HasSubstr(MoverBed::ClaimUid("shop", "data")))
      << "all of it is there already";
  EXPECT_EQ(Work("next").why_no_parent, "");
}

TEST_F(RestoredUploadTest, OfAnAdoptedClusterItGoesOnInThatClustersFolderUntilThatIsUndone) {
  RecordFormer(bed_, kForeign);
  Adopt(bed_);
  Controller& controller = StartRunning();
  EXPECT_THAT(Address(), HasSubstr(absl::StrCat("csi-delta/", kForeign, "/shop/", kFormerUid)));
  EXPECT_EQ(Work().host, kForeign) << "else it finds no parent";
  EXPECT_EQ(Work().restored_snapshot, std::string(64, 'f'));
  bed_.api.Remove(AdoptionKey(Foreign()));
  bed_.Finish(bed_.TaskNameOfUpload());
  controller.LookTimes(3);
  ASSERT_EQ(bed_.PhaseOf(), "Completed") << bed_.MessageOf();
  EXPECT_THAT(GetString(bed_.Upload(), {"status", "snapshotID"}),
              HasSubstr(absl::StrCat(kForeign, "/shop/", kFormerUid)))
      << "where an upload goes is decided once";
  EXPECT_EQ(
      k8s::Annotation(bed_.api.All(VolumeSnapshotContentType())[0], "mover.csi-delta.io/cluster"),
      bed_.env.cluster)
      << "the base is in this cluster";
  bed_.AddUpload("next");
  controller.LookTimes(4);
  EXPECT_THAT(Address("next"), HasSubstr(absl::StrCat(bed_.env.cluster, "/shop/",
                                                      MoverBed::ClaimUid("shop", "data"))));
  EXPECT_THAT(Work("next").why_no_parent, HasSubstr("csi-delta adopt --from-cluster"));
}

// Else a worker would write into one repository, and its snapshot be looked for in another.
TEST_F(RestoredUploadTest, WhereAnUploadGoesIsDecidedOnce) {
  RecordFormer(bed_);
  Controller& controller = StartRunning();
  bed_.api.Remove(objects::Secret::Key(MoverBed::kMover,
                                       RestoredSecretName({"velero", "default", "shop", "data"})));
  ReplaceWorker(controller);
  EXPECT_THAT(Address(), HasSubstr(kFormerUid));
  bed_.Finish(bed_.TaskNameOfUpload());
  controller.LookTimes(3);
  EXPECT_EQ(RepositoryOf(), kFormerUid);
  bed_.AddUpload("next");
  controller.LookTimes(4);
  EXPECT_THAT(Address("next"), HasSubstr(MoverBed::ClaimUid("shop", "data")))
      << "without a record it starts over";
}

// Another controller has made the task, and decided otherwise.
TEST_F(RestoredUploadTest, WhereAnUploadGoesIsDecidedByItsTask) {
  RecordFormer(bed_);
  bed_.api.SetInterceptor([this](const support::ApiCall& call, const Json* body) {
    if (call.verb == "create" && call.plural == "volumetasks") {
      Json made = *body;
      made["spec"]["volume"].erase("repositoryUID");
      made["spec"]["volume"].erase("restoredSnapshot");
      bed_.api.Seed(objects::VolumeTask::Type(), made);
    }
    return absl::OkStatus();
  });
  StartRunning();
  EXPECT_THAT(Address(), HasSubstr(MoverBed::ClaimUid("shop", "data")));
}

TEST_F(RestoredUploadTest, WhatWasStoredIsAskedToGoFromWhereItIs) {
  RecordFormer(bed_);
  Controller& controller = StartRunning();
  bed_.Cancel("nightly");
  controller.LookTimes(4);
  const std::vector<Json> deletions = bed_.api.All(DataDeletionType());
  ASSERT_THAT(deletions, SizeIs(1));
  const auto reference = velero::ParseDataReference(
      support::As<objects::DataDeletion>(deletions[0]).spec().snapshot_id);
  ASSERT_THAT(reference, IsOk());
  EXPECT_EQ(reference->claim_uid, kFormerUid);
}

// The record of the PVC that is gone has it, or that of another which was restored since.
TEST_F(RestoredUploadTest, TheWorkerIsToldOfDamageThatAnyRecordOfTheRepositoryHas) {
  const objects::RepositoryDamage damage{.packs = {std::string(64, 'a')}, .packs_found = 1};
  const auto seed = [&](const std::string& uid, const std::string& repository_uid) {
    const std::string snapshot =
        velero::FormatDataReference(Reference(bed_.env.cluster, repository_uid, 'd'));
    return SeedRecord(
        "data", uid, "default",
        {{"lastGoodBackup", {{"snapshotID", snapshot}}},
         {"verification", VerificationJson({.finding = "1 error", .damage = damage})}});
  };
  ASSERT_THAT(OpenKeyring(bed_.ctx, bed_.api, MoverBed::kMover, {"velero", "default"},
                          /*make=*/true, bed_.secure_random),
              IsOk());
  RecordFormer(bed_);
  bed_.worker = MoverBed::Worker::kRuns;
  for (const std::string& uid : {std::string(kFormerUid), std::string("between")}) {
    SCOPED_TRACE(uid);
    const k8s::ObjectKey record = seed(uid, kFormerUid);
    VolumeRecords records([](const VolumeRecordKey&) {});
    k8s::Informer informer({.type = objects::ProtectedVolume::Type()});
    records.Add(informer);
    informer.OnAll(bed_.api.All(objects::ProtectedVolume::Type()));
    bed_.AddUpload(uid);
    Controller controller(bed_, 3, &records);
    EXPECT_EQ(Work(uid).damage, damage);
    bed_.Finish(bed_.TaskNameOfUpload(uid));
    controller.LookTimes(3);
    bed_.api.Remove(record);
  }
}

// What checks found stands in the record of the volume, from which the controller reads it, or from
// the API server while it does not know all records yet.
TEST_F(UploadReconcilerTest, TheWorkerIsToldWhatACheckFoundDamaged) {
  const objects::RepositoryDamage damage{.packs = {std::string(64, 'a')}, .packs_found = 1};
  const auto seed = [&](const std::string& pvc, const std::string& location,
                        const objects::Verification& found) {
    return SeedRecord(pvc, MoverBed::ClaimUid("shop", pvc), location,
                      {{"verification", VerificationJson(found)}});
  };
  const objects::Verification finding{.finding = "1 error", .damage = damage};
  seed("another", "default", finding);
  seed("data", "another", finding);
  const k8s::ObjectKey record = seed("data", "default", {});
  bed_.worker = MoverBed::Worker::kRuns;
  struct Case {
    const char* upload;
    bool from_records;
    std::optional<objects::RepositoryDamage> want;
  };
  for (const Case& one : {Case{"quiet", true, std::nullopt}, Case{"quiet-too", false, std::nullopt},
                          Case{"told", true, damage}, Case{"told-too", false, damage}}) {
    SCOPED_TRACE(one.upload);
    if (one.want.has_value()) {
      bed_.api.SetField(record, {"status", "verification"}, VerificationJson(finding));
    }
    VolumeRecords records([](const VolumeRecordKey&) {});
    k8s::Informer informer({.type = objects::ProtectedVolume::Type()});
    records.Add(informer);
    if (one.from_records) {
      informer.OnAll(bed_.api.All(objects::ProtectedVolume::Type()));
    }
    bed_.AddUpload(one.upload);
    Controller controller(bed_, 0, &records);
    const int gets = bed_.api.CallCount("get", "protectedvolumes");
    controller.LookTimes(3);
    EXPECT_EQ(Work(one.upload).damage, one.want);
    EXPECT_EQ(bed_.api.CallCount("get", "protectedvolumes") > gets, !one.from_records);
    bed_.Finish(bed_.TaskNameOfUpload(one.upload));
    controller.LookTimes(3);
  }
}

TEST_F(UploadReconcilerTest, TheRepositorySnapshotNamesTheBackupThatOwnsTheUpload) {
  bed_.worker = MoverBed::Worker::kRuns;
  bed_.AddUpload("nightly");
  bed_.api.Mutate({DataUploadType(), "velero", "nightly"}, [](Json& upload) {
    upload["metadata"]["labels"]["velero.io/backup-name"] = "a-digest";
    upload["metadata"]["ownerReferences"] = {
        {{"apiVersion", "velero.io/v1"}, {"kind", "Backup"}, {"name", "backup-7"}, {"uid", "b"}}};
  });
  Controller(bed_).LookTimes(3);
  EXPECT_THAT(Work().tags, ElementsAre(bed_.TaskNameOfUpload(), "velero-backup=velero/backup-7"));
}

TEST_F(UploadReconcilerTest, AMemberOfAVolumeGroupSaysSo) {
  bed_.AddUpload("nightly");
  const Json source = *bed_.api.Find(VolumeSnapshotKey("shop", "velero-nightly"));
  bed_.api.Mutate(VolumeSnapshotContentKey(support::BoundContentName(source)), [](Json& content) {
    SetJson(content, {"metadata", "labels", objects::kMovedGroupLabel}, "record");
    content["metadata"]["annotations"]["mover.csi-delta.io/group-name"] = "shop/db";
    content["metadata"]["annotations"]["mover.csi-delta.io/group-snapshot"] = "velero-db-0123";
    content["metadata"]["annotations"]["mover.csi-delta.io/group-cut-at"] = "2026-11-23T05:00:00Z";
    content["metadata"]["annotations"]["mover.csi-delta.io/group-members"] = "3";
  });
  bed_.worker = MoverBed::Worker::kRuns;
  Controller controller(bed_, 3);
  EXPECT_THAT(Work().tags,
              testing::IsSupersetOf({std::string("volume-group=shop/db"),
                                     std::string("volume-group-snapshot=velero-db-0123"),
                                     std::string("volume-group-cut=2026-11-23T05:00:00Z"),
                                     std::string("volume-group-members=3")}));
  const Json content = *bed_.api.Find(VolumeSnapshotContentKey(bed_.TaskNameOfUpload()));
  EXPECT_EQ(csi::MovedGroupOf(objects::Object(content)), "record");
  bed_.Finish(bed_.TaskNameOfUpload());
  controller.LookTimes(3);
  EXPECT_EQ(bed_.PhaseOf(), "Completed") << bed_.MessageOf();
  EXPECT_THAT(bed_.MessageOf(),
              testing::EndsWith("; of volume group shop/db, taken at 2026-11-23T05:00:00Z"));
}

TEST_F(UploadReconcilerTest, ProgressIsCopied) {
  Controller& controller = StartRunning();
  EXPECT_EQ(GetInt(bed_.Upload(), {"status", "progress", "bytesDone"}), 1 << 20);
  EXPECT_EQ(GetInt(bed_.Upload(), {"status", "progress", "totalBytes"}), MoverBed::kClaimBytes);
  EXPECT_NE(GetString(bed_.Upload(), {"status", "startTimestamp"}), "");
  const auto version = k8s::ResourceVersion(bed_.Upload());
  controller.LookTimes(3);  // Nothing new, nothing written.
  EXPECT_EQ(k8s::ResourceVersion(bed_.Upload()), version);
  bed_.SetTaskStatus(
      bed_.TaskNameOfUpload(),
      {{"phase", "Running"}, {"doneBytes", 2 << 20}, {"totalBytes", MoverBed::kClaimBytes}});
  controller.Look();
  EXPECT_EQ(GetInt(bed_.Upload(), {"status", "progress", "bytesDone"}), 2 << 20);
  bed_.Finish(bed_.TaskNameOfUpload());
  controller.Look();
  EXPECT_EQ(bed_.PhaseOf(), "Completed");
}

// Ten minutes of a transfer that moves on each second, as controller and worker go about it.
class RunningUploadTest : public UploadReconcilerTest {
 protected:
  static constexpr absl::Duration kTime = absl::Minutes(10);

  RunningUploadTest() : controller_(StartRunning()) { bed_.api.ClearCalls(); }

  int64_t Done() const { return GetInt(bed_.Upload(), {"status", "progress", "bytesDone"}); }
  void Write(int64_t done_bytes, int64_t total_bytes = MoverBed::kClaimBytes) {
    bed_.api.Mutate({objects::VolumeTask::Type(), MoverBed::kMover, bed_.TaskNameOfUpload()},
                    [&](Json& task) {
                      task["status"]["doneBytes"] = done_bytes;
                      task["status"]["totalBytes"] = total_bytes;
                    });
  }

  Controller& controller_;
};

TEST_F(RunningUploadTest, CostsNoMoreThanARequestInTwoSeconds) {
  TaskReport worker(bed_.api,
                    {objects::VolumeTask::Type(), MoverBed::kMover, bed_.TaskNameOfUpload()},
                    support::As<objects::VolumeTask>(*bed_.Task()).status());
  const absl::Time end = bed_.clock.Now() + kTime;
  absl::Time copied_at = bed_.clock.Now();
  absl::Duration silence_max;
  for (int64_t done = 1 << 20; bed_.clock.Now() < end; done += 4096) {
    worker.Progress({"transfer", done, MoverBed::kClaimBytes});
    ASSERT_THAT(worker.Step(bed_.ctx), IsOk());
    const int64_t before = Done();
    controller_.LookTimes(2);
    copied_at = Done() == before ? copied_at : bed_.clock.Now();
    silence_max = std::max(silence_max, bed_.clock.Now() - copied_at);
  }
  EXPECT_LE(static_cast<double>(bed_.api.calls().size()), absl::ToDoubleSeconds(kTime) / 2);
  EXPECT_LE(bed_.api.CallCount("update", "datauploads"), kTime / kReportEvery + 1);
  EXPECT_LE(bed_.api.CallCount("patch", "volumetasks"), kTime / kReportEvery + 3);
  EXPECT_LE(silence_max, kReportEvery + kProgressCopiedEvery);
}

TEST_F(RunningUploadTest, AWorkerThatReportsEachSecondIsCopiedAsSeldom) {
  for (int i = 0; i < 600; ++i) {
    Write((2 << 20) + i);
    controller_.LookTimes(2);
  }
  const auto copies = absl::Seconds(600) / kProgressCopiedEvery;
  EXPECT_LE(bed_.api.CallCount("update", "datauploads"), copies + 1);
  EXPECT_GE(bed_.api.CallCount("update", "datauploads"), copies - 1);
}

TEST_F(RunningUploadTest, ThatNothingIsHeardOfCostsNothing) {
  controller_.LookTimes(2 * 600);
  for (const support::ApiCall& call : bed_.api.calls()) {
    EXPECT_EQ(call.verb, "get") << call;
    EXPECT_THAT(call.plural, testing::AnyOf("backupstoragelocations", "secrets"))
        << "but for new credentials: " << call;
  }
}

TEST_F(RunningUploadTest, ASizeThatBecomesKnownIsCopiedAtOnce) {
  Write(0, 0);
  controller_.LookTimes(30);
  ASSERT_EQ(Done(), 0);
  Write(0, MoverBed::kClaimBytes);
  controller_.Look();
  EXPECT_EQ(GetInt(bed_.Upload(), {"status", "progress", "totalBytes"}), MoverBed::kClaimBytes);
  Write(4096);
  controller_.Look();
  EXPECT_EQ(Done(), 4096) << "the first bytes";
  Write(8192);
  controller_.Look();
  EXPECT_EQ(Done(), 4096);
}

TEST_F(RunningUploadTest, APodThatIsGoneIsSeenAtOnce) {
  bed_.api.Remove({PodType(), MoverBed::kMover, bed_.TaskNameOfUpload()});
  controller_.Look();
  EXPECT_THAT(bed_.MessageOf(), HasSubstr("was lost"));
}

// Another controller, or a person, wrote into it since it was seen last.
TEST_F(RunningUploadTest, ProgressIsNotWrittenOverWhatOthersWrote) {
  const Json seen = bed_.Upload();
  bed_.api.SetField({DataUploadType(), "velero", "nightly"}, {"spec", "cancel"}, true);
  Write(3 << 20);
  bed_.TellWatchers();
  bed_.clock.Advance(kProgressCopiedEvery);
  TransferScheduler scheduler(
      LimitsOf(bed_.env.settings), bed_.clock, [] { return true; }, [](const std::string&) {});
  UploadReconciler reconciler(bed_.env, scheduler, [](const TransferEnd&) {});
  EXPECT_THAT(reconciler.Reconcile(bed_.ctx, seen), support::StatusIs(absl::StatusCode::kAborted));
  EXPECT_TRUE(GetBool(bed_.Upload(), {"spec", "cancel"}));
}

// A class may name its Secrets by the claim, and the one that is made is called otherwise.
TEST_F(UploadReconcilerTest, TheMadeClaimSaysWhichOneItStandsFor) {
  StartRunning();
  const Json made =
      bed_.api.Find(ClaimKey(MoverBed::kMover, bed_.TaskNameOfUpload())).value_or(Json());
  EXPECT_EQ(k8s::Annotation(made, objects::kMoverClaimNamespaceAnnotation), "shop");
  EXPECT_EQ(k8s::Annotation(made, objects::kMoverClaimAnnotation), "data");
}

// As when a namespace is deleted while its volumes are moved.
TEST_F(UploadReconcilerTest, GoesOnWhenItsClaimIsGone) {
  for (int looks = 1; looks < 6; ++looks) {
    MoverBed bed;
    bed.AddUpload("nightly");
    Controller controller(bed, looks);
    bed.api.Remove(ClaimKey("shop", "data"));
    controller.LookTimes(6);
    EXPECT_EQ(bed.PhaseOf(), "Completed") << looks << ": " << bed.MessageOf();
  }
}

// Its Pod is Running for ever, deleted or not, as where no kubelet ends it.
TEST_F(UploadReconcilerTest, WhatIsDoneIsCompletedAlsoWhenTheKubeletIsGone) {
  Controller& controller = StartRunning();
  const std::string task_name = bed_.TaskNameOfUpload();
  bed_.Finish(task_name);
  bed_.SetPodStatus(task_name, {{"phase", "Running"}});
  bed_.api.SetField({PodType(), MoverBed::kMover, task_name}, {"metadata", "finalizers"},
                    Json::array({"a-node/that-is-gone"}));
  controller.LookTimes(4);
  EXPECT_EQ(bed_.PhaseOf(), "Completed") << bed_.MessageOf();
}

// MoverBed plays the worker. What a worker's program really writes is read just as well, and has
// each field that MoverBed writes.
TEST_F(UploadReconcilerTest, WhatAWorkersProgramWritesIsRead) {
  Controller& controller = StartRunning();
  const std::string task_name = bed_.TaskNameOfUpload();
  const k8s::ObjectKey task = {objects::VolumeTask::Type(), MoverBed::kMover, task_name};
  bed_.Finish(task_name);
  const Json played = bed_.api.Find(task)->at("status");
  bed_.SetTaskStatus(task_name, Json::object());
  bed_.SetPodStatus(task_name, {{"phase", "Running"}});
  incremental::BackupResult result;
  result.snapshot = repository::Id::Of("a snapshot");
  result.mode_done = "full";
  result.why = incremental::WhyFull{incremental::FullReason::kNoParent, "the first one"};
  result.base = "0123";
  result.logical_bytes = MoverBed::kClaimBytes;
  result.changed_bytes = 11;
  result.read_bytes = 12;
  result.audit_bytes = 13;
  result.stored_bytes = 14;
  result.repository = incremental::RepositorySize{.pack_bytes = 15, .snapshots = 16};
  EXPECT_THAT(
      RunTask(bed_.ctx, bed_.api, task, "node-9",
              [&](const CallContext&, const objects::VolumeJob&, const TaskProgress& progress) {
                progress({"transfer", 3 << 20, MoverBed::kClaimBytes});
                return objects::Outcome{.code = objects::OutcomeCode::kDone,
                                        .backup = FiguresOf(result)};
              }),
      support::IsOkAndHolds(objects::TaskPhase::kSucceeded));
  const Json written = bed_.api.Find(task).value_or(Json{{"status", nullptr}}).at("status");
  bed_.SetPodStatus(task_name, {{"phase", "Succeeded"}});
  controller.LookTimes(2);
  ASSERT_EQ(bed_.PhaseOf(), "Completed") << bed_.MessageOf();
  const Json upload = bed_.Upload();
  const auto reference = velero::ParseDataReference(GetString(upload, {"status", "snapshotID"}));
  ASSERT_THAT(reference, IsOk());
  EXPECT_EQ(reference->snapshot_id, result.snapshot.Hex());
  EXPECT_EQ(GetInt(upload, {"status", "progress", "bytesDone"}), MoverBed::kClaimBytes);
  EXPECT_EQ(GetInt(upload, {"status", "incrementalBytes"}), 11);
  for (const auto& [annotation, value] :
       std::map<std::string, std::string>{{"mode", "full"},
                                          {"reason", "no-parent: the first one"},
                                          {"base", "0123"},
                                          {"changed-bytes", "11"},
                                          {"read-bytes", "12"},
                                          {"audit-bytes", "13"},
                                          {"stored-bytes", "14"},
                                          {"repository-bytes", "15"},
                                          {"repository-snapshots", "16"},
                                          {"node", "node-9"}}) {
    EXPECT_EQ(k8s::Annotation(upload, "mover.csi-delta.io/" + annotation), value) << annotation;
  }
  EXPECT_NE(k8s::Annotation(upload, "mover.csi-delta.io/uploaded-at"), "");
  for (const auto& [field, value] : played.items()) {
    EXPECT_TRUE(written.contains(field)) << field << " is written by MoverBed alone";
  }
  EXPECT_THAT(
      objects::ReadOutcome(written.at("outcome")),
      testing::Optional(testing::Field(&objects::Outcome::backup, testing::Ne(std::nullopt))));
}

TEST_F(UploadReconcilerTest, TheNewestSnapshotIsTheBase) {
  bed_.AddUpload("monday");
  Controller controller(bed_, 5);
  bed_.AddUpload("tuesday");
  controller.LookTimes(5);
  EXPECT_EQ(bed_.PhaseOf("tuesday"), "Completed");
  ExpectNothingButBases(bed_, 1);
  EXPECT_TRUE(
      bed_.api.Find(VolumeSnapshotContentKey(bed_.TaskNameOfUpload("tuesday"))).has_value());
}

TEST_F(UploadReconcilerTest, ADriverThatMissesItsBaseGetsItKeptFromThenOn) {
  bed_.env.settings.keep_base["d.example.com"] = false;
  bed_.AddUpload("first");
  Controller(bed_).LookTimes(5);
  EXPECT_EQ(bed_.PhaseOf("first"), "Completed") << bed_.MessageOf("first");
  ExpectNothingButBases(bed_, 0);
  bed_.reason = "base-snapshot-gone";
  bed_.AddUpload("second");
  Controller(bed_).LookTimes(5);
  ExpectNothingButBases(bed_, 1);
  bed_.reason = "";
  bed_.AddUpload("third");
  Controller(bed_).LookTimes(5);
  EXPECT_EQ(bed_.PhaseOf("third"), "Completed") << bed_.MessageOf("third");
  ExpectNothingButBases(bed_, 1);
}

TEST_F(UploadReconcilerTest, OtherMoversObjectsAreLeftAlone) {
  bed_.AddUpload("nightly");
  bed_.api.SetField({DataUploadType(), "velero", "nightly"}, {"spec", "datamover"}, "velero");
  Controller controller(bed_);
  bed_.api.ClearCalls();
  controller.LookTimes(3);
  EXPECT_EQ(bed_.PhaseOf(), "");
  EXPECT_THAT(bed_.api.calls(), IsEmpty());
}

TEST_F(UploadReconcilerTest, IsCancelledInEveryPhase) {
  const support::AwaitEnd end("uploads that are cancelled in every phase");
  std::set<std::string> met;
  int uploads = 0;
  for (const absl::string_view pod : {"waits", "says nothing", "runs"}) {
    for (int looks = 0; looks < 5; ++looks) {
      SCOPED_TRACE(absl::StrCat("the Pod ", pod, ", after looks: ", looks));
      bed_.worker = pod == "runs" ? MoverBed::Worker::kRuns : MoverBed::Worker::kPending;
      const std::string name = absl::StrCat("nightly-", ++uploads);
      bed_.AddUpload(name);
      Controller controller(bed_);
      for (int look = 0; look < looks; ++look) {
        controller.LookTimes(1);
        if (pod == "says nothing" && bed_.Pod(name).has_value()) {
          bed_.SetPodStatus(bed_.TaskNameOfUpload(name), {{"phase", "Running"}});
        }
      }
      met.insert(bed_.PhaseOf(name));
      bed_.Cancel(name);
      controller.Look();
      EXPECT_THAT(bed_.PhaseOf(name), testing::AnyOf("Canceling", "Canceled"));
      controller.LookTimes(3);
      EXPECT_EQ(bed_.PhaseOf(name), "Canceled");
      EXPECT_NE(GetString(bed_.Upload(name), {"status", "completionTimestamp"}), "");
      EXPECT_NE(bed_.MessageOf(name), "");
      ExpectNothingButBases(bed_, 0);
    }
  }
  EXPECT_THAT(met, ElementsAre("", "Accepted", "InProgress", "Prepared"));
}

TEST_F(UploadReconcilerTest, WhatFailedSaysOfWhatAndWhy) {
  Controller& controller = StartRunning();
  bed_.SetTaskStatus(
      bed_.TaskNameOfUpload(),
      {{"phase", "Failed"}, {"outcome", {{"code", "Failed"}, {"message", "the bucket is full"}}}});
  controller.LookTimes(3);
  EXPECT_EQ(bed_.PhaseOf(), "Failed");
  EXPECT_THAT(bed_.MessageOf(), AllOf(HasSubstr("shop/data"), HasSubstr("uploading"),
                                      HasSubstr("the bucket is full")));
  EXPECT_THAT(bed_.EventReasons(), ElementsAre("Warning Failed"));
  ExpectNothingButBases(bed_, 0);
}

TEST_F(UploadReconcilerTest, APodThatNeverRunsFailsWithTheMostSpecificMessage) {
  Controller& controller = StartPending();
  bed_.SetUnschedulable(bed_.TaskNameOfUpload(), "0/3 nodes are available");
  controller.Look();
  EXPECT_EQ(bed_.PhaseOf(), "Accepted");
  EXPECT_THAT(bed_.MessageOf(), HasSubstr("0/3 nodes"));
  ExpectFailsInTime(controller, "0/3 nodes are available");
  EXPECT_THAT(bed_.MessageOf(),
              AllOf(HasSubstr("shop/data"), HasSubstr("preparing"), HasSubstr("30m")));
  ExpectNothingButBases(bed_, 0);
}

TEST_F(UploadReconcilerTest, APodThatWaitedForRoomOnANodeHasItsTimeFromThenOn) {
  Controller& controller = StartPending();
  bed_.TakeRoomOf(bed_.TaskNameOfUpload());
  bed_.clock.Advance(bed_.env.settings.prepare_timeout * 2);
  controller.LookTimes(2);
  bed_.GiveRoom();
  controller.LookTimes(2);
  EXPECT_EQ(bed_.PhaseOf(), "Accepted") << bed_.MessageOf();
  ExpectFailsInTime(controller, "");
}

constexpr char kCordoned[] =
    "0/2 nodes are available: 1 node(s) were unschedulable, 1 node(s) had "
    "volume node affinity conflict.";

TEST_F(UploadReconcilerTest, APodThatNoNodeTakesGivesItsAdmissionToOthers) {
  bed_.env.settings.transfers_max = 1;
  bed_.worker = MoverBed::Worker::kPending;
  bed_.AddUpload("cordoned");
  Controller controller(bed_, 6);
  bed_.SetUnschedulable(bed_.TaskNameOfUpload("cordoned"), kCordoned);
  AddOther();
  controller.LookTimes(3);
  EXPECT_EQ(bed_.MessageOf("other"), "waits: at most 1 transfer at once");
  bed_.clock.Advance(kUnschedulableTimeMax);
  bed_.worker = MoverBed::Worker::kRuns;
  controller.LookTimes(6);
  EXPECT_EQ(bed_.PhaseOf("other"), "InProgress") << bed_.MessageOf("other");
  EXPECT_THAT(bed_.MessageOf("cordoned"), HasSubstr(kCordoned));
  EXPECT_EQ(bed_.pods_made, 2) << "its Pod stays";
  // The node is back: it runs at once, and counts.
  bed_.api.Mutate({PodType(), MoverBed::kMover, bed_.TaskNameOfUpload("cordoned")}, [](Json& pod) {
    pod["spec"]["nodeName"] = "node-1";
    pod["status"] = {{"phase", "Running"}};
  });
  AddOther("third");
  bed_.Finish(bed_.TaskNameOfUpload("other"));
  controller.LookTimes(6);
  EXPECT_EQ(bed_.PhaseOf("cordoned"), "Prepared") << bed_.MessageOf("cordoned");
  EXPECT_EQ(k8s::Annotation(bed_.Upload("cordoned"), objects::kAwaitingAtAnnotation), "");
  EXPECT_EQ(bed_.PhaseOf("other"), "Completed");
  EXPECT_EQ(bed_.MessageOf("third"), "waits: at most 1 transfer at once");
  bed_.Finish(bed_.TaskNameOfUpload("cordoned"));
  controller.LookTimes(6);
  EXPECT_EQ(bed_.PhaseOf("cordoned"), "Completed");
  EXPECT_EQ(bed_.PhaseOf("third"), "InProgress");
}

TEST_F(UploadReconcilerTest, WhereNoNodeTakesAnyPodAdmissionsAreKept) {
  bed_.env.settings.transfers_max = 1;
  Controller& controller = StartPending();
  bed_.SetUnschedulable(bed_.TaskNameOfUpload(), "0/2 nodes are available: 2 Insufficient cpu.");
  const Json pod = *bed_.Pod();
  for (int i = 0; i < kUnschedulablePodsMax; ++i) {
    Json other = {{"metadata",
                   {{"name", absl::StrCat("du-other-", i)},
                    {"namespace", MoverBed::kMover},
                    {"labels", {{objects::kMoverTaskLabel, absl::StrCat("du-other-", i)}}}}},
                  {"status", pod["status"]}};
    bed_.api.Seed(PodType(), other);
  }
  bed_.clock.Advance(kUnschedulableTimeMax);
  controller.LookTimes(2);
  EXPECT_NE(k8s::Annotation(bed_.Upload(), objects::kAdmittedAtAnnotation), "");
  bed_.api.Remove({PodType(), MoverBed::kMover, "du-other-0"});
  controller.LookTimes(2);
  EXPECT_EQ(k8s::Annotation(bed_.Upload(), objects::kAdmittedAtAnnotation), "");
}

TEST_F(UploadReconcilerTest, APodThatNoNodeTakesFailsThoughWorkersOfItsSlotRun) {
  Controller& controller = StartPending();
  bed_.TakeRoomOf(bed_.TaskNameOfUpload());
  bed_.SetUnschedulable(bed_.TaskNameOfUpload(), kCordoned);
  ExpectFailsInTime(controller, kCordoned);
  EXPECT_THAT(bed_.MessageOf(), HasSubstr("not prepared within 30m"));
}

TEST_F(UploadReconcilerTest, ASnapshotThatIsNotReadyHoldsNoAdmission) {
  bed_.env.settings.transfers_max = 1;
  bed_.worker = MoverBed::Worker::kRuns;
  bed_.AddUpload("slow");
  const k8s::ObjectKey source = VolumeSnapshotKey("shop", "velero-slow");
  bed_.api.SetField(source, {"status", "readyToUse"}, false);
  Controller controller(bed_, 2);
  AddOther();
  controller.LookTimes(4);
  EXPECT_THAT(bed_.MessageOf("slow"), HasSubstr("shop/velero-slow to be ready to use"));
  EXPECT_EQ(bed_.PhaseOf("other"), "InProgress") << bed_.MessageOf("other");
  // Once it is ready it waits for its admission, and no PVC is made before.
  bed_.api.SetField(source, {"status", "readyToUse"}, true);
  controller.LookTimes(6);
  EXPECT_EQ(bed_.MessageOf("slow"), "waits: at most 1 transfer at once");
  EXPECT_FALSE(
      bed_.api.Find(ClaimKey(MoverBed::kMover, bed_.TaskNameOfUpload("slow"))).has_value());
  for (int i = 0; i < 4; ++i) {
    bed_.clock.Advance(absl::Minutes(10));
    Beat("other");
    controller.LookTimes(1);
  }
  EXPECT_EQ(bed_.PhaseOf("slow"), "Accepted") << "that time does not count";
  bed_.Finish(bed_.TaskNameOfUpload("other"));
  controller.LookTimes(5);
  EXPECT_EQ(bed_.PhaseOf("slow"), "InProgress") << bed_.MessageOf("slow");
}

TEST_F(UploadReconcilerTest, ASnapshotThatNeverBecomesReadyEndsAtThePrepareTimeout) {
  bed_.AddUpload("slow");
  bed_.api.SetField(VolumeSnapshotKey("shop", "velero-slow"), {"status", "readyToUse"}, false);
  Controller(bed_).LookTimes(4);
  Controller another(bed_);  // Which knows no more than the object.
  ExpectFailsInTime(another, "not prepared within 30m", "slow");
  EXPECT_THAT(bed_.MessageOf("slow"), HasSubstr("velero-slow to be ready to use"));
}

TEST_F(UploadReconcilerTest, AWorkerThatNeverBeginsFailsToo) {
  Controller& controller = StartPending();
  bed_.SetPodStatus(bed_.TaskNameOfUpload(), {{"phase", "Running"}});
  controller.Look();
  EXPECT_EQ(bed_.PhaseOf(), "Prepared");
  ExpectFailsInTime(controller, "does not report");
  ExpectNothingButBases(bed_, 0);
}

TEST_F(UploadReconcilerTest, ALostPodIsReplacedAndTheRunGoesOn) {
  Controller& controller = StartRunning();
  bed_.SetPodStatus(bed_.TaskNameOfUpload(), {{"phase", "Failed"}, {"reason", "Evicted"}});
  controller.Look();
  EXPECT_EQ(bed_.PhaseOf(), "InProgress");
  EXPECT_THAT(bed_.MessageOf(), HasSubstr("Evicted"));
  controller.LookTimes(8);
  EXPECT_EQ(bed_.PhaseOf(), "InProgress");
  EXPECT_EQ(bed_.MessageOf(), "");
  bed_.Finish(bed_.TaskNameOfUpload());
  controller.Look();
  EXPECT_EQ(bed_.PhaseOf(), "Completed");
  EXPECT_EQ(controller.ends.at(0).pods_lost, 1);
  ExpectNothingButBases(bed_, 1);
}

TEST_F(UploadReconcilerTest, APodThatIsLostAfterHoursHasItsSuccessorsTimeFromThenOn) {
  Controller& controller = StartRunning();
  bed_.clock.Advance(bed_.env.settings.prepare_timeout * 3);
  bed_.SetPodStatus(bed_.TaskNameOfUpload(), {{"phase", "Failed"}, {"reason", "Evicted"}});
  bed_.worker = MoverBed::Worker::kPending;
  controller.LookTimes(8);
  EXPECT_EQ(bed_.PhaseOf(), "InProgress") << bed_.MessageOf();
  ExpectFailsInTime(controller, "");
}

// A first backup that takes a week, on nodes that are drained each day.
TEST_F(UploadReconcilerTest, AWeekOfDrainsEndsWell) {
  constexpr int kDays = 7;
  bed_.worker = MoverBed::Worker::kRuns;
  bed_.AddUpload("first");
  Controller(bed_).LookTimes(4);
  for (int day = 1; day <= kDays; ++day) {
    for (int hour = 0; hour < 24 * 6; ++hour) {
      bed_.clock.Advance(absl::Minutes(10));
      bed_.SetTaskStatus(bed_.TaskNameOfUpload("first"),
                         {{"phase", "Running"},
                          {"stage", "transfer"},
                          {"doneBytes", MoverBed::kClaimBytes / (kDays + 1) * day},
                          {"totalBytes", MoverBed::kClaimBytes},
                          {"heartbeatTimestamp", FormatRfc3339(bed_.clock.Now())}});
    }
    Controller(bed_).Look();
    bed_.api.SetField(
        {objects::VolumeTask::Type(), MoverBed::kMover, bed_.TaskNameOfUpload("first")},
        {"status", "phase"}, "Interrupted");
    bed_.SetPodStatus(bed_.TaskNameOfUpload("first"), {{"phase", "Succeeded"}});
    Controller(bed_).Look();
    EXPECT_THAT(bed_.MessageOf("first"), HasSubstr("0 of at most 5 that count")) << day;
    Controller(bed_).LookTimes(8);
    ASSERT_EQ(bed_.PhaseOf("first"), "InProgress") << day << ": " << bed_.MessageOf("first");
    ASSERT_EQ(bed_.pods_made, day + 1);
  }
  bed_.Finish(bed_.TaskNameOfUpload("first"));
  Controller last(bed_);
  last.Look();
  EXPECT_EQ(bed_.PhaseOf("first"), "Completed") << bed_.MessageOf("first");
  ASSERT_THAT(last.ends, SizeIs(1));
  EXPECT_EQ(last.ends[0].pods_lost, kDays);
  ExpectNothingButBases(bed_, 1);
}

// Whether a scheduler may put this Pod onto a node where these run already.
bool MayRunBeside(const Json& pod, const std::vector<Json>& running) {
  const Json* const terms = FindJson(pod, {"spec", "affinity", "podAntiAffinity",
                                           "requiredDuringSchedulingIgnoredDuringExecution"});
  for (const Json& term : terms == nullptr ? Json::array() : *terms) {
    EXPECT_EQ(GetString(term, {"topologyKey"}), "kubernetes.io/hostname");
    for (const Json& other : running) {
      bool matches = true;
      for (const auto& [key, value] : GetStringMap(term, {"labelSelector", "matchLabels"})) {
        matches = matches && k8s::Label(other, key) == value;
      }
      if (matches) {
        return false;
      }
    }
  }
  return true;
}

TEST_F(UploadReconcilerTest, ANodeRunsNoMoreWorkersThanTheSettingsAllow) {
  constexpr int kUploads = 7;
  constexpr std::size_t kSlots = 3;
  bed_.env.settings.transfers_max = kUploads;
  bed_.env.settings.transfers_per_node_max = kSlots;
  bed_.worker = MoverBed::Worker::kPending;
  for (int i = 0; i < kUploads; ++i) {
    AddOther(absl::StrCat("data-", i));
  }
  Controller(bed_).LookTimes(6);
  const std::vector<Json> pods = bed_.api.All(PodType());
  ASSERT_THAT(pods, SizeIs(kUploads));
  std::vector<Json> running;  // on the only node
  for (const Json& pod : pods) {
    if (MayRunBeside(pod, running)) {
      running.push_back(pod);
    }
  }
  EXPECT_THAT(running, SizeIs(kSlots)) << "no more than allowed, and no fewer";
}

TEST_F(UploadReconcilerTest, TwoOfOneVolumeRunOneAfterTheOther) {
  bed_.worker = MoverBed::Worker::kRuns;
  bed_.AddUpload("first");
  bed_.clock.Advance(absl::Seconds(1));
  bed_.AddUpload("second");
  Controller controller(bed_, 6);
  EXPECT_EQ(bed_.PhaseOf("first"), "InProgress");
  EXPECT_EQ(bed_.PhaseOf("second"), "Accepted");
  EXPECT_THAT(bed_.MessageOf("second"), HasSubstr("velero/first"));
  EXPECT_FALSE(bed_.Task("second").has_value());
  bed_.Finish(bed_.TaskNameOfUpload("first"));
  controller.LookTimes(6);
  EXPECT_EQ(bed_.PhaseOf("first"), "Completed");
  EXPECT_EQ(bed_.PhaseOf("second"), "InProgress");
  // A new controller knows whose turn it is.
  bed_.AddUpload("third");
  Controller next(bed_);
  next.LookTimes(3);
  EXPECT_THAT(bed_.MessageOf("third"), HasSubstr("velero/second"));
  bed_.Finish(bed_.TaskNameOfUpload("second"));
  next.LookTimes(4);
  bed_.Finish(bed_.TaskNameOfUpload("third"));
  next.LookTimes(2);
  EXPECT_EQ(bed_.PhaseOf("third"), "Completed");
  ExpectNothingButBases(bed_, 1);
}

TEST_F(UploadReconcilerTest, ACancelledOneLeavesTheBaseOfTheOneBefore) {
  bed_.AddUpload("first");
  Controller controller(bed_, 4);
  ASSERT_EQ(bed_.PhaseOf("first"), "Completed");
  bed_.worker = MoverBed::Worker::kRuns;
  bed_.AddUpload("second");
  controller.LookTimes(4);
  bed_.Cancel("second");
  controller.LookTimes(3);
  EXPECT_EQ(bed_.PhaseOf("second"), "Canceled");
  ExpectNothingButBases(bed_, 1);
  EXPECT_TRUE(bed_.api.Find(VolumeSnapshotContentKey(bed_.TaskNameOfUpload("first"))).has_value());
}

TEST_F(UploadReconcilerTest, ADataUploadThatIsDeletedIsCancelled) {
  Controller& controller = StartRunning();
  ASSERT_THAT(bed_.api.Delete(bed_.ctx, {DataUploadType(), "velero", "nightly"}, {}), IsOk());
  EXPECT_NE(bed_.Upload(), Json()) << "our finalizer";
  controller.LookTimes(3);
  EXPECT_EQ(bed_.Upload(), Json());
  ExpectNothingButBases(bed_, 0);
}

TEST_F(UploadReconcilerTest, AWorkerThatWasDoneBeforeItKnewHasMovedTheVolume) {
  Controller& controller = StartRunning();
  bed_.Finish(bed_.TaskNameOfUpload());
  bed_.Cancel("nightly");
  controller.LookTimes(3);
  EXPECT_EQ(bed_.PhaseOf(), "Completed");
  ExpectNothingButBases(bed_, 1);
}

TEST_F(UploadReconcilerTest, AWorkerThatDoesNotEndHoldsNothingUpForLong) {
  Controller& controller = StartRunning();
  bed_.api.Mutate({PodType(), "mover", bed_.TaskNameOfUpload()},
                  [](Json& pod) { pod["metadata"]["finalizers"] = {"test/kubelet"}; });
  const absl::Time begun = bed_.clock.Now();
  bed_.Cancel("nightly");
  controller.Look();
  EXPECT_EQ(bed_.PhaseOf(), "Canceling");
  while (bed_.PhaseOf() == "Canceling" && bed_.clock.Now() < begun + absl::Seconds(30)) {
    controller.LookTimes(1);
  }
  EXPECT_EQ(bed_.PhaseOf(), "Canceled");
  EXPECT_LE(bed_.clock.Now(), begun + absl::Seconds(10));
  EXPECT_THAT(bed_.cluster.driver().snapshots(), IsEmpty());
}

TEST_F(UploadReconcilerTest, WhatAWorkerStoresThatWasGivenUpIsAskedToGo) {
  Controller& controller = StartRunning();
  const Json upload = bed_.Upload();
  bed_.Cancel("nightly");
  controller.LookTimes(4);
  EXPECT_EQ(bed_.PhaseOf(), "Canceled");
  const std::vector<Json> deletions = bed_.api.All(DataDeletionType());
  ASSERT_THAT(deletions, SizeIs(1));
  const objects::DataDeletionSpec deletion =
      support::As<objects::DataDeletion>(deletions[0]).spec();
  EXPECT_EQ(deletion.upload, k8s::Uid(upload));
  EXPECT_FALSE(deletion.worker_ended) << "its end was not observed";
  EXPECT_EQ(deletion.location, "default");
  EXPECT_EQ(k8s::Namespace(deletions[0]), "velero");
  const auto reference = velero::ParseDataReference(deletion.snapshot_id);
  ASSERT_THAT(reference, IsOk());
  EXPECT_EQ(reference->cluster, bed_.env.cluster);
  EXPECT_EQ(reference->claim_uid, MoverBed::ClaimUid("shop", "data"));
  EXPECT_EQ(reference->key, k8s::Annotation(upload, "mover.csi-delta.io/key"));
}

TEST_F(UploadReconcilerTest, AWorkerThatSaidHowItEndedLeftNothing) {
  Controller& controller = StartRunning();
  bed_.SetTaskStatus(bed_.TaskNameOfUpload(), {{"phase", "Canceled"}});
  bed_.Cancel("nightly");
  controller.LookTimes(4);
  EXPECT_EQ(bed_.PhaseOf(), "Canceled");
  EXPECT_THAT(bed_.api.All(DataDeletionType()), IsEmpty());
}

TEST_F(UploadReconcilerTest, WhatALostWorkerStoredIsAskedToGoWhateverTheNextOneSays) {
  Controller& controller = StartRunning();
  ReplaceWorker(controller);
  controller.LookTimes(2);
  bed_.SetTaskStatus(bed_.TaskNameOfUpload(), {{"phase", "Canceled"}});
  bed_.EndContainer(bed_.TaskNameOfUpload(), 0);
  bed_.Cancel("nightly");
  controller.LookTimes(4);
  EXPECT_EQ(bed_.PhaseOf(), "Canceled");
  const std::vector<Json> deletions = bed_.api.All(DataDeletionType());
  ASSERT_THAT(deletions, SizeIs(1));
  EXPECT_TRUE(support::As<objects::DataDeletion>(deletions[0]).spec().worker_ended);
}

TEST_F(UploadReconcilerTest, WhatWasStoredForADataUploadThatIsDeletedIsAskedToGo) {
  Controller& controller = StartRunning();
  bed_.Finish(bed_.TaskNameOfUpload());
  ASSERT_THAT(bed_.api.Delete(bed_.ctx, {DataUploadType(), "velero", "nightly"}, {}), IsOk());
  controller.LookTimes(4);
  EXPECT_THAT(bed_.api.All(DataUploadType()), IsEmpty());
  EXPECT_THAT(bed_.api.All(DataDeletionType()), SizeIs(1));
  ExpectNothingButBases(bed_, 0);
}

// `kubectl delete namespace velero` while a worker runs: nothing can be created there any more.
TEST_F(UploadReconcilerTest, ATerminatingNamespaceGetsItsDataUploadBack) {
  Controller& controller = StartRunning();
  bed_.api.TerminateNamespace("velero");
  ASSERT_THAT(bed_.api.Delete(bed_.ctx, {DataUploadType(), "velero", "nightly"}, {}), IsOk());
  bed_.api.ClearCalls();
  controller.LookTimes(8);
  EXPECT_THAT(bed_.api.All(DataUploadType()), IsEmpty());
  EXPECT_THAT(bed_.api.All(DataDeletionType()), IsEmpty());
  EXPECT_LE(bed_.api.CallCount("create", "datadeletions"), 1);
  ExpectNothingButBases(bed_, 0);
}

// A namespace that was taken out of veleroNamespaces: its objects cannot be read.
TEST_F(UploadReconcilerTest, ATaskOfANamespaceThatIsNotServedCostsNothing) {
  StartRunning();
  ASSERT_TRUE(bed_.Task().has_value());
  bed_.env.velero_namespaces = {"velero-two"};
  bed_.api.Forbid("*", "datauploads", "velero");
  const EnqueueTable nothing_is_known;
  TaskReconciler tasks(bed_.env, nothing_is_known, [] { return true; });
  bed_.api.ClearCalls();
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(tasks.Reconcile(bed_.ctx, *bed_.Task()),
                support::IsOkAndHolds(bed_.clock.Now() + kLeftoversEvery));
  }
  EXPECT_THAT(bed_.api.calls(), IsEmpty());
  EXPECT_TRUE(bed_.Task().has_value());
  bed_.env.velero_namespaces.insert("velero");
  EXPECT_THAT(tasks.Reconcile(bed_.ctx, *bed_.Task()), Not(IsOk())) << "it is asked for again";
}

// Its own step removes what it made: all of it would be asked for twice.
TEST_F(UploadReconcilerTest, WhatIsLeftWaitsUntilTheTransfersLookIsOver) {
  StartRunning();
  const std::string name = bed_.TaskNameOfUpload();
  const Json task = *bed_.Task();
  bed_.api.Remove({DataUploadType(), "velero", "nightly"});
  const EnqueueTable nothing_is_known;
  TaskReconciler tasks(bed_.env, nothing_is_known, [] { return true; });
  bed_.env.running->BeginReconcile(name);
  bed_.api.ClearCalls();
  EXPECT_THAT(tasks.Reconcile(bed_.ctx, task),
              support::IsOkAndHolds(bed_.clock.Now() + kUntilSynced));
  EXPECT_THAT(bed_.api.calls(), IsEmpty());
  bed_.env.running->EndReconcile(name);
  ASSERT_THAT(tasks.Reconcile(bed_.ctx, task), IsOk());
  started_->LookTimes(2);
  ExpectNothingButBases(bed_, 0);
}

TEST_F(UploadReconcilerTest, ThatAKeyIsNotConfirmedIsSaidOnceAnHour) {
  Controller controller(bed_);
  for (const char* name : {"one", "two", "three"}) {
    bed_.AddUpload(name);
    controller.LookTimes(12);
    if (std::string(name) == "two") {
      bed_.clock.Advance(kKeyWarnedEvery);
    }
  }
  EXPECT_THAT(bed_.EventReasons(),
              UnorderedElementsAre("Normal Completed", "Normal Completed", "Normal Completed",
                                   "Warning KeyNotConfirmed", "Warning KeyNotConfirmed"));
}

constexpr char kQuotaPhrase[] = "is forbidden: exceeded quota: nights, requested: 1, used: 0";

// As a quota does: nothing of `plural` can be made.
void RefuseToMake(MoverBed& bed, const std::string& plural) {
  bed.api.SetAdmission(
      [plural](const support::FakeApiClient::AdmissionRequest& request) -> absl::StatusOr<Json> {
        if (request.operation == "CREATE" && request.type.plural == plural) {
          return absl::PermissionDeniedError(absl::StrCat(plural, " ", kQuotaPhrase));
        }
        return request.object;
      });
}

TEST_F(UploadReconcilerTest, WhatTheApiServerRefusesIsSaidAtOnceAndFailsInTime) {
  for (const char* plural : {"volumetasks", "persistentvolumeclaims", "secrets", "pods"}) {
    SCOPED_TRACE(plural);
    MoverBed bed;
    bed.AddUpload("nightly");
    RefuseToMake(bed, plural);
    Controller controller(bed, 5);
    EXPECT_EQ(bed.PhaseOf(), "Accepted");
    EXPECT_THAT(bed.MessageOf(), HasSubstr(absl::StrCat(plural, " ", kQuotaPhrase)));
    bed.clock.Advance(bed.env.settings.prepare_timeout - absl::Minutes(1));
    controller.LookTimes(2);
    EXPECT_EQ(bed.PhaseOf(), "Accepted");
    bed.clock.Advance(absl::Minutes(1));
    controller.LookTimes(2);
    EXPECT_EQ(bed.PhaseOf(), "Failed");
    EXPECT_THAT(bed.MessageOf(),
                AllOf(HasSubstr("shop/data"), HasSubstr("was not prepared within 30m"),
                      HasSubstr(kQuotaPhrase)));
    ExpectNothingButBases(bed, 0);
  }
}

TEST_F(UploadReconcilerTest, AVolumeThatCannotBeMountedIsShownAndPartOfTheError) {
  Controller& controller = StartPending();
  bed_.FailToMount(bed_.TaskNameOfUpload(), "has not finished copying data");
  bed_.clock.Advance(absl::Seconds(40));
  controller.LookTimes(2);
  EXPECT_EQ(bed_.PhaseOf(), "Accepted");
  EXPECT_EQ(bed_.MessageOf(), "FailedMapVolume: has not finished copying data");
  ExpectFailsInTime(controller, "was not prepared within 30m: FailedMapVolume: has not");
}

// As a policy or a quota does: no Pod of one of these uploads can be made. Counts the tries.
void RefusePods(MoverBed& bed, const std::set<std::string>& uploads, int* tries = nullptr) {
  std::set<std::string> names;
  for (const std::string& upload : uploads) {
    names.insert(bed.TaskNameOfUpload(upload));
  }
  bed.api.SetAdmission(
      [names,
       tries](const support::FakeApiClient::AdmissionRequest& request) -> absl::StatusOr<Json> {
        if (request.operation == "CREATE" && request.type.plural == "pods" &&
            names.contains(k8s::Name(request.object))) {
          if (tries != nullptr) {
            ++*tries;
          }
          return absl::PermissionDeniedError("violates PodSecurity \"restricted:latest\"");
        }
        return request.object;
      });
}

bool IsAdmitted(const MoverBed& bed, const std::string& upload) {
  return !k8s::Annotation(bed.Upload(upload), objects::kAdmittedAtAnnotation).empty();
}

TEST_F(UploadReconcilerTest, WhatIsRefusedGivesItsAdmissionToOthersUntilItsPodCanBeMade) {
  bed_.env.settings.transfers_max = 1;
  bed_.worker = MoverBed::Worker::kRuns;
  bed_.AddUpload("refused");
  RefusePods(bed_, {"refused"});
  Controller controller(bed_, 4);
  EXPECT_FALSE(IsAdmitted(bed_, "refused"));
  EXPECT_THAT(bed_.MessageOf("refused"), HasSubstr("violates PodSecurity"));
  AddOther();
  controller.LookTimes(20);
  EXPECT_EQ(bed_.PhaseOf("other"), "InProgress") << bed_.MessageOf("other");
  EXPECT_THAT(bed_.MessageOf("refused"),
              AllOf(StartsWith("waits: at most 1 transfer at once; it was refused before: "),
                    HasSubstr("violates PodSecurity")));
  bed_.Finish(bed_.TaskNameOfUpload("other"));
  controller.LookTimes(4);
  EXPECT_EQ(bed_.PhaseOf("other"), "Completed");
  EXPECT_THAT(bed_.MessageOf("refused"),
              AllOf(HasSubstr("violates PodSecurity"), Not(HasSubstr("waits"))));
  RefusePods(bed_, {});
  bed_.clock.Advance(absl::Minutes(1));
  Controller(bed_).LookTimes(4);  // Another one, which knows no more than the object.
  EXPECT_EQ(bed_.PhaseOf("refused"), "InProgress") << bed_.MessageOf("refused");
  EXPECT_EQ(bed_.MessageOf("refused"), "");
  for (const char* gone : {objects::kRefusedSinceAnnotation, objects::kRefusalAnnotation,
                           objects::kAwaitingAtAnnotation}) {
    EXPECT_EQ(k8s::Annotation(bed_.Upload("refused"), gone), "") << gone;
  }
}

TEST_F(UploadReconcilerTest, WhatIsRefusedTriesAgainLaterAndLaterAndKeepsItsDeadline) {
  int tries = 0;
  bed_.AddUpload("refused");
  RefusePods(bed_, {"refused"}, &tries);
  Controller controller(bed_);
  const absl::Time begun = bed_.clock.Now();
  controller.LookTimes(20);
  EXPECT_THAT(tries, AllOf(testing::Ge(4), testing::Le(6))) << "of ten seconds";
  while (bed_.clock.Now() < begun + absl::Minutes(10)) {
    controller.LookTimes(1);
  }
  EXPECT_EQ(bed_.api.CallCount("patch", "volumetasks"), 1) << "what is to be done is written once";
  tries = 0;
  while (bed_.clock.Now() < begun + absl::Minutes(20)) {
    Controller(bed_).LookTimes(1);
  }
  EXPECT_THAT(tries, AllOf(testing::Ge(18), testing::Le(21))) << "of ten minutes";
  while (bed_.clock.Now() < begun + absl::Minutes(30)) {
    ASSERT_EQ(bed_.PhaseOf("refused"), "Accepted");
    controller.LookTimes(1);
  }
  bed_.clock.Advance(absl::Seconds(30));
  controller.LookTimes(4);
  EXPECT_EQ(bed_.PhaseOf("refused"), "Failed");
  EXPECT_THAT(bed_.MessageOf("refused"),
              AllOf(HasSubstr("not prepared within 30m"), HasSubstr("violates PodSecurity")));
  ExpectNothingButBases(bed_, 0);
}

TEST_F(UploadReconcilerTest, WhereTheApiServerRefusesAllAdmissionsAreKept) {
  constexpr int kUploads = kRefusedTransfersMax + 10;
  bed_.env.settings.transfers_max = 4;
  std::set<std::string> uploads;
  for (int i = 0; i < kUploads; ++i) {
    AddOther(*uploads.insert(absl::StrCat("u", i)).first);
  }
  RefusePods(bed_, uploads);
  Controller controller(bed_, 200);
  int refused = 0;
  int admitted = 0;
  for (const std::string& name : uploads) {
    refused += k8s::Annotation(bed_.Upload(name), objects::kRefusedSinceAnnotation).empty() ? 0 : 1;
    admitted += IsAdmitted(bed_, name) ? 1 : 0;
  }
  EXPECT_THAT(refused,
              AllOf(testing::Ge(kRefusedTransfersMax), testing::Lt(kRefusedTransfersMax + 4)));
  EXPECT_EQ(admitted, 4);
  RefusePods(bed_, {});
  for (int i = 0; i < 40; ++i) {
    bed_.clock.Advance(absl::Seconds(30));
    controller.LookTimes(1);
  }
  for (const std::string& name : uploads) {
    EXPECT_EQ(bed_.PhaseOf(name), "Completed") << name << ": " << bed_.MessageOf(name);
  }
}

// The quota is a limit of how many run, like others: what waits for it does not run out of time
// while they do.
TEST_F(UploadReconcilerTest, TheTimeInWhichOtherWorkersHaveTheQuotaDoesNotCount) {
  bed_.worker = MoverBed::Worker::kRuns;
  bed_.AddUpload("runs");
  Controller controller(bed_, 4);
  bed_.AddClaim("shop", "other");
  bed_.AddUpload("waits", "shop", "other");
  RefuseToMake(bed_, "pods");
  for (int i = 0; i < 12; ++i) {
    bed_.clock.Advance(absl::Minutes(10));
    Beat("runs");
    controller.LookTimes(2);
  }
  EXPECT_EQ(bed_.PhaseOf("waits"), "Accepted") << bed_.MessageOf("waits");
  EXPECT_THAT(bed_.MessageOf("waits"), HasSubstr(kQuotaPhrase));
  bed_.Finish(bed_.TaskNameOfUpload("runs"));
  bed_.clock.Advance(bed_.env.settings.prepare_timeout - absl::Minutes(1));
  controller.LookTimes(2);
  EXPECT_EQ(bed_.PhaseOf("waits"), "Accepted") << bed_.MessageOf("waits");
  bed_.clock.Advance(absl::Minutes(2));
  controller.LookTimes(2);
  EXPECT_EQ(bed_.PhaseOf("waits"), "Failed") << "others than workers have it";
}

TEST_F(UploadReconcilerTest, AnErrorOfTheMomentIsShownAndNoReasonToFail) {
  bed_.AddUpload("nightly");
  Controller controller(bed_);
  bed_.api.FailNext("create", "volumetasks", absl::UnavailableError("etcd is away"), 99);
  controller.LookTimes(1);
  bed_.clock.Advance(bed_.env.settings.prepare_timeout / 2);
  controller.LookTimes(1);
  EXPECT_EQ(bed_.PhaseOf(), "Accepted");
  EXPECT_THAT(bed_.MessageOf(), HasSubstr("etcd is away"));
  bed_.worker = MoverBed::Worker::kRuns;
  bed_.api.ClearFaults();
  controller.LookTimes(16);
  EXPECT_EQ(bed_.PhaseOf(), "InProgress");
  bed_.api.FailNext("get", "volumetasks", absl::PermissionDeniedError("forbidden"), 9);
  bed_.clock.Advance(bed_.env.settings.prepare_timeout * 2);
  controller.LookTimes(2);
  EXPECT_EQ(bed_.PhaseOf(), "InProgress") << "a worker that runs goes on";
}

TEST_F(UploadReconcilerTest, ALocationThatIsNotThereIsNamed) {
  bed_.AddUpload("nightly");
  bed_.api.Remove({objects::BackupStorageLocation::Type(), "velero", "default"});
  Controller(bed_).LookTimes(4);
  EXPECT_EQ(bed_.PhaseOf(), "Failed");
  EXPECT_THAT(bed_.MessageOf(), AllOf(HasSubstr("shop/data"), HasSubstr("default")));
  ExpectNothingButBases(bed_, 0);
}

TEST_F(UploadReconcilerTest, AListThatWasWrongIsACompletedUploadWithAWarning) {
  for (const objects::OutcomeCause cause :
       {objects::OutcomeCause::kAuditMismatch, objects::OutcomeCause::kListRefused}) {
    MoverBed bed;
    bed.cause = cause;
    bed.AddUpload("nightly");
    Controller(bed).LookTimes(4);
    EXPECT_EQ(bed.PhaseOf(), "Completed");
    EXPECT_THAT(bed.EventReasons(), Contains(absl::StrCat("Warning ", ToString(cause))));
  }
}

TEST_F(UploadReconcilerTest, AResultThatNamesNoSnapshotIsAFailure) {
  for (const char* id : {"", "../../etc", "abc"}) {
    MoverBed bed;
    bed.snapshot_id = id;
    bed.AddUpload("nightly");
    Controller(bed).LookTimes(4);
    EXPECT_EQ(bed.PhaseOf(), "Failed");
    EXPECT_THAT(bed.MessageOf(), HasSubstr("names no snapshot"));
    ExpectNothingButBases(bed, 0);
  }
}

TEST_F(UploadReconcilerTest, WhatCannotBeUnderstoodHasFailed) {
  bed_.AddUpload("nightly");
  bed_.api.SetField({DataUploadType(), "velero", "nightly"}, {"spec", "csiSnapshot"}, nullptr);
  Controller controller(bed_);
  controller.Look();
  EXPECT_EQ(bed_.PhaseOf(), "Failed");
  EXPECT_THAT(bed_.MessageOf(), HasSubstr("spec.csiSnapshot.volumeSnapshot"));
}

TEST_F(UploadReconcilerTest, AVolumeSnapshotWithoutItsTaskGoesWithItsUpload) {
  bed_.AddUpload("base");
  Controller controller(bed_, 4);
  bed_.worker = MoverBed::Worker::kRuns;
  bed_.AddUpload("nightly");
  controller.LookTimes(4);
  const std::string task_name = bed_.TaskNameOfUpload();
  // With the task everything that it owns.
  bed_.api.Remove({objects::VolumeTask::Type(), "mover", task_name});
  bed_.api.Remove({PodType(), "mover", task_name});
  bed_.api.Remove({SecretType(), "mover", task_name});
  bed_.api.Remove(ClaimKey("mover", task_name));
  bed_.api.Remove(VolumeSnapshotKey("mover", task_name));
  Json foreign = *bed_.api.Find(VolumeSnapshotContentKey(task_name));
  foreign["metadata"]["name"] = "du-foreign";
  foreign["metadata"]["labels"][objects::kMoverTaskLabel] = "du-foreign";
  foreign["spec"]["volumeSnapshotRef"]["namespace"] = "another-mover";
  bed_.api.Seed(VolumeSnapshotContentType(), foreign);
  Controller(bed_).Look();
  EXPECT_TRUE(bed_.api.Find(VolumeSnapshotContentKey(task_name)).has_value()) << "on its way";
  bed_.api.Remove({objects::VolumeTask::Type(), "mover", task_name});
  bed_.api.Remove({DataUploadType(), "velero", "nightly"});
  Controller(bed_).LookTimes(2);
  EXPECT_FALSE(bed_.api.Find(VolumeSnapshotContentKey(task_name)).has_value());
  EXPECT_TRUE(bed_.api.Find(VolumeSnapshotContentKey("du-foreign")).has_value());
  EXPECT_TRUE(bed_.api.Find(VolumeSnapshotContentKey(bed_.TaskNameOfUpload("base"))).has_value());
}

// The controller dies at one of its calls; the next one goes on. A read whose answer is lost is a
// read that was refused, so that only writes are cut off behind the API server.
class KilledControllerTest : public testing::TestWithParam<support::Fault> {
 protected:
  using Prepare = void (*)(MoverBed& bed);

  // Which calls of a controller there are to die at, counted from 1.
  static std::vector<int> CallsOf(Prepare prepare) {
    MoverBed bed;
    prepare(bed);
    bed.api.ClearCalls();
    Controller(bed).LookTimes(kLooks);
    const std::vector<support::ApiCall> made = bed.api.calls();
    std::vector<int> calls;
    for (std::size_t i = 0; i < made.size(); ++i) {
      const std::string& verb = made[i].verb;
      if (GetParam() == support::Fault::kRefused || (verb != "get" && verb != "list")) {
        calls.push_back(static_cast<int>(i) + 1);
      }
    }
    return calls;
  }

  static void KillAt(MoverBed& bed, int call) {
    Controller killed(bed);
    int left = call;
    bed.api.SetInterceptor([&](const support::ApiCall&, const Json*) -> absl::Status {
      return --left < 0 ? absl::PermissionDeniedError("dead") : absl::OkStatus();
    });
    bed.api.FailCall(call, absl::UnavailableError("lost"), GetParam());
    killed.LookTimes(kLooks);
    EXPECT_TRUE(bed.api.sweep_hit());
    bed.api.ClearFaults();
    bed.api.SetInterceptor(nullptr);
    bed.clock.Advance(absl::Seconds(5));
  }

  // For each call, of which there are more than that: another one ends the upload so.
  static void KillAtEachCall(Prepare prepare, std::size_t calls_least, const std::string& phase,
                             const std::function<void(const MoverBed& bed)>& expect) {
    const std::vector<int> calls = CallsOf(prepare);
    EXPECT_THAT(calls, SizeIs(testing::Gt(calls_least)));
    for (const int call : calls) {
      SCOPED_TRACE(call);
      MoverBed bed;
      prepare(bed);
      KillAt(bed, call);
      Controller(bed).LookTimes(6);
      ASSERT_EQ(bed.PhaseOf(), phase) << bed.MessageOf();
      EXPECT_EQ(bed.pods_made, 1);
      expect(bed);
    }
  }

  static constexpr int kLooks = 6;
};

TEST_P(KilledControllerTest, AnotherGoesOnToTheEnd) {
  KillAtEachCall([](MoverBed& bed) { bed.AddUpload("nightly"); }, 20, "Completed",
                 [](const MoverBed& bed) { ExpectNothingButBases(bed, 1); });
}

TEST_P(KilledControllerTest, AnotherGoesOnInTheRepositoryOfARestoredPvc) {
  const std::string own = absl::StrCat("/shop/", MoverBed::ClaimUid("shop", "data"));
  const std::string former = absl::StrCat("/shop/", kFormerUid);
  for (const auto& [prepare, where] : {std::pair<Prepare, std::string>{[](MoverBed& bed) {
                                                                         RecordFormer(bed);
                                                                         bed.AddUpload("nightly");
                                                                       },
                                                                       former},
                                       {[](MoverBed& bed) {
                                          RecordFormer(bed, kForeign);
                                          Adopt(bed);
                                          bed.AddUpload("nightly");
                                        },
                                        kForeign + former},
                                       {[](MoverBed& bed) {
                                          RecordFormer(bed, kForeign);
                                          bed.AddUpload("nightly");
                                        },
                                        own}}) {
    SCOPED_TRACE(where);
    KillAtEachCall(prepare, 20, "Completed", [&, where = where](const MoverBed& bed) {
      EXPECT_THAT(GetString(bed.Upload(), {"status", "snapshotID"}), HasSubstr(where));
      EXPECT_EQ(FindRestored(bed.ctx, bed.env, {"velero", "default", "shop", "data"})->has_value(),
                where != own);
    });
  }
}

TEST_P(KilledControllerTest, AnotherCancelsToTheEnd) {
  const Prepare prepare = [](MoverBed& bed) {
    bed.worker = MoverBed::Worker::kRuns;
    bed.AddUpload("nightly");
    Controller(bed).LookTimes(6);
    bed.Cancel("nightly");
  };
  KillAtEachCall(prepare, 6, "Canceled", [](const MoverBed& bed) {
    ExpectNothingButBases(bed, 0);
    EXPECT_THAT(bed.api.All(DataDeletionType()), SizeIs(1));
  });
}

INSTANTIATE_TEST_SUITE_P(Faults, KilledControllerTest,
                         testing::Values(support::Fault::kRefused, support::Fault::kAnswerLost),
                         [](const auto& fault) {
                           return fault.param == support::Fault::kRefused ? "Refused"
                                                                          : "AnswerLost";
                         });

}  // namespace
}  // namespace csidelta::datamover::upload_reconciler_test
