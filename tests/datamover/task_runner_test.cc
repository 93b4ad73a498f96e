#include "datamover/worker/task_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <stop_token>

#include "objects/client.h"
#include "objects/keys.h"
#include "objects/patch.h"
#include "tests/support/await.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"
#include "tests/support/volume_jobs.h"

namespace csidelta::datamover::task_runner_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using support::StatusIs;
using testing::HasSubstr;

const absl::Status kAway = absl::UnavailableError("connection refused");

objects::VolumeTaskStatus StatusOf(const support::FakeApiClient& api, const k8s::ObjectKey& task) {
  return support::As<objects::VolumeTask>(api.Find(task).value_or(Json::object())).status();
}

objects::Outcome Done(const std::string& snapshot_id = "") {
  return {.code = objects::OutcomeCode::kDone,
          .backup = objects::BackupFigures{.snapshot_id = snapshot_id}};
}

// Waits until it is stopped, as a long transfer does.
objects::Outcome UntilStopped(const CallContext& ctx, const objects::VolumeJob& /*job*/,
                              const TaskProgress& /*progress*/) {
  Clock::Real().SleepUntil(absl::InfiniteFuture(), ctx.stop);
  return {.code = objects::OutcomeCode::kStopped, .message = "interrupted"};
}

class TaskRunnerTest : public testing::Test {
 protected:
  TaskRunnerTest() : api_(clock_) {
    clock_.SetAutoAdvance(true);
    api_.SetStatusSubresource("volumetasks", true);
    task_ = {.type = objects::VolumeTask::Type(), .namespace_name = "mover", .name = "du-1"};
    api_.Seed(objects::VolumeTask::Type(), support::TaskWithJob("du-1"));
  }

  CallContext Context(std::stop_token stop = {}) const {
    CallContext ctx;
    ctx.clock = &clock_;
    ctx.stop = std::move(stop);
    return ctx;
  }
  absl::StatusOr<objects::TaskPhase> Run(const RunWork& run, std::stop_token stop = {}) {
    return RunTask(Context(std::move(stop)), api_, task_, "node-a", run);
  }
  objects::VolumeTaskStatus Status() const { return StatusOf(api_, task_); }
  void Cancel() { api_.SetField(task_, {"spec", "cancel"}, true); }

  support::FakeClock clock_;
  support::FakeApiClient api_;
  k8s::ObjectKey task_;
};

TEST_F(TaskRunnerTest, SaysHowItEnded) {
  EXPECT_THAT(Run([](const CallContext&, const objects::VolumeJob&, const TaskProgress& progress) {
                progress({"transfer", 5, 7});
                return Done("abc");
              }),
              IsOkAndHolds(objects::TaskPhase::kSucceeded));
  const objects::VolumeTaskStatus status = Status();
  EXPECT_EQ(status.phase, objects::TaskPhase::kSucceeded);
  EXPECT_EQ(status.stage, "transfer");
  EXPECT_EQ(status.done_bytes, 5);
  EXPECT_EQ(status.total_bytes, 7);
  EXPECT_EQ(status.outcome, Done("abc"));
  EXPECT_EQ(status.node, "node-a");
  EXPECT_TRUE(status.started_at.has_value());
  EXPECT_TRUE(status.completed_at.has_value());
}

// The controller gives to others what a worker reports that it does not use any more.
TEST_F(TaskRunnerTest, RatesOfTheTaskCountWhileItRuns) {
  const auto set_upload = [&](int64_t kib) {
    const objects::Patch rates = objects::Patch().SetJobRates({.upload = kib});
    EXPECT_THAT(objects::Apply(Context(), api_, task_, rates), IsOk());
  };
  set_upload(5);
  std::set<int64_t> set;
  const auto await_reported = [&] {
    support::Await("the newest rates to be reported", [&] {
      return Status().observed_generation == GetInt(*api_.Find(task_), {"metadata", "generation"});
    });
  };
  EXPECT_THAT(
      RunTask(Context(), api_, task_, "node-a",
              [&](const CallContext&, const objects::VolumeJob&, const TaskProgress&) {
                await_reported();
                set_upload(-1);
                set_upload(7);
                await_reported();
                return Done();
              },
              {.set_rates = [&](const objects::JobRates& rates) { set.insert(rates.upload); }}),
      IsOkAndHolds(objects::TaskPhase::kSucceeded));
  EXPECT_THAT(set, testing::ElementsAre(5, 7));
}

TEST_F(TaskRunnerTest, AFailureKeepsItsSentence) {
  EXPECT_THAT(Run([](const CallContext&, const objects::VolumeJob&, const TaskProgress&) {
                return objects::Outcome{.code = objects::OutcomeCode::kFailed,
                                        .cause = objects::OutcomeCause::kNoKey,
                                        .message = "no key opens it"};
              }),
              IsOkAndHolds(objects::TaskPhase::kFailed));
  EXPECT_EQ(CauseOf(Status()), objects::OutcomeCause::kNoKey);
  EXPECT_EQ(MessageOf(Status()), "no key opens it");
}

TEST_F(TaskRunnerTest, AWishToCancelEndsIt) {
  EXPECT_THAT(
      Run([&](const CallContext& ctx, const objects::VolumeJob& job, const TaskProgress& progress) {
        Cancel();
        return UntilStopped(ctx, job, progress);
      }),
      IsOkAndHolds(objects::TaskPhase::kCanceled));
  EXPECT_EQ(Status().phase, objects::TaskPhase::kCanceled);
}

TEST_F(TaskRunnerTest, APodThatHasToEndIsNoCancel) {
  std::stop_source pod;
  EXPECT_THAT(
      Run(
          [&](const CallContext& ctx, const objects::VolumeJob& job, const TaskProgress& progress) {
            pod.request_stop();
            return UntilStopped(ctx, job, progress);
          },
          pod.get_token()),
      IsOkAndHolds(objects::TaskPhase::kInterrupted));
  EXPECT_EQ(Status().phase, objects::TaskPhase::kInterrupted);
}

// The controller asks to cancel, and deletes the Pod at once.
TEST_F(TaskRunnerTest, OfCancelAndEndOfThePodCancelCounts) {
  std::stop_source pod;
  api_.Forbid("watch", "volumetasks");
  EXPECT_THAT(
      Run(
          [&](const CallContext& ctx, const objects::VolumeJob& job, const TaskProgress& progress) {
            pod.request_stop();
            const objects::Outcome end = UntilStopped(ctx, job, progress);
            Cancel();
            return end;
          },
          pod.get_token()),
      IsOkAndHolds(objects::TaskPhase::kCanceled));
}

TEST_F(TaskRunnerTest, WhatWasDoneIsNotDoneAgain) {
  for (const char* phase : {"Succeeded", "Failed", "Canceled"}) {
    api_.SetField(task_, {"status", "phase"}, phase);
    const auto ended = Run(
        [](const CallContext&, const objects::VolumeJob&, const TaskProgress&) -> objects::Outcome {
          ADD_FAILURE() << "it ran again";
          return Done();
        });
    ASSERT_THAT(ended, IsOk());
    EXPECT_EQ(ToString(*ended), phase);
  }
}

TEST_F(TaskRunnerTest, AnInterruptedOneRunsAgainAndForgetsTheEndBefore) {
  const Json before = {{"phase", "Interrupted"},
                       {"outcome", {{"code", "Stopped"}, {"message", "interrupted"}}},
                       {"startTimestamp", "2026-01-01T00:00:00Z"}};
  api_.SetField(task_, {"status"}, before);
  EXPECT_THAT(Run([](const CallContext&, const objects::VolumeJob&, const TaskProgress&) {
                return Done();
              }),
              IsOkAndHolds(objects::TaskPhase::kSucceeded));
  EXPECT_EQ(MessageOf(Status()), "");
  EXPECT_EQ(absl::FormatTime(absl::RFC3339_sec, *Status().started_at, absl::UTCTimeZone()),
            "2026-01-01T00:00:00+00:00");
}

TEST_F(TaskRunnerTest, OneThatIsCancelledBeforeItBeginsDoesNotBegin) {
  Cancel();
  EXPECT_THAT(Run([](const CallContext&, const objects::VolumeJob&,
                     const TaskProgress&) -> objects::Outcome {
                ADD_FAILURE() << "it ran";
                return Done();
              }),
              IsOkAndHolds(objects::TaskPhase::kCanceled));
}

TEST_F(TaskRunnerTest, ATaskThatIsNotThereIsNotRun) {
  api_.Remove(task_);
  EXPECT_THAT(Run([](const CallContext&, const objects::VolumeJob&,
                     const TaskProgress&) -> objects::Outcome {
                ADD_FAILURE() << "it ran";
                return Done();
              }),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("du-1")));
}

TEST_F(TaskRunnerTest, ATaskThatIsDeletedEndsTheVerb) {
  EXPECT_THAT(
      Run([&](const CallContext& ctx, const objects::VolumeJob& job, const TaskProgress& progress) {
        api_.Remove(task_);
        return UntilStopped(ctx, job, progress);
      }),
      IsOkAndHolds(objects::TaskPhase::kNone));
}

TEST_F(TaskRunnerTest, TheVerbGoesOnWhileTheServerIsAwayAndItsEndIsRetried) {
  EXPECT_THAT(Run([&](const CallContext&, const objects::VolumeJob&, const TaskProgress&) {
                api_.FailNext("patch", "volumetasks", kAway, 40);
                return Done();
              }),
              IsOkAndHolds(objects::TaskPhase::kSucceeded));
  EXPECT_EQ(Status().phase, objects::TaskPhase::kSucceeded);
}

TEST_F(TaskRunnerTest, RetryingHasAnEnd) {
  const absl::Time begun = clock_.Now();
  EXPECT_THAT(Run([&](const CallContext&, const objects::VolumeJob&, const TaskProgress&) {
                api_.FailNext("patch", "volumetasks", kAway, 100'000);
                return Done();
              }),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_GE(clock_.Now() - begun, kFinalStatusTimeMax - absl::Seconds(5));
}

// A request that was given up may be carried out all the same, when the final status is written.
TEST_F(TaskRunnerTest, ALatePatchOfTheReporterIsRefused) {
  Json held;
  std::atomic<bool> is_held = false;
  api_.SetInterceptor([&](const support::ApiCall& call, const Json* body) {
    if (call.verb == "patch" && !is_held) {
      held = *body;
      is_held = true;
      return absl::DeadlineExceededError("no answer");
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(Run([&](const CallContext&, const objects::VolumeJob&, const TaskProgress&) {
                while (!is_held) {
                  clock_.Advance(absl::Seconds(1));
                }
                return Done("abc");
              }),
              IsOkAndHolds(objects::TaskPhase::kSucceeded));
  ASSERT_EQ(GetString(held, {"status", "phase"}), "Running");
  EXPECT_THAT(api_.Patch(Context(), task_, k8s::PatchKind::kMerge, held, "status").status(),
              StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(Status().phase, objects::TaskPhase::kSucceeded);
  EXPECT_EQ(Status().outcome, Done("abc"));
}

// The controller lost sight of it, and another one is at it.
TEST_F(TaskRunnerTest, APodThatWasReplacedStopsAndSaysNothing) {
  const auto name_pod = [this](const char* uid) {
    api_.SetField(task_, {"metadata", "annotations", objects::kTaskPodAnnotation}, uid);
  };
  name_pod("one");
  WriteFence fence(clock_);
  EXPECT_THAT(fence.Await(Context()), IsOk());
  EXPECT_THAT(RunTask(Context(), api_, task_, "node-a",
                      [&](const CallContext& ctx, const objects::VolumeJob& job,
                          const TaskProgress& progress) {
                        name_pod("two");
                        return UntilStopped(ctx, job, progress);
                      },
                      {.uid = "one", .fence = &fence}),
              IsOkAndHolds(objects::TaskPhase::kNone));
  EXPECT_EQ(Status().outcome, std::nullopt);
  EXPECT_THAT(fence.Await(Context()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another Pod")));
}

TEST_F(TaskRunnerTest, APodThatWasGivenUpUnseenDoesNotBegin) {
  api_.SetField(task_, {"metadata", "annotations", objects::kUnseenEndAnnotation}, "one");
  EXPECT_THAT(RunTask(Context(), api_, task_, "node-a",
                      [](const CallContext&, const objects::VolumeJob&,
                         const TaskProgress&) -> objects::Outcome {
                        ADD_FAILURE() << "it ran";
                        return Done();
                      },
                      {.uid = "one"}),
              IsOkAndHolds(objects::TaskPhase::kNone));
  EXPECT_EQ(api_.CallCount("patch", "volumetasks"), 0);
}

class WriteFenceTest : public testing::Test {
 protected:
  // Whether writing is allowed now, without a wait.
  bool IsOpen() {
    CallContext ctx;
    ctx.clock = &clock_;
    std::stop_source stopped;
    stopped.request_stop();
    ctx.stop = stopped.get_token();
    return fence_.Await(ctx).ok();
  }

  support::FakeClock clock_;
  WriteFence fence_{clock_};
};

TEST_F(WriteFenceTest, WritesPauseWithoutWordOfTheTaskAndGoOnWithIt) {
  EXPECT_TRUE(IsOpen());
  clock_.Advance(kWriteFenceAfter - absl::Seconds(1));
  EXPECT_TRUE(IsOpen());
  const WriteFence::Moment asked = fence_.Now();
  clock_.Advance(absl::Seconds(1));
  EXPECT_FALSE(IsOpen());
  fence_.Renew(asked);
  EXPECT_TRUE(IsOpen());
  clock_.Advance(kWriteFenceAfter - absl::Seconds(1));
  EXPECT_FALSE(IsOpen()) << "the answer counts from when it was asked for";
  fence_.Renew(fence_.Now());
  EXPECT_TRUE(IsOpen());
  fence_.Close();
  fence_.Renew(fence_.Now());
  EXPECT_FALSE(IsOpen());
}

TEST_F(TaskRunnerTest, FiguresThatAreNotTakenAreLeftOut) {
  api_.SetInterceptor([](const support::ApiCall& call, const Json* body) {
    return call.verb == "patch" &&
                   FindJson(*body, {"status", "outcome", "backup", "snapshotID"}) != nullptr
               ? absl::InvalidArgumentError("too large")
               : absl::OkStatus();
  });
  EXPECT_THAT(Run([](const CallContext&, const objects::VolumeJob&, const TaskProgress&) {
                return Done("x");
              }),
              IsOkAndHolds(objects::TaskPhase::kSucceeded));
  EXPECT_EQ(Status().outcome, objects::Outcome{.code = objects::OutcomeCode::kDone});
}

class TaskReportTest : public testing::Test {
 protected:
  TaskReportTest() {
    api_.SetStatusSubresource("volumetasks", true);
    api_.Seed(objects::VolumeTask::Type(), support::TaskWithJob("du-1"));
  }

  support::FakeClock clock_;
  support::FakeApiClient api_{clock_};
  const k8s::ObjectKey task_ = {
      .type = objects::VolumeTask::Type(), .namespace_name = "mover", .name = "du-1"};
  CallContext ctx_{.clock = &clock_};
  TaskReport report_{api_, task_, {.phase = objects::TaskPhase::kRunning}};
};

TEST_F(TaskReportTest, IsWrittenNowAndThenAndAtOnceWhenAStageBegins) {
  const auto writes = [&] {
    EXPECT_THAT(report_.Step(ctx_), IsOk());
    const int count = api_.CallCount("patch", "volumetasks");
    api_.ClearCalls();
    return count;
  };
  EXPECT_EQ(writes(), 1);
  EXPECT_EQ(writes(), 0);
  report_.Progress({"transfer", 0, 9});
  EXPECT_EQ(writes(), 1);
  report_.Progress({"transfer", 1, 9});
  EXPECT_EQ(writes(), 1) << "the first bytes";
  report_.Progress({"transfer", 2, 9});
  EXPECT_EQ(writes(), 0);
  clock_.Advance(kReportEvery - absl::Seconds(1));
  EXPECT_EQ(writes(), 0);
  report_.Progress({"audit", 2, 9});
  EXPECT_EQ(writes(), 1);
  clock_.Advance(kReportEvery - absl::Seconds(1));
  report_.Progress({"audit", 3, 9});
  EXPECT_EQ(writes(), 0);
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(writes(), 1);
  EXPECT_EQ(StatusOf(api_, task_).done_bytes, 3);
  clock_.Advance(kReportEvery);
  EXPECT_EQ(writes(), 1) << "a heartbeat";
  EXPECT_EQ(StatusOf(api_, task_).heartbeat_at, clock_.Now());
}

// The network becomes half as fast after 50 seconds; half of the volume was stored by a Pod before.
TEST_F(TaskReportTest, TellsTheRateOfTheLastSecondsAndTheTimeLeftAtIt) {
  constexpr int64_t kTotal = 10'000;
  int64_t done = 0;
  for (int second = 0; second <= 80; ++second) {
    report_.Progress(
        {.stage = "transfer", .done_bytes = done, .total_bytes = kTotal, .resumed_bytes = kTotal});
    EXPECT_THAT(report_.Step(ctx_), IsOk());
    done += second < 50 ? 100 : 50;
    clock_.Advance(absl::Seconds(1));
  }
  const objects::VolumeTaskStatus status = StatusOf(api_, task_);
  EXPECT_EQ(status.done_bytes, 6500 + kTotal);
  EXPECT_EQ(status.total_bytes, 2 * kTotal);
  EXPECT_EQ(status.bytes_per_second, 50);
  EXPECT_EQ(status.seconds_left, 3500 / 50);
  EXPECT_THAT(report_.Finish(ctx_, {.phase = objects::TaskPhase::kSucceeded}), IsOk());
  EXPECT_EQ(StatusOf(api_, task_).bytes_per_second, std::nullopt);
}

TEST_F(TaskReportTest, ATotalThatDecreasesCostsNoWrite) {
  report_.Progress({"transfer", 1, 9});
  EXPECT_THAT(report_.Step(ctx_), IsOk());
  report_.Progress({"transfer", 2, 8});
  EXPECT_THAT(report_.Step(ctx_), IsOk());
  EXPECT_EQ(StatusOf(api_, task_).total_bytes, 9);
}

TEST_F(TaskReportTest, WhatCouldNotBeWrittenIsWrittenTheNextTime) {
  api_.FailNext("patch", "volumetasks", kAway);
  EXPECT_THAT(report_.Step(ctx_), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(report_.Step(ctx_), IsOk());
  EXPECT_EQ(StatusOf(api_, task_).phase, objects::TaskPhase::kRunning);
}

}  // namespace
}  // namespace csidelta::datamover::task_runner_test
