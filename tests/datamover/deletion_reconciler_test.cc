#include "datamover/deletion_reconciler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/yaml.h"
#include "csi/data_transfer.h"
#include "datamover/data_deletion.h"
#include "datamover/keyring.h"
#include "datamover/task_watch.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/datamover/mover_bed.h"
#include "tests/support/paths.h"
#include "tests/support/status_matchers.h"
#include "velero/data_reference.h"

namespace csidelta::datamover::deletion_reconciler_test {
namespace {

using support::IsOk;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class DeletionReconcilerTest : public testing::Test {
 protected:
  DeletionReconcilerTest()
      : reconciler_(bed_.env),
        loop_(
            {.type = csi::DataDeletionType(), .namespace_name = "velero", .label_selector = ""},
            reconciler_, [] { return true; }, bed_.clock),
        follower_(wakes_, loop_) {
    bed_.api.SetStatusSubresource("datadeletions", true);
    const auto keyring = OpenKeyring(bed_.ctx, bed_.api, MoverBed::kMover,
                                     {.velero_namespace = "velero", .location = "default"},
                                     /*make=*/true, bed_.secure_random);
    reference_ = {.cluster = "c2000000-0000-4000-8000-000000000002",  // not this one
                  .namespace_name = "shop",
                  .claim_uid = "c1a10000-0000-4000-8000-000000000001",
                  .snapshot_id = std::string(64, 'd'),
                  .key = keyring->newest().fingerprint};
  }

  void Add(const std::string& name, const velero::DataReference& reference) {
    AddText(name, velero::FormatDataReference(reference));
  }
  void AddText(const std::string& name, const std::string& text) {
    bed_.api.Seed(
        csi::DataDeletionType(),
        {{"metadata", {{"name", name}, {"namespace", "velero"}}},
         {"spec",
          {{"backupStorageLocation", "default"}, {"snapshotID", text}, {"backup", "nightly"}}}});
  }
  // Of the worker of "one".
  absl::Duration LockWait() const {
    return bed_.Job(Stem()).lock_wait.value_or(absl::InfiniteDuration());
  }
  static velero::DataTransfer UploadOfUid(const std::string& uid) {
    velero::DataTransfer upload;
    upload.uid = uid;
    upload.namespace_name = "velero";
    upload.storage_location = "default";
    return upload;
  }
  void Look(int times = 1) {
    for (int i = 0; i < times; ++i) {
      follower_.OnAll(bed_.api.All(csi::DataDeletionType()));
      loop_.WorkOnce(bed_.ctx);
    }
  }
  Json Object(const std::string& name) const {
    return bed_.api.Find({csi::DataDeletionType(), "velero", name}).value_or(Json());
  }
  objects::DataDeletionStatus Deletion(const std::string& name = "one") const {
    return support::As<objects::DataDeletion>(Object(name)).status();
  }
  std::string Stem(const std::string& name = "one") const {
    return StemOf("DataDeletion", k8s::Uid(Object(name)));
  }
  void FailWorker(OutcomeCause cause, const std::string& message) {
    bed_.End(Stem(), "Failed", {.code = OutcomeCode::kFailed, .cause = cause, .message = message});
  }
  // The worker of "one" ends because of locks: each of 64 equal digits, and what else it says.
  void MeetLocks(const std::vector<std::string>& digits, Json others = Json::array()) {
    for (const std::string& digit : digits) {
      others.push_back(std::string(64, digit[0]));
    }
    bed_.SetTaskStatus(Stem(), {{"phase", "Failed"},
                                {"outcome",
                                 {{"code", "Failed"},
                                  {"cause", "Locked"},
                                  {"message", "the repository is locked: eve"},
                                  {"locks", others}}}});
    bed_.SetPodStatus(Stem(), {{"phase", "Succeeded"}});
    Look(2);
  }
  void ExpectNoWorkers() const {
    EXPECT_THAT(bed_.api.All(csi::PodType()), IsEmpty());
    EXPECT_THAT(bed_.api.All(VolumeTask::Type()), IsEmpty());
    EXPECT_THAT(bed_.api.All(csi::SecretType()), SizeIs(2));  // credentials and keyring
  }

  MoverBed bed_;
  DeletionReconciler reconciler_;
  k8s::ReconcileLoop loop_;
  WakeTable wakes_;
  DeletionFollower follower_;
  velero::DataReference reference_;
};

TEST_F(DeletionReconcilerTest, ForgetsTheOneSnapshotInTheRepositoryOfWhoeverWroteIt) {
  bed_.worker = MoverBed::Worker::kRuns;
  Add("one", reference_);
  Look(3);
  EXPECT_EQ(Deletion().phase, objects::DeletionPhase::kInProgress);
  const VolumeJob job = bed_.Job(Stem());
  EXPECT_EQ(job.work, VolumeWork(ForgetWork{.snapshot_id = reference_.snapshot_id}));
  EXPECT_EQ(job.repository.address,
            absl::StrCat("s3:http://s3:9000/b/p/plugins/csi-delta/", reference_.cluster, "/shop/",
                         reference_.claim_uid));
  EXPECT_THAT(Deletion().message, HasSubstr("at it: transfer"));
  bed_.Finish(Stem());
  Look(2);
  EXPECT_EQ(Deletion().phase, objects::DeletionPhase::kCompleted);
  EXPECT_EQ(Deletion().attempts, 1);
  ExpectNoWorkers();
}

TEST_F(DeletionReconcilerTest, WhatAnUploadLeftIsFoundByItsTag) {
  bed_.worker = MoverBed::Worker::kRuns;
  bed_.api.Seed(
      csi::DataDeletionType(),
      MakeDeletionOfUnnamed(UploadOfUid("00000000-0000-4000-8000-00000000000b"), reference_,
                            /*worker_ended=*/false)
          .json());
  const std::string name = "unnamed-00000000-0000-4000-8000-00000000000b";
  Look(3);
  EXPECT_EQ(Deletion(name).attempts, 0) << "its worker may be at it yet";
  bed_.clock.Advance(kUnnamedDeletionAfter);
  Look(3);
  EXPECT_EQ(Deletion(name).phase, objects::DeletionPhase::kInProgress) << Deletion(name).message;
  EXPECT_EQ(bed_.Job(Stem(name)).work,
            VolumeWork(ForgetWork{.tag = "du-00000000-0000-4000-8000-00000000000b"}));
}

TEST_F(DeletionReconcilerTest, AnUploadThatIsNoUidIsRefused) {
  Json deletion = MakeDeletionOfUnnamed(UploadOfUid("b"), reference_, false).json();
  deletion["spec"]["upload"] = "b,latest --host x";
  bed_.api.Seed(csi::DataDeletionType(), deletion);
  Look(2);
  EXPECT_EQ(Deletion("unnamed-b").phase, objects::DeletionPhase::kFailed);
  EXPECT_THAT(Deletion("unnamed-b").message, HasSubstr("spec.upload"));
  ExpectNoWorkers();
}

TEST_F(DeletionReconcilerTest, ARepositoryThatIsGoneIsSuccess) {
  bed_.worker = MoverBed::Worker::kRuns;
  Add("one", reference_);
  Look(2);
  FailWorker(OutcomeCause::kNoRepository, "there is no repository");
  Look(2);
  EXPECT_EQ(Deletion().phase, objects::DeletionPhase::kCompleted);
  EXPECT_THAT(Deletion().message, HasSubstr("gone already"));
  ExpectNoWorkers();
}

TEST_F(DeletionReconcilerTest, WhatFailsIsTriedAgainLaterAndEverLater) {
  bed_.worker = MoverBed::Worker::kRuns;
  Add("one", reference_);
  absl::Duration before = absl::ZeroDuration();
  for (int attempt = 1; attempt <= 4; ++attempt) {
    Look(2);
    ASSERT_EQ(Deletion().attempts, attempt);
    FailWorker(OutcomeCause::kNone, "the bucket does not answer");
    Look(2);
    EXPECT_EQ(Deletion().phase, objects::DeletionPhase::kWaiting);
    EXPECT_THAT(Deletion().message, HasSubstr("the bucket does not answer"));
    ExpectNoWorkers();
    const absl::Duration wait = *Deletion().next_attempt_at - bed_.clock.Now();
    EXPECT_GT(wait, before);
    before = wait;
    Look(2);
    EXPECT_EQ(Deletion().attempts, attempt);
    bed_.clock.Advance(wait);
  }
  Look(2);
  bed_.Finish(Stem());
  Look(2);
  EXPECT_EQ(Deletion().phase, objects::DeletionPhase::kCompleted);
  EXPECT_EQ(Deletion().attempts, 5);
}

TEST_F(DeletionReconcilerTest, WhoMeetsALockLeavesItsPlaceAndLooksAgainSoon) {
  bed_.worker = MoverBed::Worker::kRuns;
  Add("one", reference_);
  Look(2);
  EXPECT_EQ(LockWait(), absl::Seconds(10));
  MeetLocks({"a"});
  EXPECT_EQ(Deletion().phase, objects::DeletionPhase::kWaiting);
  EXPECT_EQ(Deletion().trouble, objects::DeletionTrouble::kLocked);
  EXPECT_THAT(Deletion().message, AllOf(HasSubstr("again in 15s"), HasSubstr("is locked: eve")));
  EXPECT_EQ(*Deletion().next_attempt_at - bed_.clock.Now(), kLockedAgainFirst);
  ExpectNoWorkers();
  const std::vector<Json> events = bed_.api.All({"", "v1", "events", "Event", true});
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(GetString(events[0], {"reason"}), "Locked");
}

TEST_F(DeletionReconcilerTest, ALockThatNobodyRefreshesIsWatchedUntilItIsDead) {
  bed_.worker = MoverBed::Worker::kRuns;
  Add("one", reference_);
  const absl::Time began = bed_.clock.Now();
  absl::Time refreshed = began;
  char digit = '0';
  while (true) {
    Look(2);
    ASSERT_EQ(Deletion().phase, objects::DeletionPhase::kInProgress);
    if (bed_.clock.Now() - began < absl::Hours(2)) {  // So long an upload goes on.
      EXPECT_EQ(LockWait(), absl::Seconds(10));
      if (bed_.clock.Now() - refreshed >= absl::Minutes(5)) {
        refreshed = bed_.clock.Now();
        digit = digit == '9' ? '0' : static_cast<char>(digit + 1);
      }
    } else if (LockWait() == absl::Minutes(31)) {
      break;
    }
    MeetLocks({std::string(1, digit)});
    const absl::Duration wait = *Deletion().next_attempt_at - bed_.clock.Now();
    EXPECT_LE(wait, kLockedAgainMax);
    bed_.clock.Advance(wait);
    ASSERT_LT(bed_.clock.Now() - refreshed, absl::Minutes(31));
  }
  EXPECT_LT(Deletion().attempts, 30);
  EXPECT_THAT(bed_.api.All({"", "v1", "events", "Event", true}), SizeIs(1));
  bed_.Finish(Stem());
  Look(2);
  EXPECT_EQ(Deletion().phase, objects::DeletionPhase::kCompleted);
  EXPECT_THAT(Deletion().locks, IsEmpty());
}

TEST_F(DeletionReconcilerTest, WhatTheBucketRetainsIsTriedOnceADayAndToldOnce) {
  bed_.worker = MoverBed::Worker::kRuns;
  Add("one", reference_);
  absl::Duration wait = absl::ZeroDuration();
  for (int attempt = 0; attempt < 6; ++attempt) {
    bed_.clock.Advance(wait);
    Look(2);
    FailWorker(OutcomeCause::kRetained, "the bucket keeps it");
    Look(2);
    EXPECT_EQ(Deletion().trouble, objects::DeletionTrouble::kRetained) << attempt;
    wait = *Deletion().next_attempt_at - bed_.clock.Now();
    EXPECT_GE(wait, kRetainedAgainFirst);
  }
  EXPECT_EQ(wait, absl::Hours(24));
  EXPECT_THAT(bed_.api.All({"", "v1", "events", "Event", true}), SizeIs(1));
}

TEST_F(DeletionReconcilerTest, WhatAWorkerSaysOfLocksIsTakenOnlyAsLocks) {
  bed_.worker = MoverBed::Worker::kRuns;
  Add("one", reference_);
  Look(2);
  MeetLocks({"a"}, {"--repo", 7, nullptr, std::string(64, '-')});
  EXPECT_THAT(Deletion().locks, SizeIs(1));
}

TEST_F(DeletionReconcilerTest, PodsThatHaveEndedAreNamedToTheWorker) {
  bed_.worker = MoverBed::Worker::kRuns;
  const std::string repository = absl::StrCat("s3:http://s3:9000/b/p/plugins/csi-delta/",
                                              reference_.cluster, "/shop/", reference_.claim_uid);
  for (const auto& [uid, where] :
       {std::pair("u-1", repository), std::pair("u-2", repository + "2")}) {
    Json pod = {
        {"metadata", {{"uid", uid}, {"annotations", {{objects::kRepositoryAnnotation, where}}}}}};
    pod["status"]["containerStatuses"] = Json::array(
        {{{"state", {{"terminated", {{"exitCode", 137}, {"containerID", "containerd://1"}}}}}}});
    PodFollower(wakes_, nullptr, *bed_.env.ended_pods, *bed_.env.running)
        .OnEvent({.kind = k8s::WatchEvent::Kind::kDeleted, .object = pod});
  }
  Add("one", reference_);
  Look(2);
  EXPECT_THAT(bed_.Job(Stem()).ended_pods, testing::ElementsAre("u-1"));
  const auto pod = bed_.api.Find({csi::PodType(), MoverBed::kMover, Stem()});
  ASSERT_TRUE(pod.has_value());
  EXPECT_EQ(k8s::Annotation(*pod, objects::kRepositoryAnnotation), repository);
}

TEST_F(DeletionReconcilerTest, WhatAWorkerLeftThatIsKnownToHaveEndedGoesAtOnce) {
  bed_.worker = MoverBed::Worker::kRuns;
  bed_.api.Seed(csi::DataDeletionType(),
                MakeDeletionOfUnnamed(UploadOfUid("00000000-0000-4000-8000-00000000000b"),
                                      reference_, /*worker_ended=*/true)
                    .json());
  Look(2);
  EXPECT_EQ(Deletion("unnamed-00000000-0000-4000-8000-00000000000b").phase,
            objects::DeletionPhase::kInProgress);
}

TEST_F(DeletionReconcilerTest, EventsTellOfEachAttemptThatFailedAndOfTheEnd) {
  bed_.worker = MoverBed::Worker::kRuns;
  Add("one", reference_);
  AddText("two", "nothing of ours");
  Look(2);
  FailWorker(OutcomeCause::kNone, "somebody pulled the plug");
  Look(2);
  bed_.clock.Advance(kDeletionAgainFirst);
  Look(2);
  bed_.Finish(Stem());
  Look(2);
  std::vector<std::string> events;
  for (const Json& event : bed_.api.All({"", "v1", "events", "Event", true})) {
    events.push_back(absl::StrCat(GetString(event, {"involvedObject", "name"}), " ",
                                  GetString(event, {"type"}), " ", GetString(event, {"reason"})));
  }
  EXPECT_THAT(events, testing::UnorderedElementsAre("one Warning Failed", "one Normal Completed",
                                                    "two Warning Refused"));
}

TEST_F(DeletionReconcilerTest, TwoOfOneVolumeGoOneAfterTheOther) {
  bed_.worker = MoverBed::Worker::kRuns;
  Add("one", reference_);
  Look(2);
  reference_.snapshot_id = std::string(64, 'e');
  Add("two", reference_);
  Look(3);
  EXPECT_EQ(Deletion("two").phase, objects::DeletionPhase::kWaiting);
  EXPECT_THAT(Deletion("two").message, HasSubstr("waits for DataDeletion velero/one"));
  bed_.Finish(Stem());
  Look(2);
  bed_.clock.Advance(absl::Seconds(10));
  Look(2);
  EXPECT_EQ(Deletion("two").phase, objects::DeletionPhase::kInProgress);
}

TEST_F(DeletionReconcilerTest, FewRunAtOnce) {
  bed_.worker = MoverBed::Worker::kRuns;
  for (int i = 0; i < 5; ++i) {
    reference_.claim_uid = absl::StrCat("c", i);
    Add(absl::StrCat("d", i), reference_);
  }
  Look(3);
  EXPECT_THAT(bed_.api.All(csi::PodType()), SizeIs(kDeletionsMax));
}

TEST_F(DeletionReconcilerTest, WhatIsNoReferenceOfOursFailsAtOnceAndTouchesNothing) {
  AddText("one", "csi-delta/1/../shop/c/dd/ee");
  Look(2);
  EXPECT_EQ(Deletion().phase, objects::DeletionPhase::kFailed);
  EXPECT_THAT(Deletion().message, HasSubstr("snapshot id"));
  ExpectNoWorkers();
}

// After a change of keys another one opens the repository.
TEST_F(DeletionReconcilerTest, WithoutTheKeyItTriesTheOthersAndWaitsWhereNoneFits) {
  bed_.worker = MoverBed::Worker::kRuns;
  reference_.key = "0123456789abcdef";
  Add("one", reference_);
  Look(3);
  EXPECT_EQ(Deletion().phase, objects::DeletionPhase::kInProgress);
  FailWorker(OutcomeCause::kNoKey, "no key opens it");
  Look(2);
  EXPECT_EQ(Deletion().phase, objects::DeletionPhase::kWaiting);
  EXPECT_THAT(Deletion().message,
              AllOf(HasSubstr("0123456789abcdef"), HasSubstr("mover-key import")));
  ExpectNoWorkers();
}

TEST_F(DeletionReconcilerTest, OneThatTheApiServerRefusesAPodForSaysSoAndLeavesItsPlace) {
  for (const char* plural : {"pods", "volumetasks"}) {
    bed_.api.Forbid("create", plural);
    Add(plural, reference_);
    Look(2);
    const objects::DataDeletionStatus deletion = Deletion(plural);
    EXPECT_EQ(deletion.phase, objects::DeletionPhase::kWaiting) << plural;
    EXPECT_THAT(deletion.message, AllOf(HasSubstr("forbidden"), HasSubstr("again in 1m")));
    EXPECT_THAT(bed_.api.All(VolumeTask::Type()), IsEmpty());
    bed_.api.ClearFaults();
    bed_.clock.Advance(absl::Minutes(2));
    Look(3);
    EXPECT_EQ(Deletion(plural).phase, objects::DeletionPhase::kCompleted) << plural;
  }
}

TEST_F(DeletionReconcilerTest, WhatIsDoneGoesAfterADay) {
  Add("one", reference_);
  Look(4);
  ASSERT_EQ(Deletion().phase, objects::DeletionPhase::kCompleted);
  bed_.clock.Advance(kDeletionKeptFor - absl::Seconds(30));
  Look();
  EXPECT_THAT(bed_.api.All(csi::DataDeletionType()), SizeIs(1));
  bed_.clock.Advance(absl::Minutes(1));
  Look();
  EXPECT_THAT(bed_.api.All(csi::DataDeletionType()), IsEmpty());
}

TEST_F(DeletionReconcilerTest, OneThatIsWithdrawnLeavesNoTask) {
  bed_.worker = MoverBed::Worker::kRuns;
  Add("one", reference_);
  Look(2);
  ASSERT_THAT(bed_.api.All(VolumeTask::Type()), SizeIs(1));
  bed_.api.Remove({csi::DataDeletionType(), "velero", "one"});
  Look(2);
  TaskReconciler tasks(bed_.env, wakes_, [] { return true; },
                       {{TaskKind::kForget, RemoveDeletionLeftovers}});
  for (const Json& task : bed_.api.All(VolumeTask::Type())) {
    EXPECT_THAT(tasks.Reconcile(bed_.ctx, task), IsOk());
  }
  ExpectNoWorkers();
}

// The task's last word comes first: whoever cares is to look at it, and finds no DataDeletion.
TEST_F(DeletionReconcilerTest, OneThatGoesAsItsTaskEndsLeavesNoTaskEither) {
  bed_.worker = MoverBed::Worker::kRuns;
  k8s::ReconcileLoop* of_tasks = nullptr;
  WakeTable wakes([&of_tasks](const std::string& stem) { of_tasks->Wake(MoverBed::kMover, stem); });
  DeletionFollower follower(wakes, loop_);
  TaskReconciler reconciler(bed_.env, wakes, [] { return true; },
                            {{TaskKind::kForget, RemoveDeletionLeftovers}});
  k8s::ReconcileLoop tasks(
      {.type = VolumeTask::Type(), .namespace_name = MoverBed::kMover, .label_selector = ""},
      reconciler, [] { return true; }, bed_.clock);
  of_tasks = &tasks;
  Add("one", reference_);
  for (int i = 0; i < 2; ++i) {
    follower.OnAll(bed_.api.All(csi::DataDeletionType()));
    loop_.WorkOnce(bed_.ctx);
  }
  const Json deletion = Object("one");
  bed_.Finish(Stem());

  bed_.api.Remove({csi::DataDeletionType(), "velero", "one"});
  tasks.OnAll(bed_.api.All(VolumeTask::Type()));
  tasks.WorkOnce(bed_.ctx);
  loop_.WorkOnce(bed_.ctx);
  ASSERT_THAT(bed_.api.All(VolumeTask::Type()), SizeIs(1)) << "left to whoever cared";
  follower.OnEvent({k8s::WatchEvent::Kind::kDeleted, deletion});
  tasks.WorkOnce(bed_.ctx);
  ExpectNoWorkers();
}

TEST_F(DeletionReconcilerTest, AControllerThatDiesAnywhereIsFollowedByOneThatCarriesOn) {
  for (int call = 1;; ++call) {
    const std::string name = absl::StrCat("d", call);
    Add(name, reference_);
    bed_.api.FailCall(call, absl::UnavailableError("cut off"), support::Fault::kAnswerLost);
    for (int i = 0; i < 12 && Deletion(name).phase != objects::DeletionPhase::kCompleted; ++i) {
      Look();
      bed_.clock.Advance(absl::Minutes(3));
    }
    EXPECT_EQ(Deletion(name).phase, objects::DeletionPhase::kCompleted)
        << call << ": " << Deletion(name).message;
    ExpectNoWorkers();
    if (!bed_.api.sweep_hit()) {
      EXPECT_GT(call, 10);
      break;
    }
    bed_.api.ClearFaults();
    bed_.api.Remove({csi::DataDeletionType(), "velero", name});
    ASSERT_LT(call, 100);
  }
}

TEST(DataDeletionSchema, KnowsEveryFieldThatIsWritten) {
  const auto crd = ParseYaml(support::ReadSource("deploy/chart/crds/datadeletion.yaml"));
  ASSERT_THAT(crd, IsOk());
  const Json properties =
      crd->at("spec").at("versions").at(0).at("schema").at("openAPIV3Schema").at("properties");
  const Json written = objects::StatusJson({});
  for (const auto& [name, value] : written.items()) {
    EXPECT_TRUE(properties.at("status").at("properties").contains(name)) << name;
  }
  EXPECT_EQ(properties.at("status").at("properties").size(), written.size());
}

}  // namespace
}  // namespace csidelta::datamover::deletion_reconciler_test
