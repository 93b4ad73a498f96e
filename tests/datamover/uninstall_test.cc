#include "datamover/controller/uninstall.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "csi/static_content.h"
#include "datamover/controller/upload_reconciler.h"
#include "datamover/keyring.h"
#include "datamover/records/restored_pvcs.h"
#include "datamover/worker/task_watch.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "objects/protected_volume.h"
#include "tests/datamover/mover_bed.h"
#include "tests/support/fake_object_store.h"
#include "tests/support/kind_names.h"
#include "tests/support/lent_store.h"
#include "tests/support/report_all.h"
#include "tests/support/status_matchers.h"

namespace csidelta::datamover::uninstall_test {
namespace {

using support::IsOk;
using support::StatusIs;
using support::StoreOperation;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr char kOther[] = "c2000000-0000-4000-8000-000000000002/shop/u/config";
const KeyringOwner kOwner = {.velero_namespace = "velero", .location = "default"};

class UninstallTest : public testing::Test {
 protected:
  UninstallTest() {
    EXPECT_TRUE(request_.keep_data) << "by default";
    request_.keep_data = false;
    request_.velero_namespaces = {"velero"};
    request_.open_store = [this](const RepositoryAccess& access)
        -> absl::StatusOr<std::unique_ptr<storage::OpenedStore>> {
      opened_with_ = access.secret_data.at("cloud").Reveal();
      return std::make_unique<support::LentStore>(bucket_);
    };
    for (const char* part :
         {"config", "keys/k", "data/aa/p", "index/i", "snapshots/s", "locks/l"}) {
      bucket_.SetObject(OurObject(part), "x");
    }
    bucket_.SetObject(kOther, "x");
  }

  std::string OurObject(const std::string& part) const {
    return absl::StrCat(bed_.env.cluster, "/shop/c1/", part);
  }

  // A controller that lives this long.
  void Look(int times) { Look(bed_, times); }
  static void Look(MoverBed& bed, int times) {
    EnqueueTable enqueue_table;
    TransferScheduler scheduler(
        LimitsOf(bed.env.settings), bed.clock, [] { return true; },
        [&](const std::string& task) { enqueue_table.Enqueue(task); });
    UploadReconciler reconciler(bed.env, scheduler, [](const TransferEnd&) {});
    k8s::ReconcileLoop loop(
        DataUploadType(), reconciler, [] { return true; }, bed.clock);
    SubjectEventHandler handler(TransferSubjects("DataUpload", QueuedUpload, scheduler),
                                enqueue_table, loop);
    k8s::Informer informer({.type = DataUploadType()}, {&handler, &loop});
    for (int i = 0; i < times; ++i) {
      support::ReportAll(informer, bed.api.All(DataUploadType()));
      loop.WorkOnce(bed.ctx);
      bed.clock.Advance(absl::Milliseconds(500));
    }
  }
  void BackUp() {
    bed_.AddUpload("nightly");
    Look(5);
    ASSERT_EQ(bed_.PhaseOf(), "Completed") << bed_.MessageOf();
    ASSERT_THAT(bed_.cluster.driver().snapshots(), SizeIs(1));
  }
  void SetLeader(absl::Duration ago) {
    bed_.api.Seed(
        LeaseType(),
        {{"metadata", {{"name", kMoverLease}, {"namespace", MoverBed::kMover}}},
         {"spec",
          {{"holderIdentity", "one"}, {"renewTime", FormatRfc3339(bed_.clock.Now() - ago)}}}});
  }
  void Confirm() {
    const auto ring =
        OpenKeyring(bed_.ctx, bed_.api, MoverBed::kMover, kOwner, true, bed_.secure_random);
    ASSERT_THAT(ring, IsOk());
    ASSERT_THAT(
        ConfirmKeys(bed_.ctx, bed_.api, MoverBed::kMover, kOwner, {ring->newest().fingerprint}),
        IsOk());
  }

  UninstallPlan Plan() {
    absl::StatusOr<UninstallPlan> plan = PlanUninstall(bed_.ctx, bed_.env, request_);
    EXPECT_THAT(plan, IsOk());
    return plan.ok() ? *std::move(plan) : UninstallPlan();
  }
  // What failed.
  std::vector<std::string> Uninstall() {
    std::vector<std::string> failed;
    CarryOut(bed_.ctx, bed_.api, Plan(),
             [&](const UninstallItem& item, const absl::Status& status) {
               if (!status.ok()) {
                 failed.push_back(absl::StrCat(item.kind, " ", item.name, ": ", status.message()));
               }
             });
    return failed;
  }
  static std::vector<std::string> Names(const std::vector<UninstallItem>& items) {
    std::vector<std::string> names;
    for (const UninstallItem& item : items) {
      names.push_back(absl::StrCat(item.kind, " ", item.name, ": ", item.text));
    }
    return names;
  }
  bool HasKeys() const {
    return bed_.api.Find(KeyringSecretKey(MoverBed::kMover, kOwner)).has_value();
  }
  void ExpectNothingInCluster() const {
    EXPECT_THAT(bed_.cluster.driver().snapshots(), IsEmpty());
    EXPECT_THAT(bed_.api.All(VolumeSnapshotContentType()), IsEmpty());
    EXPECT_THAT(bed_.api.All(VolumeSnapshotType()), IsEmpty());
    EXPECT_THAT(bed_.api.All(objects::VolumeTask::Type()), IsEmpty());
    EXPECT_THAT(bed_.api.All(PodType()), IsEmpty());
    EXPECT_THAT(bed_.api.All(PersistentVolumeClaimType()), SizeIs(1)) << "the user's";
    EXPECT_THAT(bed_.api.All(DataDeletionType()), IsEmpty());
    EXPECT_THAT(bed_.api.All(objects::ProtectedVolume::Type()), IsEmpty());
    EXPECT_THAT(bed_.api.All(LeaseType()), IsEmpty());
  }

  MoverBed bed_;
  support::FakeObjectStore bucket_;
  std::string opened_with_;  // the credentials
  UninstallRequest request_;
};

TEST_F(UninstallTest, NothingManagedIsLeftAndAllOfOthers) {
  BackUp();
  SetLeader(absl::Minutes(5));
  bed_.api.Seed(DataDeletionType(), {{"metadata", {{"name", "d"}, {"namespace", "velero"}}}});
  bed_.api.Seed(objects::ProtectedVolume::Type(),
                {{"metadata", {{"name", "r"}, {"namespace", "velero"}}}});
  bed_.api.Seed(VolumeSnapshotContentType(),
                {{"metadata", {{"name", "kept"}, {"labels", {{objects::kKeptLabel, "later"}}}}}});
  EXPECT_THAT(Uninstall(), IsEmpty());
  ExpectNothingInCluster();
  EXPECT_FALSE(HasKeys());
  EXPECT_THAT(bucket_.objects(), ElementsAre(testing::Key(kOther)));
  EXPECT_THAT(Plan().steps, IsEmpty()) << "a second run has nothing to do";
}

TEST_F(UninstallTest, AVolumeGroupGoesWithItsLastMember) {
  BackUp();
  const k8s::ObjectKey record = GroupContentKey("v1", "record");
  bed_.api.Seed(VolumeGroupSnapshotClassType("v1"), {{"metadata", {{"name", "groups"}}}});
  const std::set<std::string> handles = bed_.cluster.driver().snapshots();
  bed_.cluster.driver().AddGroup("group-1", handles);
  Json group =
      csi::MakeStaticGroup({.version = "v1",
                            .name = "record",
                            .driver = "d.example.com",
                            .handle = "group-1",
                            .member_handles = {handles.begin(), handles.end()},
                            .snapshot_namespace = "velero",
                            .snapshot_name = "record",
                            .deletion_policy = "Retain",
                            .class_name = "groups",
                            .labels = {},
                            .annotations = {},
                            .finalizers = {objects::kGroupContentBoundProtectionFinalizer}})
          .json();
  SetJson(group, {"status", "volumeGroupSnapshotHandle"}, "group-1");
  bed_.api.Seed(VolumeGroupSnapshotContentType("v1"), group);
  for (const Json& content : bed_.api.All(VolumeSnapshotContentType())) {
    bed_.api.SetField(VolumeSnapshotContentKey(k8s::Name(content)),
                      {"metadata", "labels", objects::kMovedGroupLabel}, "record");
  }
  EXPECT_THAT(Uninstall(), IsEmpty());
  EXPECT_FALSE(bed_.api.Find(record).has_value());
  EXPECT_THAT(bed_.cluster.driver().groups(), IsEmpty());
  EXPECT_EQ(bed_.cluster.driver().CallCount("DeleteSnapshot"), 0);
  EXPECT_THAT(bed_.api.All(VolumeSnapshotContentType()), IsEmpty());
}

TEST_F(UninstallTest, APlanWritesNothing) {
  BackUp();
  bed_.api.ClearCalls();
  EXPECT_THAT(Plan().steps, SizeIs(3)) << "base, data, keys";
  for (const support::ApiCall& call : bed_.api.calls()) {
    EXPECT_TRUE(call.verb == "get" || call.verb == "list" || call.verb == "watch") << call;
  }
  EXPECT_THAT(bucket_.objects(), SizeIs(7));
}

TEST_F(UninstallTest, WhoIsAtItIsNamedAndNothingElseIs) {
  SetLeader(absl::ZeroDuration());
  bed_.AddUpload("nightly");
  EXPECT_THAT(Names(Plan().running), ElementsAre("DataUpload velero/nightly: "));
  EXPECT_THAT(Plan().steps, IsEmpty());
  bed_.worker = MoverBed::Worker::kRuns;
  Look(3);
  bed_.api.Remove({LeaseType(), MoverBed::kMover, kMoverLease});
  EXPECT_THAT(Names(Plan().running),
              ElementsAre(absl::StrCat("Pod mover/", bed_.TaskNameOfUpload(), ": Running")))
      << "a worker goes on without a controller";
  bed_.api.Remove({DataUploadType(), "velero", "nightly"});
  bed_.api.Remove({PodType(), MoverBed::kMover, bed_.TaskNameOfUpload()});
}

TEST_F(UninstallTest, ADeletionThatRunsIsWaitedForAndOneThatWaitsIsNot) {
  SetLeader(absl::ZeroDuration());
  for (const char* phase : {"InProgress", "Waiting"}) {
    bed_.api.Seed(DataDeletionType(), {{"metadata", {{"name", phase}, {"namespace", "velero"}}},
                                       {"status", {{"phase", phase}}}});
  }
  EXPECT_THAT(Names(Plan().running), ElementsAre("DataDeletion velero/InProgress: InProgress"));
}

TEST_F(UninstallTest, AnAbandonedTransferIsGivenUp) {
  bed_.worker = MoverBed::Worker::kRuns;
  bed_.AddUpload("nightly");
  Look(4);
  ASSERT_EQ(bed_.PhaseOf(), "InProgress");
  bed_.SetPodStatus(bed_.TaskNameOfUpload(), {{"phase", "Failed"}});
  EXPECT_THAT(Uninstall(), IsEmpty());
  EXPECT_EQ(bed_.PhaseOf(), "Canceled");
  EXPECT_THAT(bed_.MessageOf(), HasSubstr("uninstalled"));
  EXPECT_EQ(bed_.Upload()["metadata"].value("finalizers", Json::array()), Json::array());
  ExpectNothingInCluster();
}

TEST_F(UninstallTest, AnUploadThatWasNotAcceptedLosesItsSnapshot) {
  bed_.AddUpload("nightly");
  EXPECT_THAT(Uninstall(), IsEmpty());
  EXPECT_EQ(bed_.PhaseOf(), "Canceled");
  ExpectNothingInCluster();
}

TEST_F(UninstallTest, OurFinalizerDelaysNoDeletion) {
  BackUp();
  bed_.api.Mutate({DataUploadType(), "velero", "nightly"}, [](Json& upload) {
    upload["metadata"]["finalizers"] = {objects::kMoverFinalizer, "another.client/finalizer"};
  });
  EXPECT_THAT(Uninstall(), IsEmpty());
  EXPECT_EQ(bed_.Upload()["metadata"]["finalizers"], Json::array({"another.client/finalizer"}));
  EXPECT_EQ(bed_.PhaseOf(), "Completed");
}

TEST_F(UninstallTest, PvcsOfAClassThatRetainsGoWithTheirVolumes) {
  for (const bool has_volume : {true, false}) {
    SCOPED_TRACE(has_volume);
    bed_.api.SetField({StorageClassType(), "", "shop-class"}, {"reclaimPolicy"}, "Retain");
    bed_.cluster.reclaim_policy = "Retain";
    bed_.cluster.provisioner_runs = has_volume;
    const std::string name = has_volume ? "one" : "two";
    bed_.worker = MoverBed::Worker::kRuns;
    bed_.AddUpload(name);
    Look(4);
    const k8s::ObjectKey claim = ClaimKey(MoverBed::kMover, bed_.TaskNameOfUpload(name));
    ASSERT_TRUE(bed_.api.Find(claim).has_value());
    bed_.api.Mutate(claim, [](Json& asked) {
      asked["metadata"]["annotations"][objects::kStorageProvisionerAnnotation] = "d.example.com";
    });
    bed_.api.Remove({PodType(), MoverBed::kMover, bed_.TaskNameOfUpload(name)});
    const std::vector<std::string> failed = Uninstall();
    if (has_volume) {
      EXPECT_THAT(failed, IsEmpty());
    } else {
      EXPECT_THAT(failed, ElementsAre(HasSubstr("kubectl patch pv pvc-")));
    }
    EXPECT_FALSE(bed_.api.Find(claim).has_value());
    EXPECT_THAT(bed_.api.All(PersistentVolumeType()), IsEmpty());
  }
}

TEST_F(UninstallTest, OtherMoversObjectsStay) {
  bed_.AddUpload("theirs");
  bed_.api.Mutate({DataUploadType(), "velero", "theirs"}, [](Json& upload) {
    upload["spec"]["datamover"] = "velero";
    upload["metadata"]["finalizers"] = {objects::kMoverFinalizer};
  });
  const Json before = bed_.Upload("theirs");
  EXPECT_THAT(Uninstall(), IsEmpty());
  EXPECT_EQ(bed_.Upload("theirs"), before);
}

TEST_F(UninstallTest, WhatFilledPvcsAndWhatWasAdoptedIsForgotten) {
  const RestoredPlace place = {"velero", "default", "shop", "data"};
  ASSERT_THAT(RecordRestored(bed_.ctx, bed_.env, place, {.pvc_uid = "b"}), IsOk());
  const ForeignCluster foreign = {MoverBed::kMover, "velero", "default", "c"};
  ASSERT_THAT(RecordAdoption(bed_.ctx, bed_.api, foreign, "ann"), IsOk());
  const k8s::ObjectKey key = objects::Secret::Key(MoverBed::kMover, RestoredSecretName(place));
  request_.velero_namespaces = {"velero-two"};
  EXPECT_THAT(Uninstall(), IsEmpty());
  EXPECT_TRUE(bed_.api.Find(key).has_value());
  request_.velero_namespaces = {"velero"};
  EXPECT_THAT(Uninstall(), IsEmpty());
  EXPECT_FALSE(bed_.api.Find(key).has_value());
  EXPECT_FALSE(bed_.api.Find(AdoptionKey(foreign)).has_value());
}

TEST_F(UninstallTest, WhatIsInTheFolderOfAnAdoptedClusterStaysAndKeepsItsKeys) {
  BackUp();
  Confirm();
  const std::string folder = "s3:http://s3:9000/b/p/plugins/csi-delta/c2/shop/u";
  bed_.api.Mutate({DataUploadType(), "velero", "nightly"}, [&](Json& upload) {
    upload["metadata"]["annotations"][objects::kAddressAnnotation] = folder;
  });
  EXPECT_THAT(Names(Plan().stays), Contains(HasSubstr(folder)));
  EXPECT_THAT(Uninstall(), IsEmpty());
  EXPECT_TRUE(HasKeys());
}

TEST_F(UninstallTest, DataThatIsKeptKeepsItsKeys) {
  BackUp();
  request_.keep_data = true;
  EXPECT_THAT(Uninstall(), IsEmpty());
  ExpectNothingInCluster();
  EXPECT_TRUE(HasKeys());
  EXPECT_THAT(bucket_.objects(), SizeIs(7));
  EXPECT_THAT(Names(Plan().stays),
              AllOf(Contains(HasSubstr("mover-key export")),
                    Contains(AllOf(HasSubstr("data location velero/default"),
                                   HasSubstr(absl::StrCat("--delete-data ", bed_.env.cluster))))));
}

TEST_F(UninstallTest, WhatIsOfAVeleroThatIsNotNamedStays) {
  BackUp();
  bed_.AddUpload("accepted");
  bed_.worker = MoverBed::Worker::kRuns;
  Look(3);
  ASSERT_TRUE(bed_.Task("accepted").has_value());
  bed_.SetPodStatus(bed_.TaskNameOfUpload("accepted"), {{"phase", "Failed"}});
  request_.velero_namespaces = {"velero-two"};
  EXPECT_THAT(Uninstall(), IsEmpty());
  EXPECT_TRUE(bed_.Task("accepted").has_value());
  EXPECT_THAT(bed_.cluster.driver().snapshots(), SizeIs(2)) << "a base, and what is being moved";
  EXPECT_TRUE(HasKeys());
  EXPECT_THAT(bucket_.objects(), SizeIs(7));
  EXPECT_THAT(Names(Plan().stays), Contains(HasSubstr("namespace velero: ")));
}

TEST_F(UninstallTest, KeysOutliveDataThatDoesNotGo) {
  BackUp();
  bucket_.AddFault({.operation = StoreOperation::kDelete,
                    .key_prefix = OurObject("data/"),
                    .last_call = 1000,
                    .status = absl::PermissionDeniedError("retention")});
  EXPECT_THAT(Uninstall(), ElementsAre(AllOf(HasSubstr("data"), HasSubstr("retention")),
                                       AllOf(HasSubstr("Secret"), HasSubstr("still there"))));
  EXPECT_TRUE(HasKeys());
  bucket_.ClearFaults();
  EXPECT_THAT(Uninstall(), IsEmpty());
  EXPECT_FALSE(HasKeys());
}

TEST_F(UninstallTest, DataIsDeletedWithTheCredentialsForDeletion) {
  BackUp();
  bed_.env.settings.locations["default"].deletion_credential = {.name = "remover", .key = "keys"};
  EXPECT_THAT(Uninstall(), ElementsAre(HasSubstr("Secret velero/remover is not there")));
  EXPECT_TRUE(HasKeys());
  EXPECT_THAT(bucket_.objects(), SizeIs(7));
  const std::string text = "[default]\naws_access_key_id=remover\naws_secret_access_key=shh\n";
  bed_.api.Seed(SecretType(), {{"metadata", {{"name", "remover"}, {"namespace", "velero"}}},
                               {"data", {{"keys", absl::Base64Escape(text)}}}});
  EXPECT_THAT(Uninstall(), IsEmpty());
  EXPECT_EQ(opened_with_, text);
  EXPECT_FALSE(HasKeys());
  EXPECT_THAT(bucket_.objects(), SizeIs(1));
}

// The settings may be gone: the chart makes them.
TEST_F(UninstallTest, CredentialsThatMayNotDeleteLeadToTheSetting) {
  BackUp();
  bucket_.AddFault({.operation = StoreOperation::kDelete,
                    .last_call = 1000,
                    .status = absl::PermissionDeniedError("AccessDenied")});
  EXPECT_THAT(Uninstall(),
              Contains(AllOf(HasSubstr("AccessDenied"), HasSubstr("name no deletionCredential"))));
  EXPECT_TRUE(HasKeys());
}

TEST_F(UninstallTest, KeysStayWhereDataWasNotLookedFor) {
  BackUp();
  const k8s::ObjectKey location = {objects::BackupStorageLocation::Type(), "velero", "default"};
  bed_.api.SetField(location, {"spec", "accessMode"}, "ReadOnly");
  EXPECT_THAT(Uninstall(), IsEmpty());
  bed_.api.Remove(location);
  EXPECT_THAT(Names(Plan().stays), Contains(HasSubstr("by hand")));
  EXPECT_THAT(Uninstall(), IsEmpty());
  EXPECT_TRUE(HasKeys());
  EXPECT_THAT(bucket_.objects(), SizeIs(7));
}

TEST_F(UninstallTest, WhatIsWhereALocationPointedBeforeIsNamedAndKeepsItsKeys) {
  BackUp();
  Confirm();
  EXPECT_THAT(Names(Plan().stays), Not(Contains(HasSubstr("is elsewhere now"))));
  bed_.api.SetField({objects::BackupStorageLocation::Type(), "velero", "default"},
                    {"spec", "objectStorage", "prefix"}, "moved");
  const std::string before =
      absl::StrCat("s3:http://s3:9000/b/p/plugins/csi-delta/", bed_.env.cluster, "/shop/",
                   MoverBed::ClaimUid("shop", "data"));
  EXPECT_THAT(Names(Plan().stays), Contains(AllOf(HasSubstr(before), HasSubstr("velero/nightly"),
                                                  HasSubstr("is elsewhere now"))));
  EXPECT_THAT(Uninstall(), IsEmpty());
  EXPECT_TRUE(HasKeys());
}

TEST_F(UninstallTest, UnconfirmedKeysGoOnlyWithDataThatWasSeen) {
  BackUp();
  const auto own = bucket_.objects();
  bucket_.SetObjects({});
  EXPECT_THAT(Uninstall(), IsEmpty());
  EXPECT_TRUE(HasKeys()) << "its data may be where the location was before";
  Confirm();
  EXPECT_THAT(Uninstall(), IsEmpty());
  EXPECT_FALSE(HasKeys());
}

TEST_F(UninstallTest, NoPartOfARepositoryOutlivesWhatRefersToIt) {
  EXPECT_THAT(Uninstall(), IsEmpty());
  std::vector<std::string> deleted;
  for (const support::StoreCall& call : bucket_.calls()) {
    if (call.operation == StoreOperation::kDelete) {
      deleted.push_back(call.key);
    }
  }
  EXPECT_THAT(deleted,
              ElementsAre(OurObject("snapshots/s"), OurObject("index/i"), OurObject("data/aa/p"),
                          OurObject("locks/l"), OurObject("keys/k"), OurObject("config")));
}

TEST_F(UninstallTest, ABucketThatDoesNotAnswerIsAFailureThatIsTold) {
  BackUp();
  bucket_.AddFault({.operation = StoreOperation::kList,
                    .last_call = 1000,
                    .status = absl::UnavailableError("no route")});
  EXPECT_THAT(Names(Plan().stays), Contains(HasSubstr("not looked for")));
  EXPECT_THAT(Uninstall(), ElementsAre(HasSubstr("no route")));
  EXPECT_TRUE(HasKeys());
}

TEST_F(UninstallTest, AClusterWithoutAUidDeletesNothing) {
  bed_.env.cluster = "";
  EXPECT_THAT(PlanUninstall(bed_.ctx, bed_.env, request_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("kube-system")));
}

TEST_F(UninstallTest, WhatTheUserMayStillWantGoneIsListed) {
  bed_.api.Seed(VolumeSnapshotType(), {{"metadata",
                                        {{"name", "kept"},
                                         {"namespace", "shop"},
                                         {"labels", {{"velero.io/csi-delta", "velero"}}}}}});
  for (const k8s::ResourceType& type :
       {VolumeSnapshotContentType(), VolumeGroupSnapshotContentType("v1")}) {
    bed_.api.Seed(type,
                  {{"metadata",
                    {{"name", "pending"},
                     {"labels", {{"velero.io/csi-delta", "velero"}}},
                     {"deletionTimestamp", "2026-01-01T00:00:00Z"},
                     {"finalizers", {objects::kDeletionFinalizer}}}},
                   {"spec", {{"driver", "d"}}},
                   {"status", {{"snapshotHandle", "h"}, {"volumeGroupSnapshotHandle", "g"}}}});
  }
  EXPECT_THAT(Names(Plan().stays),
              AllOf(Contains(HasSubstr("driver d has not been seen to delete snapshot h")),
                    Contains(HasSubstr("driver d has not been seen to delete group g"))));
  EXPECT_THAT(Names(Plan().stays),
              AllOf(Contains(HasSubstr("kubectl delete crd volumetasks.mover.csi-delta.io")),
                    Contains(HasSubstr("kubectl delete crd datadeletions.mover.csi-delta.io")),
                    Contains(HasSubstr("kubectl delete crd protectedvolumes.mover.csi-delta.io")),
                    Contains(HasSubstr("VolumeSnapshot shop/kept"))));
  bed_.api.RemoveType("volumetasks");
  bed_.api.RemoveType("datadeletions");
  bed_.api.RemoveType("protectedvolumes");
  EXPECT_THAT(Uninstall(), IsEmpty());
  EXPECT_THAT(Names(Plan().stays), Not(Contains(HasSubstr("delete crd"))));
}

// An API server that fails at any one call, and a second run.
TEST_F(UninstallTest, WhatFailedIsDoneByTheNextRun) {
  for (int n = 1;; ++n) {
    SCOPED_TRACE(n);
    MoverBed bed;
    bed.worker = MoverBed::Worker::kRuns;
    bed.AddUpload("nightly");
    Look(bed, 4);
    ASSERT_EQ(bed.PhaseOf(), "InProgress");
    bed.api.FailCall(n, absl::PermissionDeniedError("not now"));
    bed.api.Remove({PodType(), MoverBed::kMover, bed.TaskNameOfUpload()});
    for (int run = 0; run < 2; ++run) {
      const absl::StatusOr<UninstallPlan> plan = PlanUninstall(bed.ctx, bed.env, request_);
      if (plan.ok()) {
        CarryOut(bed.ctx, bed.api, *plan, [](const UninstallItem&, const absl::Status&) {});
      }
    }
    EXPECT_THAT(bed.cluster.driver().snapshots(), IsEmpty());
    EXPECT_THAT(bed.api.All(objects::VolumeTask::Type()), IsEmpty());
    EXPECT_THAT(bed.api.All(VolumeSnapshotContentType()), IsEmpty());
    if (!bed.api.sweep_hit()) {
      EXPECT_GT(n, 10);
      break;
    }
  }
}

}  // namespace
}  // namespace csidelta::datamover::uninstall_test
