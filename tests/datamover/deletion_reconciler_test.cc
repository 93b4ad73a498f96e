#include "datamover/controller/deletion_reconciler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/yaml.h"
#include "datamover/controller/leftover_reconcilers.h"
#include "datamover/keyring.h"
#include "datamover/worker/deletion_queue.h"
#include "k8s/object.h"
#include "k8s/object_cache.h"
#include "objects/keys.h"
#include "objects/patch.h"
#include "objects/protected_volume.h"
#include "tests/datamover/mover_bed.h"
#include "tests/support/event_texts.h"
#include "tests/support/kind_names.h"
#include "tests/support/paths.h"
#include "tests/support/report_all.h"
#include "tests/support/sanitized.h"
#include "tests/support/status_matchers.h"
#include "velero/data_reference.h"

namespace csidelta::datamover::deletion_reconciler_test {
namespace {

using support::IsOk;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class DeletionReconcilerTest : public testing::Test {
 protected:
  DeletionReconcilerTest()
      : queue_(kWorkers, bed_.clock,
               [this](const DeletionQueue::Name& name) {
                 loop_.Enqueue(name.namespace_name, name.name);
               }),
        reconciler_(bed_.env, queue_),
        loop_(
            DataDeletionType(), reconciler_, [] { return true; }, bed_.clock),
        handler_(DeletionSubjects(queue_), enqueue_table_, loop_) {
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
        DataDeletionType(),
        {{"metadata", {{"name", name}, {"namespace", "velero"}}},
         {"spec",
          {{"backupStorageLocation", "default"}, {"snapshotID", text}, {"backup", "nightly"}}}});
  }
  // Of the worker of "one".
  absl::Duration LockWait() const {
    return bed_.Job(TaskName()).lock_wait.value_or(absl::InfiniteDuration());
  }
  static objects::DataTransfer UploadOfUid(const std::string& uid) {
    const auto upload = support::As<objects::DataTransfer>(
        {{"metadata", {{"name", "u"}, {"namespace", "velero"}, {"uid", uid}}},
         {"spec", {{"backupStorageLocation", "default"}}}});
    return upload;
  }
  void Look(int times = 1) {
    for (int i = 0; i < times; ++i) {
      support::ReportAll(informer_, bed_.api.All(DataDeletionType()));
      loop_.WorkOnce(bed_.ctx);
    }
  }
  Json Object(const std::string& name) const {
    return bed_.api.Find({DataDeletionType(), "velero", name}).value_or(Json());
  }
  objects::DataDeletionStatus Deletion(const std::string& name = "one") const {
    return support::As<objects::DataDeletion>(Object(name)).status();
  }
  std::string TaskName(const std::string& name = "one") const {
    return TaskNameOf("DataDeletion", k8s::Uid(Object(name)));
  }
  // The worker of "one" is made.
  void Start() {
    bed_.worker = MoverBed::Worker::kRuns;
    Add("one", reference_);
    Look(2);
  }
  // It ends, and the controller looks.
  void FailWorker(objects::OutcomeCause cause, const std::string& message) {
    bed_.End(TaskName(), "Failed",
             {.code = objects::OutcomeCode::kFailed, .cause = cause, .message = message});
    Look(2);
  }
  void FinishWorker(const std::string& name = "one") {
    bed_.Finish(TaskName(name));
    Look(2);
  }
  void AwaitNextAttempt() { bed_.clock.Advance(*Deletion().next_attempt_at - bed_.clock.Now()); }
  // The worker of "one" ends because of locks: each of 64 equal digits, and what else it says.
  void MeetLocks(const std::vector<std::string>& digits, Json others = Json::array()) {
    for (const std::string& digit : digits) {
      others.push_back(std::string(64, digit[0]));
    }
    bed_.SetTaskStatus(TaskName(), {{"phase", "Failed"},
                                    {"outcome",
                                     {{"code", "Failed"},
                                      {"cause", "Locked"},
                                      {"message", "the repository is locked: eve"},
                                      {"locks", others}}}});
    bed_.SetPodStatus(TaskName(), {{"phase", "Succeeded"}});
    Look(2);
  }
  void ExpectNoWorkers() const {
    EXPECT_THAT(bed_.api.All(PodType()), IsEmpty());
    EXPECT_THAT(bed_.api.All(objects::VolumeTask::Type()), IsEmpty());
    EXPECT_THAT(bed_.api.All(SecretType()), SizeIs(2));  // credentials and keyring
  }

  static constexpr int kWorkers = 2;

  // Another repository snapshot of the same volume.
  void AddOf(const std::string& name, char digit) {
    velero::DataReference reference = reference_;
    reference.snapshot_id = std::string(64, digit);
    Add(name, reference);
  }
  // "one", which is the older, and "two", while workers run.
  void AddTwo() {
    bed_.worker = MoverBed::Worker::kRuns;
    AddOf("one", 'a');
    bed_.clock.Advance(absl::Seconds(1));
    AddOf("two", 'b');
  }
  static objects::ForgetWork Forgets(const std::vector<std::string>& ids) {
    objects::ForgetWork work;
    for (const std::string& id : ids) {
      work.items.push_back({.snapshot_id = id});
    }
    return work;
  }
  std::vector<std::string> EventsOf(const std::string& name) const {
    std::vector<std::string> events;
    for (const Json& event : bed_.api.All({"", "v1", "events", "Event", true})) {
      if (GetString(event, {"involvedObject", "name"}) == name) {
        events.push_back(GetString(event, {"reason"}));
      }
    }
    return events;
  }
  // An attempt of "one" fails, and the time of the next one comes.
  void FailAttempt(const std::string& why) {
    Look(2);
    FailWorker(objects::OutcomeCause::kNone, why);
    if (Deletion().next_attempt_at.has_value()) {
      AwaitNextAttempt();
    }
  }

  MoverBed bed_;
  DeletionQueue queue_;
  DeletionReconciler reconciler_;
  k8s::ReconcileLoop loop_;
  EnqueueTable enqueue_table_;
  SubjectEventHandler handler_;
  k8s::Informer informer_{{.type = DataDeletionType()}, {&handler_, &loop_}};
  velero::DataReference reference_;
};

TEST_F(DeletionReconcilerTest, ForgetsTheOneSnapshotInTheRepositoryOfItsWriter) {
  Start();
  EXPECT_EQ(Deletion().phase, objects::DeletionPhase::kInProgress);
  const objects::VolumeJob job = bed_.Job(TaskName());
  EXPECT_EQ(job.work, objects::VolumeWork(Forgets({reference_.snapshot_id})));
  EXPECT_EQ(job.repository.address,
            absl::StrCat("s3:http://s3:9000/b/p/plugins/csi-delta/", reference_.cluster, "/shop/",
                         reference_.claim_uid));
  Look();
  EXPECT_THAT(Deletion().message, HasSubstr("at it: transfer"));
  const Json pod = bed_.api.Find({PodType(), MoverBed::kMover, TaskName()}).value_or(Json());
  EXPECT_EQ(k8s::Label(pod, objects::kSlotLabel), "") << "those are for transfers";
  FinishWorker();
  EXPECT_EQ(Deletion().phase, objects::DeletionPhase::kCompleted);
  EXPECT_EQ(Deletion().attempts, 1);
  ExpectNoWorkers();
}

TEST_F(DeletionReconcilerTest, DeletionsRunWithTheCredentialsForDeletion) {
  const std::string text = "[default]\naws_access_key_id=remover\naws_secret_access_key=shh\n";
  bed_.env.settings.locations["default"].deletion_credential = {.name = "remover", .key = "keys"};
  Start();
  EXPECT_THAT(Deletion().message, HasSubstr("Secret velero/remover is not there"));
  bed_.api.Seed(SecretType(), {{"metadata", {{"name", "remover"}, {"namespace", "velero"}}},
                               {"data", {{"keys", absl::Base64Escape(text)}}}});
  AwaitNextAttempt();
  Look(3);
  const k8s::ObjectKey secret = {SecretType(), MoverBed::kMover, TaskName()};
  EXPECT_EQ(GetString(*bed_.api.Find(secret), {"data", "cloud"}), absl::Base64Escape(text));
  // A worker that runs with the location's own credentials is not given these.
  bed_.api.Seed(SecretType(), {{"metadata", {{"name", "du-1"}, {"namespace", MoverBed::kMover}}},
                               {"data", {{"cloud", absl::Base64Escape("old")}}}});
  bed_.env.access_keeper->Keep(
      bed_.ctx, bed_.api,
      {.velero_namespace = "velero", .location = "default", .mover_namespace = MoverBed::kMover},
      "du-1");
  EXPECT_THAT(
      bed_.api.Find({SecretType(), MoverBed::kMover, "du-1"})->dump(),
      AllOf(Not(HasSubstr(absl::Base64Escape(text))), Not(HasSubstr(absl::Base64Escape("old")))));
}

TEST_F(DeletionReconcilerTest, WhatAnUploadLeftIsFoundByItsTagOnceItsWorkerHasEnded) {
  bed_.worker = MoverBed::Worker::kRuns;
  for (const bool has_ended : {false, true}) {
    const std::string uid = absl::StrCat("00000000-0000-4000-8000-00000000000", has_ended);
    const std::string name = absl::StrCat("unnamed-", uid);
    bed_.api.Seed(DataDeletionType(),
                  MakeDeletionOfUnnamed(UploadOfUid(uid), reference_, has_ended).json());
    Look(3);
    if (!has_ended) {
      EXPECT_EQ(Deletion(name).attempts, 0) << "its worker may be at it yet";
      bed_.clock.Advance(kUnnamedDeletionAfter);
      Look(3);
    }
    EXPECT_EQ(Deletion(name).phase, objects::DeletionPhase::kInProgress) << Deletion(name).message;
    EXPECT_EQ(bed_.Job(TaskName(name)).work,
              objects::VolumeWork(objects::ForgetWork{.items = {{.tag = "du-" + uid}}}));
    FinishWorker(name);
  }
}

// Else the space of a good copy might be freed, and a damaged one stay.
TEST_F(DeletionReconcilerTest, TheWorkerIsToldWhatACheckFoundDamaged) {
  const objects::RepositoryDamage damage{.packs = {std::string(64, 'a')}, .packs_found = 1};
  Json record = objects::Patch().SetVerification({.finding = "1 error", .damage = damage}).json();
  record["metadata"] = {{"name", objects::ProtectedVolume::NameOf(reference_.claim_uid, "default")},
                        {"namespace", "velero"}};
  bed_.api.Seed(objects::ProtectedVolume::Type(), record);
  Start();
  objects::ForgetWork work = Forgets({reference_.snapshot_id});
  work.damage = damage;
  EXPECT_EQ(bed_.Job(TaskName()).work, objects::VolumeWork(work));
}

TEST_F(DeletionReconcilerTest, AnUploadThatIsNoUidIsRefused) {
  Json deletion = MakeDeletionOfUnnamed(UploadOfUid("b"), reference_, false).json();
  deletion["spec"]["upload"] = "b,latest --host x";
  bed_.api.Seed(DataDeletionType(), deletion);
  Look(2);
  EXPECT_EQ(Deletion("unnamed-b").phase, objects::DeletionPhase::kFailed);
  EXPECT_THAT(Deletion("unnamed-b").message, HasSubstr("spec.upload"));
  ExpectNoWorkers();
}

TEST_F(DeletionReconcilerTest, ARepositoryThatIsGoneIsSuccess) {
  Start();
  FailWorker(objects::OutcomeCause::kNoRepository, "there is no repository");
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
    FailWorker(objects::OutcomeCause::kNone, "the bucket does not answer");
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
  FinishWorker();
  EXPECT_EQ(Deletion().phase, objects::DeletionPhase::kCompleted);
  EXPECT_EQ(Deletion().attempts, 5);
}

TEST_F(DeletionReconcilerTest, WhoMeetsALockLeavesItsPlaceAndLooksAgainSoon) {
  Start();
  EXPECT_EQ(LockWait(), absl::Seconds(10));
  MeetLocks({"a"});
  EXPECT_EQ(Deletion().phase, objects::DeletionPhase::kWaiting);
  EXPECT_EQ(Deletion().trouble, objects::DeletionTrouble::kLocked);
  EXPECT_THAT(Deletion().message, AllOf(HasSubstr("again in 15s"), HasSubstr("is locked: eve")));
  EXPECT_EQ(*Deletion().next_attempt_at - bed_.clock.Now(), kLockedAgainFirst);
  ExpectNoWorkers();
  EXPECT_THAT(support::EventTexts(bed_.api), testing::ElementsAre(HasSubstr(" Locked: ")));
}

TEST_F(DeletionReconcilerTest, AStaleLockIsWatchedUntilItExpires) {
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
  FinishWorker();
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
    FailWorker(objects::OutcomeCause::kRetained, "the bucket keeps it");
    EXPECT_EQ(Deletion().trouble, objects::DeletionTrouble::kRetained) << attempt;
    wait = *Deletion().next_attempt_at - bed_.clock.Now();
    EXPECT_GE(wait, kRetainedAgainFirst);
  }
  EXPECT_EQ(wait, absl::Hours(24));
  EXPECT_THAT(bed_.api.All({"", "v1", "events", "Event", true}), SizeIs(1));
}

TEST_F(DeletionReconcilerTest, WhatAWorkerSaysOfLocksIsTakenOnlyAsLocks) {
  Start();
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
    PodEventHandler(enqueue_table_, nullptr, *bed_.env.ended_pods, *bed_.env.running)
        .OnObjectDeleted(k8s::IdOf(pod), &pod);
  }
  Add("one", reference_);
  Look(2);
  EXPECT_THAT(bed_.Job(TaskName()).ended_pods, testing::ElementsAre("u-1"));
  const auto pod = bed_.api.Find({PodType(), MoverBed::kMover, TaskName()});
  ASSERT_TRUE(pod.has_value());
  EXPECT_EQ(k8s::Annotation(*pod, objects::kRepositoryAnnotation), repository);
}

TEST_F(DeletionReconcilerTest, EventsTellOfEachAttemptThatFailedAndOfTheEnd) {
  bed_.worker = MoverBed::Worker::kRuns;
  Add("one", reference_);
  AddText("two", "nothing of csi-delta");
  Look(2);
  FailWorker(objects::OutcomeCause::kNone, "the plug was pulled");
  bed_.clock.Advance(kDeletionAgainFirst);
  Look(2);
  FinishWorker();
  EXPECT_THAT(support::EventTexts(bed_.api),
              testing::UnorderedElementsAre(HasSubstr("one Warning Failed: "),
                                            HasSubstr("one Normal Completed: "),
                                            HasSubstr("two Warning Refused: ")));
}

TEST_F(DeletionReconcilerTest, DeletionsOfOneRepositoryAreOneJobOfTheOldest) {
  bed_.worker = MoverBed::Worker::kRuns;
  for (const char digit : {'a', 'b', 'c'}) {
    AddOf(digit == 'a' ? "one" : std::string(1, digit), digit);
    bed_.clock.Advance(absl::Seconds(1));
  }
  Look(3);
  EXPECT_EQ(bed_.Job(TaskName()).work,
            objects::VolumeWork(
                Forgets({std::string(64, 'a'), std::string(64, 'b'), std::string(64, 'c')})));
  EXPECT_THAT(bed_.api.All(PodType()), SizeIs(1));
  EXPECT_EQ(Deletion("b").phase, objects::DeletionPhase::kNone) << "it costs nothing until then";
  AddOf("late", 'd');
  Look(2);
  FinishWorker();
  for (const char* done : {"one", "b", "c"}) {
    EXPECT_EQ(Deletion(done).phase, objects::DeletionPhase::kCompleted) << done;
    EXPECT_EQ(Deletion(done).attempts, 1) << done;
  }
  EXPECT_THAT(Deletion().message, HasSubstr("that of 2 other DataDeletions"));
  EXPECT_THAT(EventsOf("one"), testing::ElementsAre("Completed"));
  EXPECT_THAT(EventsOf("b"), IsEmpty());
  EXPECT_EQ(Deletion("late").phase, objects::DeletionPhase::kInProgress) << "no worker had it";
  EXPECT_EQ(bed_.Job(TaskName("late")).work, objects::VolumeWork(Forgets({std::string(64, 'd')})));
}

TEST_F(DeletionReconcilerTest, AsManyRepositoriesAtOnceAsThereAreWorkers) {
  bed_.worker = MoverBed::Worker::kRuns;
  for (int i = 0; i < 5; ++i) {
    reference_.claim_uid = absl::StrCat("c", i);
    Add(absl::StrCat("d", i), reference_);
    bed_.clock.Advance(absl::Seconds(1));
  }
  Look(3);
  EXPECT_THAT(bed_.api.All(PodType()), SizeIs(kWorkers));
  EXPECT_EQ(Deletion("d1").phase, objects::DeletionPhase::kInProgress);
  bed_.Finish(TaskName("d1"));
  loop_.Enqueue("velero", "d1");
  loop_.WorkOnce(bed_.ctx);
  loop_.WorkOnce(bed_.ctx);
  EXPECT_EQ(Deletion("d1").phase, objects::DeletionPhase::kCompleted);
  EXPECT_EQ(Deletion("d2").phase, objects::DeletionPhase::kInProgress)
      << "the one that ended woke it";
}

// It does not lead, and is told once, when that is news.
TEST_F(DeletionReconcilerTest, WhatFailsIsToldToEachThatItIsAboutOnce) {
  AddTwo();
  FailAttempt("the bucket is asleep");
  EXPECT_EQ(Deletion("two").trouble, objects::DeletionTrouble::kFailed);
  EXPECT_THAT(Deletion("two").message, HasSubstr("the bucket is asleep"));
  FailAttempt("the bucket snores");
  EXPECT_EQ(Deletion("two").attempts, 1);
  EXPECT_THAT(EventsOf("one"), testing::ElementsAre("Failed"));
  Look(2);
  FinishWorker();
  EXPECT_EQ(Deletion("two").phase, objects::DeletionPhase::kCompleted);
  EXPECT_EQ(Deletion("two").trouble, objects::DeletionTrouble::kNone);
}

// A25: it became "waits for 2 other DataDeletions".
TEST_F(DeletionReconcilerTest, OneThatWaitsForAWorkerKeepsTheTextOfItsTrouble) {
  Start();
  FailWorker(objects::OutcomeCause::kNone, "the plug was pulled");
  for (int i = 0; i < kWorkers; ++i) {
    reference_.claim_uid = absl::StrCat("c", i);
    Add(absl::StrCat("d", i), reference_);
  }
  Look(2);
  bed_.clock.Advance(absl::Minutes(10));
  Look(3);
  EXPECT_THAT(bed_.api.All(PodType()), SizeIs(kWorkers));
  EXPECT_EQ(Deletion().phase, objects::DeletionPhase::kWaiting);
  EXPECT_THAT(Deletion().message, HasSubstr("the plug was pulled"));
}

TEST_F(DeletionReconcilerTest, WhatFailsForAWeekIsGivenUpAndCostsNothingUntilItIsRetried) {
  AddTwo();
  const absl::Time began = bed_.clock.Now();
  while (Deletion().phase != objects::DeletionPhase::kFailed) {
    FailAttempt("no key opens it");
    ASSERT_LT(bed_.clock.Now() - began, absl::Hours(170));
  }
  EXPECT_GE(bed_.clock.Now() - began, absl::Hours(168));
  EXPECT_THAT(Deletion().message, AllOf(HasSubstr("since 2023-11-"), HasSubstr("no key opens it"),
                                        HasSubstr("csi-delta deletions retry")));
  EXPECT_EQ(Deletion("two").phase, objects::DeletionPhase::kFailed);
  EXPECT_THAT(EventsOf("one"), testing::UnorderedElementsAre("Failed", "GivenUp"));
  ExpectNoWorkers();
  bed_.api.ClearCalls();
  bed_.clock.Advance(absl::Hours(1000));
  Look(3);
  EXPECT_THAT(bed_.api.calls(), IsEmpty());
  bed_.api.SetField({DataDeletionType(), "velero", "one"},
                    {"metadata", "annotations", objects::kRetryAnnotation}, "");
  Look(3);
  EXPECT_EQ(Deletion().phase, objects::DeletionPhase::kInProgress) << Deletion().message;
  EXPECT_EQ(k8s::Annotation(Object("one"), objects::kRetryAnnotation), "");
  EXPECT_FALSE(Object("one")["metadata"]["annotations"].contains(objects::kRetryAnnotation));
  FinishWorker();
  EXPECT_EQ(Deletion().phase, objects::DeletionPhase::kCompleted);
  EXPECT_EQ(Deletion("two").phase, objects::DeletionPhase::kFailed) << "it was not retried";
}

TEST_F(DeletionReconcilerTest, OneThatIsRetriedDoesNotWaitForTheOldest) {
  AddTwo();
  Look(2);
  FailWorker(objects::OutcomeCause::kNone, "asleep");
  ASSERT_EQ(Deletion("two").phase, objects::DeletionPhase::kWaiting);
  bed_.api.SetField({DataDeletionType(), "velero", "two"},
                    {"metadata", "annotations", objects::kRetryAnnotation}, "now");
  Look(3);
  EXPECT_EQ(Deletion("two").phase, objects::DeletionPhase::kInProgress);
  FinishWorker("two");
  EXPECT_EQ(Deletion("one").phase, objects::DeletionPhase::kCompleted) << "it was due, too";
}

TEST_F(DeletionReconcilerTest, WhatTheBucketRetainsIsNotGivenUpAndHoldsUpNoOther) {
  bed_.worker = MoverBed::Worker::kRuns;
  AddOf("one", 'a');
  const absl::Time began = bed_.clock.Now();
  while (bed_.clock.Now() - began < absl::Hours(400)) {
    Look(2);
    FailWorker(objects::OutcomeCause::kRetained, "the bucket keeps it");
    ASSERT_EQ(Deletion().phase, objects::DeletionPhase::kWaiting);
    AwaitNextAttempt();
  }
  Look(2);
  FailWorker(objects::OutcomeCause::kRetained, "the bucket keeps it");
  AddOf("two", 'b');
  Look(3);
  EXPECT_EQ(bed_.Job(TaskName("two")).work, objects::VolumeWork(Forgets({std::string(64, 'b')})));
}

// The service as it is, with informers and a clock: what the control plane pays.
class DeletionFiguresTest : public DeletionReconcilerTest {
 protected:
  explicit DeletionFiguresTest(int workers = 4)
      : many_(workers, bed_.clock,
              [this](const DeletionQueue::Name& name) {
                working_.Enqueue(name.namespace_name, name.name);
              }),
        deletions_(bed_.env, many_),
        working_(
            kWhich.type, deletions_, [] { return true; }, bed_.clock, 1, &bed_.cache),
        informed_(DeletionSubjects(many_), enqueue_table_, working_) {
    bed_.worker = MoverBed::Worker::kRuns;
    bed_.UseCache();
    bed_.cache.Add(many_informer_);
    many_informer_.Add(informed_);
    many_informer_.Add(working_);
  }

  void Seed(int repositories, int of_each) {
    for (int i = 0; i < repositories; ++i) {
      reference_.claim_uid = absl::StrCat("c", i);
      for (int j = 0; j < of_each; ++j) {
        reference_.snapshot_id = absl::StrCat(absl::Hex(j, absl::kZeroPad16), std::string(48, '0'));
        Add(absl::StrCat("d", i, "-", j), reference_);
      }
    }
    const std::vector<Json> all = bed_.api.All(DataDeletionType());
    many_informer_.OnAll(all);
    bed_.api.OnEvent("datadeletions",
                     [this](support::FakeApiClient&, const k8s::WatchEvent& event) {
                       many_informer_.OnEvent(event);
                     });
    bed_.api.ClearCalls();
  }
  void Work() {
    for (int i = 0; i < 3; ++i) {
      working_.WorkOnce(bed_.ctx);
      bed_.TellWatchers("volumetasks");
      bed_.TellWatchers("pods");
      for (const Json& task : bed_.api.All(objects::VolumeTask::Type())) {
        enqueue_table_.Enqueue(k8s::Name(task));
      }
    }
  }
  // Workers that take 20 s and 1 s for each repository snapshot, until there is nothing to do.
  void WorkToTheEnd() {
    std::map<std::string, absl::Time> ends;  // by task
    while (true) {
      Work();
      for (const Json& task : bed_.api.All(objects::VolumeTask::Type())) {
        const std::string name = k8s::Name(task);
        if (!ends.contains(name)) {
          const objects::VolumeJob job = bed_.Job(name);
          const auto items = std::get<objects::ForgetWork>(job.work).items.size();
          ends[name] = bed_.clock.Now() + absl::Seconds(20 + items);
        }
      }
      if (ends.empty()) {
        return;
      }
      const auto first =
          std::min_element(ends.begin(), ends.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
      bed_.clock.Advance(std::max(absl::ZeroDuration(), first->second - bed_.clock.Now()));
      bed_.Finish(first->first);
      ends.erase(first);
    }
  }

  const k8s::WatchedObjects kWhich = {
      .type = DataDeletionType(), .namespace_name = "velero", .label_selector = ""};
  DeletionQueue many_;
  DeletionReconciler deletions_;
  k8s::ReconcileLoop working_;
  SubjectEventHandler informed_;
  k8s::Informer many_informer_{kWhich};
};

// The figure is of 15,000 in 500 repositories: of a part, in that part of the two hours.
TEST_F(DeletionFiguresTest, ManyTakeTwoHoursOfFourWorkersAndFiveRequestsEach) {
  constexpr int kScale = support::kSanitizer == nullptr ? 5 : 25;
  constexpr int kRepositories = 500 / kScale;
  constexpr int kOfEach = 30;
  Seed(kRepositories, kOfEach);
  const absl::Time began = bed_.clock.Now();
  WorkToTheEnd();
  EXPECT_LE(bed_.clock.Now() - began, absl::Hours(2) / kScale);
  for (const Json& deletion : bed_.api.All(DataDeletionType())) {
    ASSERT_EQ(GetString(deletion, {"status", "phase"}), "Completed") << deletion.dump();
  }
  bed_.clock.Advance(kDeletionKeptFor);
  working_.WorkOnce(bed_.ctx);
  EXPECT_THAT(bed_.api.All(DataDeletionType()), IsEmpty());
  EXPECT_LE(bed_.api.calls().size(), 5U * kRepositories * kOfEach);
  RecordProperty(
      "requests_per_deletion",
      absl::StrCat(static_cast<double>(bed_.api.calls().size()) / (kRepositories * kOfEach)));
}

class IdleDeletionsTest : public DeletionFiguresTest {
 protected:
  IdleDeletionsTest() : DeletionFiguresTest(/*workers=*/1) {}
};

TEST_F(IdleDeletionsTest, ThreeHundredThatWaitAskNothing) {
  Seed(/*repositories=*/300, /*of_each=*/1);
  Work();
  Work();
  ASSERT_THAT(bed_.api.All(objects::VolumeTask::Type()), SizeIs(1));
  bed_.api.ClearCalls();
  for (int i = 0; i < 60; ++i) {
    bed_.clock.Advance(absl::Seconds(1));
    working_.WorkOnce(bed_.ctx);
  }
  EXPECT_THAT(bed_.api.calls(), IsEmpty());
}

TEST_F(DeletionReconcilerTest, AnUnknownReferenceFailsAtOnceAndTouchesNothing) {
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
  FailWorker(objects::OutcomeCause::kNoKey, "no key opens it");
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
    EXPECT_THAT(bed_.api.All(objects::VolumeTask::Type()), IsEmpty());
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
  EXPECT_THAT(bed_.api.All(DataDeletionType()), SizeIs(1));
  bed_.clock.Advance(absl::Minutes(1));
  Look();
  EXPECT_THAT(bed_.api.All(DataDeletionType()), IsEmpty());
}

TEST_F(DeletionReconcilerTest, OneThatIsWithdrawnLeavesNoTask) {
  Start();
  ASSERT_THAT(bed_.api.All(objects::VolumeTask::Type()), SizeIs(1));
  bed_.api.Remove({DataDeletionType(), "velero", "one"});
  Look(2);
  TaskReconciler tasks(bed_.env, enqueue_table_, [] { return true; });
  for (const Json& task : bed_.api.All(objects::VolumeTask::Type())) {
    EXPECT_THAT(tasks.Reconcile(bed_.ctx, task), IsOk());
  }
  ExpectNoWorkers();
}

// The task's final status comes first: the registered callback reads it, and finds no DataDeletion.
TEST_F(DeletionReconcilerTest, OneThatGoesAsItsTaskEndsLeavesNoTaskEither) {
  bed_.worker = MoverBed::Worker::kRuns;
  k8s::ReconcileLoop* of_tasks = nullptr;
  EnqueueTable enqueue_table([&of_tasks](const std::string& task_name) {
    of_tasks->Enqueue(MoverBed::kMover, task_name);
  });
  SubjectEventHandler handler(DeletionSubjects(queue_), enqueue_table, loop_);
  k8s::Informer informer({.type = DataDeletionType()}, {&handler, &loop_});
  TaskReconciler reconciler(bed_.env, enqueue_table, [] { return true; });
  k8s::ReconcileLoop tasks(
      objects::VolumeTask::Type(), reconciler, [] { return true; }, bed_.clock);
  of_tasks = &tasks;
  Add("one", reference_);
  for (int i = 0; i < 2; ++i) {
    support::ReportAll(informer, bed_.api.All(DataDeletionType()));
    loop_.WorkOnce(bed_.ctx);
  }
  const Json deletion = Object("one");
  bed_.Finish(TaskName());

  bed_.api.Remove({DataDeletionType(), "velero", "one"});
  k8s::Informer({.type = objects::VolumeTask::Type()}, {&tasks})
      .OnAll(bed_.api.All(objects::VolumeTask::Type()));
  tasks.WorkOnce(bed_.ctx);
  loop_.WorkOnce(bed_.ctx);
  ASSERT_THAT(bed_.api.All(objects::VolumeTask::Type()), SizeIs(1))
      << "left to the registered callback";
  informer.OnEvent({k8s::WatchEvent::Kind::kDeleted, deletion});
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
    bed_.api.Remove({DataDeletionType(), "velero", name});
    ASSERT_LT(call, 100);
  }
}

TEST(DataDeletionSchema, KnowsEveryFieldThatIsWritten) {
  const auto crd = ParseYaml(support::ReadSource("deploy/chart/crds/datadeletion.yaml"));
  ASSERT_THAT(crd, IsOk());
  const Json properties =
      crd->at("spec").at("versions").at(0).at("schema").at("openAPIV3Schema").at("properties");
  const Json written = objects::Patch().SetStatus(objects::DataDeletionStatus()).json()["status"];
  for (const auto& [name, value] : written.items()) {
    EXPECT_TRUE(properties.at("status").at("properties").contains(name)) << name;
  }
  EXPECT_EQ(properties.at("status").at("properties").size(), written.size());
}

}  // namespace
}  // namespace csidelta::datamover::deletion_reconciler_test
