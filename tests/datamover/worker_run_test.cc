#include "datamover/worker/worker_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/rfc3339.h"
#include "datamover/node_slots.h"
#include "datamover/write_fence.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/datamover/mover_bed.h"
#include "tests/support/kind_names.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

namespace csidelta::datamover::worker_run_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using testing::AllOf;
using testing::HasSubstr;
using State = WorkerView::State;

constexpr char kTaskName[] = "du-7";

class WorkerRunTest : public testing::Test {
 protected:
  explicit WorkerRunTest(objects::TaskKind kind = objects::TaskKind::kUpload) {
    bed_.worker = MoverBed::Worker::kRuns;
    const objects::VolumeTaskSpec spec{.kind = kind,
                                       .subject = {"DataUpload", "velero", "nightly", "7"},
                                       .volume = {"shop", "data", "claim-uid"}};
    EXPECT_THAT(run_.EnsureTask(bed_.ctx, spec, {}), IsOk());
    EXPECT_THAT(run_.EnsureTask(bed_.ctx, spec, {}), IsOk());
  }

  WorkerView Step() {
    // What is run here is another process, each time.
    WorkerRun run(bed_.env, kTaskName);
    const auto view = run.Step(
        bed_.ctx, [this](const objects::VolumeTask&) -> absl::StatusOr<WorkerRun::NextPod> {
          ++made_;
          return WorkerRun::NextPod{
              .pod = support::As<objects::Pod>(
                  {{"apiVersion", "v1"},
                   {"kind", "Pod"},
                   {"metadata",
                    {{"name", kTaskName},
                     {"namespace", "mover"},
                     {"labels", {{objects::kMoverTaskLabel, kTaskName}}},
                     {"annotations", {{objects::kRepositoryAnnotation, "r"}}}}}}),
              .waiting_for = waiting_for_};
        });
    EXPECT_THAT(view, IsOk());
    return view.ok() ? *view : WorkerView();
  }
  // Steps until a Pod runs or it is over; time passes as it must.
  WorkerView StepOn() {
    WorkerView view = Step();
    for (int i = 0; i < 10 && view.state == State::kStarting; ++i) {
      bed_.clock.Advance(absl::Seconds(30));
      view = Step();
    }
    return view;
  }
  absl::StatusOr<bool> HasSurelyEnded() {
    return run_.HasSurelyEnded(bed_.ctx, support::As<objects::VolumeTask>(*bed_.api.Find(
                                             objects::VolumeTask::Key("mover", kTaskName))));
  }
  void EndPod(const Json& status) { bed_.SetPodStatus(kTaskName, status); }
  void RemovePod() { bed_.api.Remove({PodType(), "mover", kTaskName}); }
  bool HasPod() { return bed_.api.Find({PodType(), "mover", kTaskName}).has_value(); }

  MoverBed bed_;
  WorkerRun run_{bed_.env, kTaskName};
  std::string waiting_for_;
  int made_ = 0;
};

TEST_F(WorkerRunTest, MakesOnePodAndSeesItRun) {
  EXPECT_EQ(Step().attempts, 1);
  for (int i = 0; i < 3; ++i) {
    const WorkerView view = Step();
    EXPECT_EQ(view.state, State::kRunning);
    EXPECT_EQ(view.status.phase, objects::TaskPhase::kRunning);
    EXPECT_EQ(view.node, "node-1");
  }
  EXPECT_EQ(made_, 1);
}

TEST_F(WorkerRunTest, WhatIsWaitedForIsSaid) {
  waiting_for_ = "the claim to be filled";
  const WorkerView view = Step();
  EXPECT_EQ(view.state, State::kStarting);
  EXPECT_EQ(view.message, "the claim to be filled");
  EXPECT_FALSE(HasPod());
}

TEST_F(WorkerRunTest, AnEvictedPodHasASuccessorAfterAPause) {
  StepOn();
  EndPod({{"phase", "Failed"}, {"reason", "Evicted"}, {"message", "low on memory"}});
  WorkerView view = Step();
  EXPECT_EQ(view.state, State::kStarting);
  EXPECT_THAT(view.message, AllOf(HasSubstr("Evicted"), HasSubstr("low on memory")));
  EXPECT_EQ(view.attempt_since, bed_.clock.Now() + kWorkerAgainFirst);
  Step();  // The old one goes.
  EXPECT_FALSE(HasPod());
  Step();
  EXPECT_FALSE(HasPod()) << "not before the pause is over";
  bed_.clock.Advance(kWorkerAgainFirst);
  Step();
  view = Step();
  EXPECT_EQ(view.state, State::kRunning);
  EXPECT_EQ(view.attempts, 2);
}

TEST_F(WorkerRunTest, AllHaveSurelyEndedOnceTheEndOfEachWasSeen) {
  EXPECT_THAT(HasSurelyEnded(), IsOkAndHolds(true));
  StepOn();
  EXPECT_THAT(HasSurelyEnded(), IsOkAndHolds(false));
  bed_.EndContainer(kTaskName, 137);
  EXPECT_THAT(HasSurelyEnded(), IsOkAndHolds(true));
  Step();
  Step();  // It is gone, and the next one is not there yet.
  EXPECT_THAT(HasSurelyEnded(), IsOkAndHolds(true));
  StepOn();
  EXPECT_THAT(HasSurelyEnded(), IsOkAndHolds(false));
  RemovePod();  // By force.
  EXPECT_THAT(HasSurelyEnded(), IsOkAndHolds(false));
  StepOn();
  bed_.EndContainer(kTaskName, 137);
  EXPECT_THAT(HasSurelyEnded(), IsOkAndHolds(false)) << "the second may run on";
}

class RestoreRunTest : public WorkerRunTest {
 protected:
  RestoreRunTest() : WorkerRunTest(objects::TaskKind::kDownload) {}
};

// It may write on, on an unreachable node, for as long as a worker goes on without its task.
TEST_F(RestoreRunTest, AfterALostPodTheNextOneWaitsUntilThatWritesNoMore) {
  ASSERT_EQ(StepOn().state, State::kRunning);
  RemovePod();  // By force.
  const absl::Time lost_at = bed_.clock.Now();
  const WorkerView view = Step();
  EXPECT_GE(view.attempt_since, lost_at + 2 * kWriteFenceAfter);
  EXPECT_THAT(view.message, HasSubstr("surely writes no more"));
  bed_.clock.Advance(2 * kWriteFenceAfter - absl::Seconds(1));
  Step();
  EXPECT_FALSE(HasPod());
  bed_.clock.Advance(absl::Seconds(1));
  EXPECT_EQ(StepOn().state, State::kRunning);
}

TEST_F(RestoreRunTest, AfterAPodThatSurelyEndedTheNextOneComesSoon) {
  ASSERT_EQ(StepOn().state, State::kRunning);
  bed_.EndContainer(kTaskName, 137);
  EXPECT_EQ(Step().attempt_since, bed_.clock.Now() + kWorkerAgainFirst);
}

TEST_F(WorkerRunTest, AfterFiveLostPodsItHasFailed) {
  for (int i = 1; i < kLostPodsMax; ++i) {
    ASSERT_EQ(StepOn().state, State::kRunning) << i;
    if (i % 2 == 0) {
      RemovePod();
    } else {
      EndPod({{"phase", "Failed"}});
    }
    EXPECT_EQ(Step().state, State::kStarting);
  }
  ASSERT_EQ(StepOn().state, State::kRunning);
  EndPod({{"phase", "Failed"},
          {"containerStatuses",
           Json::array(
               {{{"state", {{"terminated", {{"reason", "OOMKilled"}, {"exitCode", 137}}}}}}})}});
  const WorkerView view = Step();
  EXPECT_EQ(view.state, State::kEnded);
  EXPECT_EQ(view.status.phase, objects::TaskPhase::kFailed);
  EXPECT_THAT(MessageOf(view.status),
              AllOf(HasSubstr("5 times"), HasSubstr("OOMKilled"), HasSubstr("limits.memory")));
  EXPECT_EQ(made_, kLostPodsMax);
}

TEST_F(WorkerRunTest, PodsThatAreTakenAwayAfterProgressDoNotCount) {
  for (int i = 1; i <= 3 * kLostPodsMax; ++i) {
    ASSERT_EQ(StepOn().state, State::kRunning) << i;
    bed_.SetTaskStatus(kTaskName, {{"phase", "Running"},
                                   {"stage", "transfer"},
                                   {"doneBytes", i << 20},
                                   {"totalBytes", MoverBed::kClaimBytes}});
    RemovePod();  // With its node.
    const WorkerView view = Step();
    EXPECT_EQ(view.state, State::kStarting);
    EXPECT_EQ(view.pods_lost, i);
    EXPECT_EQ(view.attempt_since, bed_.clock.Now() + kWorkerAgainFirst);
    EXPECT_THAT(view.message,
                HasSubstr(absl::StrCat("Pod ", i, " was lost, 0 of at most 5 that count")));
  }
}

// A descheduler takes them away before and after their workers begin.
TEST_F(WorkerRunTest, PodsThatAreEvictedBeforeTheyBeginHaveSuccessorsWithinSecondsAndDoNotCount) {
  for (int i = 1; i <= 4 * kLostPodsMax; ++i) {
    bed_.worker = i % 2 == 0 ? MoverBed::Worker::kRuns : MoverBed::Worker::kPending;
    for (int seconds = 0; seconds <= 5 && !HasPod(); ++seconds) {
      Step();
      bed_.clock.Advance(absl::Seconds(1));
    }
    ASSERT_TRUE(HasPod()) << i;
    ASSERT_EQ(Step().attempts, i);
    if (i % 2 == 0) {
      bed_.SetTaskStatus(kTaskName, {{"phase", "Running"},
                                     {"stage", "transfer"},
                                     {"doneBytes", i << 20},
                                     {"totalBytes", MoverBed::kClaimBytes},
                                     {"heartbeatTimestamp", FormatRfc3339(bed_.clock.Now())}});
    }
    RemovePod();
    ASSERT_EQ(Step().state, State::kStarting) << i;
  }
}

// One that a kubelet refuses or ends would end like this each time.
TEST_F(WorkerRunTest, APodThatFailsBeforeItsWorkerBeginsCounts) {
  bed_.worker = MoverBed::Worker::kPending;
  for (int i = 1; i <= kLostPodsMax; ++i) {
    StepOn();
    ASSERT_TRUE(HasPod()) << i;
    EndPod({{"phase", "Failed"}, {"reason", "NodeAffinity"}});
    EXPECT_EQ(Step().state, i < kLostPodsMax ? State::kStarting : State::kEnded);
  }
}

// It reads up to the same position each time, and is killed there.
TEST_F(WorkerRunTest, ACrashLoopEndsAfterFivePodsWhateverItReadsAgain) {
  for (int i = 1; i <= kLostPodsMax; ++i) {
    ASSERT_EQ(StepOn().state, State::kRunning) << i;
    bed_.SetTaskStatus(kTaskName, {{"phase", "Running"},
                                   {"stage", "transfer"},
                                   {"doneBytes", (4 << 20) + i},
                                   {"totalBytes", MoverBed::kClaimBytes}});
    EndPod({{"phase", "Failed"}, {"reason", "Evicted"}, {"message", "emptyDir over its limit"}});
    ASSERT_EQ(Step().state, State::kStarting);
  }
  // The first one counted as progress.
  ASSERT_EQ(StepOn().state, State::kRunning);
  EndPod({{"phase", "Failed"}, {"reason", "Evicted"}, {"message", "emptyDir over its limit"}});
  const WorkerView view = Step();
  EXPECT_EQ(view.state, State::kEnded);
  EXPECT_THAT(MessageOf(view.status),
              AllOf(HasSubstr("6 times, 5 of which count"), HasSubstr("emptyDir")));
}

TEST_F(WorkerRunTest, AnInterruptedWorkerHasASuccessor) {
  StepOn();
  bed_.SetTaskStatus(kTaskName,
                     {{"phase", "Interrupted"},
                      {"outcome", {{"code", "Stopped"}, {"message", "the node is drained"}}}});
  EXPECT_EQ(Step().state, State::kRunning) << "its Pod has not ended yet";
  EndPod({{"phase", "Succeeded"}});
  EXPECT_THAT(Step().message, HasSubstr("the node is drained"));
  EXPECT_EQ(StepOn().attempts, 2);
}

TEST_F(WorkerRunTest, ALastPhaseIsTheEndWhateverThePodDoes) {
  StepOn();
  bed_.Finish(kTaskName);
  EXPECT_EQ(Step().state, State::kEnded);
  RemovePod();
  const WorkerView view = Step();
  EXPECT_EQ(view.state, State::kEnded);
  EXPECT_EQ(view.status.phase, objects::TaskPhase::kSucceeded);
  EXPECT_EQ(made_, 1);
}

TEST_F(WorkerRunTest, ASilentWorkerIsDead) {
  StepOn();
  bed_.clock.Advance(kWorkerSilenceMax - absl::Minutes(1));
  bed_.SetTaskStatus(
      kTaskName, {{"phase", "Running"}, {"heartbeatTimestamp", FormatRfc3339(bed_.clock.Now())}});
  bed_.clock.Advance(kWorkerSilenceMax - absl::Minutes(1));
  Step();
  EXPECT_TRUE(HasPod());
  bed_.clock.Advance(absl::Minutes(1));
  Step();
  EXPECT_FALSE(HasPod());
  EXPECT_EQ(StepOn().attempts, 2);
}

TEST_F(WorkerRunTest, AWorkerThatOnlyWaitsForANodeIsKnown) {
  bed_.env.settings.transfers_per_node_max = 1;
  bed_.worker = MoverBed::Worker::kPending;
  Step();
  EXPECT_FALSE(Step().waits_for_node);
  EXPECT_EQ(k8s::Label(*bed_.api.Find({PodType(), "mover", kTaskName}), objects::kSlotLabel), "0");
  bed_.TakeRoomOf(kTaskName);
  EXPECT_TRUE(Step().waits_for_node);
  EXPECT_FALSE(Step().is_unschedulable);
  bed_.SetUnschedulable(kTaskName, "0/1 nodes are available: 1 Insufficient cpu.");
  EXPECT_FALSE(Step().waits_for_node);
  EXPECT_TRUE(Step().is_unschedulable);
}

// What a volume cannot be mounted for is in the Events of the Pod alone.
TEST_F(WorkerRunTest, AScheduledPodThatDoesNotRunSaysWhatItsNewestWarningSays) {
  bed_.worker = MoverBed::Worker::kPending;
  Step();
  bed_.FailToMount(kTaskName, "mount failed: exit status 32");
  bed_.clock.Advance(absl::Seconds(29));
  EXPECT_EQ(Step().message, "ContainerCreating");
  bed_.clock.Advance(absl::Seconds(1));
  const WorkerView view = Step();
  EXPECT_EQ(view.message, "FailedMapVolume: mount failed: exit status 32");
  EXPECT_FALSE(view.is_usual) << "it is shown at once";
  EXPECT_LE(view.requeue_time, bed_.clock.Now() + absl::Seconds(10)) << "no watch tells of Events";
  bed_.api.Forbid("list", "events");
  EXPECT_EQ(Step().message, "ContainerCreating");
}

TEST_F(WorkerRunTest, IsStoppedByTheTaskAndByThePod) {
  StepOn();
  bed_.api.Mutate({PodType(), "mover", kTaskName},
                  [](Json& pod) { pod["metadata"]["finalizers"] = {"test/kubelet"}; });
  EXPECT_THAT(run_.Stop(bed_.ctx), IsOkAndHolds(false));
  EXPECT_TRUE(
      GetBool(*bed_.api.Find(objects::VolumeTask::Key("mover", kTaskName)), {"spec", "cancel"}));
  EXPECT_TRUE(k8s::BeingDeleted(*bed_.api.Find({PodType(), "mover", kTaskName})));
  EndPod({{"phase", "Succeeded"}});
  EXPECT_THAT(run_.Stop(bed_.ctx), IsOkAndHolds(true));
}

TEST(PodMessageTest, IsTheMostSpecificOne) {
  const auto words = [](const Json& status) {
    return PodMessage(support::As<objects::Pod>({{"status", status}}));
  };
  EXPECT_EQ(words({{"phase", "Running"}}), "");
  EXPECT_THAT(words({{"phase", "Pending"},
                     {"conditions", Json::array({{{"type", "PodScheduled"},
                                                  {"status", "False"},
                                                  {"reason", "Unschedulable"},
                                                  {"message", "0/3 nodes are available"}}})}}),
              "Unschedulable: 0/3 nodes are available");
  EXPECT_THAT(words({{"phase", "Pending"},
                     {"containerStatuses", Json::array({{{"state",
                                                          {{"waiting",
                                                            {{"reason", "ImagePullBackOff"},
                                                             {"message", "no such image"}}}}}}})}}),
              "ImagePullBackOff: no such image");
  EXPECT_THAT(
      words({{"phase", "Failed"},
             {"containerStatuses",
              Json::array(
                  {{{"state", {{"terminated", {{"reason", "Error"}, {"exitCode", 134}}}}}}})}}),
      "Error with exit code 134");
}

// --- With a cache, whose informers are late or early

class CachedWorkerRunTest : public WorkerRunTest {
 protected:
  CachedWorkerRunTest() { bed_.UseCache(); }

  int Gets(const std::string& plural) {
    const int gets = bed_.api.CallCount("get", plural);
    bed_.api.ClearCalls();
    return gets;
  }
};

TEST_F(CachedWorkerRunTest, APodThatRunsIsSeenWithoutARequest) {
  Step();
  bed_.TellWatchers();
  bed_.api.ClearCalls();
  const WorkerView view = Step();
  EXPECT_EQ(view.state, State::kRunning);
  EXPECT_EQ(view.status.done_bytes, 1 << 20);
  EXPECT_TRUE(bed_.api.calls().empty());
}

TEST_F(CachedWorkerRunTest, TheFirstPodIsMadeWithoutARead) {
  bed_.api.ClearCalls();
  EXPECT_EQ(Step().attempts, 1);
  EXPECT_EQ(Gets("pods"), 0);
  EXPECT_TRUE(HasPod());
}

// Made by a controller that died before it counted it, a moment ago.
TEST_F(CachedWorkerRunTest, APodThatTheInformerHasNotDeliveredIsFoundByTheCreate) {
  Step();
  bed_.api.Mutate(objects::VolumeTask::Key("mover", kTaskName), [](Json& task) {
    task["metadata"].erase("annotations");
    task.erase("status");
  });
  Json pod = *bed_.api.Find({PodType(), "mover", kTaskName});
  RemovePod();
  bed_.TellWatchers();
  bed_.api.Seed(PodType(), pod);
  EXPECT_EQ(Step().state, State::kStarting);
  const WorkerView view = Step();
  EXPECT_EQ(view.state, State::kRunning);
  EXPECT_EQ(view.attempts, 1);
  EXPECT_EQ(view.pods_lost, 0);
}

TEST_F(CachedWorkerRunTest, ACountedPodIsLostOnlyIfTheApiServerSaysSo) {
  Step();
  const Json pod = *bed_.api.Find({PodType(), "mover", kTaskName});
  RemovePod();
  bed_.TellWatchers();
  bed_.api.Seed(PodType(), pod);
  const WorkerView view = Step();
  EXPECT_EQ(view.state, State::kRunning);
  EXPECT_EQ(view.pods_lost, 0);
  bed_.TellWatchers("pods");
  RemovePod();
  EXPECT_EQ(Step().pods_lost, 0) << "as of a moment ago";
  bed_.TellWatchers("pods");
  EXPECT_EQ(Step().pods_lost, 1);
}

TEST_F(CachedWorkerRunTest, WhatAPodWroteBeforeItsEndIsReadAfterThatWasSeen) {
  Step();
  bed_.TellWatchers();
  bed_.Finish(kTaskName);
  bed_.TellWatchers("pods");
  WorkerView view = Step();
  EXPECT_EQ(view.state, State::kEnded);
  EXPECT_EQ(view.status.phase, objects::TaskPhase::kSucceeded);
  EXPECT_EQ(view.attempts, 1);
}

TEST_F(CachedWorkerRunTest, TheLastPhaseNeedsNoMoreReads) {
  Step();
  bed_.Finish(kTaskName);
  bed_.TellWatchers();
  bed_.api.ClearCalls();
  EXPECT_EQ(Step().state, State::kEnded);
  EXPECT_TRUE(bed_.api.calls().empty());
}

TEST_F(CachedWorkerRunTest, BeforeASecondPodTheTaskIsReadAgain) {
  StepOn();
  EndPod({{"phase", "Failed"}, {"reason", "Evicted"}});
  bed_.TellWatchers();
  Step();  // It is lost.
  Step();  // It goes.
  bed_.TellWatchers();
  bed_.clock.Advance(kWorkerAgainFirst);
  // The lost one was done after all, as it was not reported yet.
  bed_.SetTaskStatus(kTaskName, {{"phase", "Succeeded"}});
  EXPECT_EQ(Step().state, State::kEnded);
  EXPECT_FALSE(HasPod());
}

}  // namespace
}  // namespace csidelta::datamover::worker_run_test
