#include "datamover/worker/lost_pods.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "objects/keys.h"
#include "objects/volume_task.h"
#include "tests/support/typed.h"

namespace csidelta::datamover::lost_pods_test {
namespace {

constexpr int64_t kTotalBytes = 1'000'000;

objects::VolumeTask As(const Json& task) { return support::As<objects::VolumeTask>(task); }

// A task whose worker said that.
Json Task(const LostPods& lost, const std::string& phase, const std::string& stage,
          int64_t done_bytes) {
  Json task = {{"metadata", {{"annotations", {{objects::kAttemptsAnnotation, "4"}}}}},
               {"status",
                {{"phase", phase},
                 {"stage", stage},
                 {"doneBytes", done_bytes},
                 {"totalBytes", kTotalBytes}}}};
  objects::Patch patch;
  SetAnnotations(lost, patch);
  task.merge_patch(patch.json());
  return task;
}

struct EndCase {
  const char* name;
  bool was_disrupted;
  Json pod;
  objects::TaskPhase phase = objects::TaskPhase::kRunning;
};

Json Status(Json status) { return {{"metadata", {{"name", "p"}}}, {"status", std::move(status)}}; }
Json Terminated(const char* reason, int exit_code) {
  return Status(
      {{"phase", "Failed"},
       {"containerStatuses",
        Json::array(
            {{{"state", {{"terminated", {{"reason", reason}, {"exitCode", exit_code}}}}}}})}});
}
Json Condition(const char* type, const char* status) {
  return Status({{"phase", "Failed"},
                 {"conditions", Json::array({{{"type", "Ready"}, {"status", "True"}},
                                             {{"type", type}, {"status", status}}})}});
}

class WasDisruptedTest : public testing::TestWithParam<EndCase> {};

TEST_P(WasDisruptedTest, FollowsTheTable) {
  const Json& json = GetParam().pod;
  const std::optional<objects::Pod> pod =
      json.is_null() ? std::nullopt : std::optional(support::As<objects::Pod>(json));
  EXPECT_EQ(WasDisrupted(pod.has_value() ? &*pod : nullptr, GetParam().phase),
            GetParam().was_disrupted);
}

const EndCase kEnds[] = {
    {"GoneWithItsNode", true, Json()},
    {"EvictedByTheKubelet", true, Status({{"phase", "Failed"}, {"reason", "Evicted"}})},
    {"PreemptedByTheKubelet", true, Status({{"phase", "Failed"}, {"reason", "Preempting"}})},
    {"NodeShutDown", true, Status({{"phase", "Failed"}, {"reason", "Terminated"}})},
    {"NodeLost", true, Status({{"phase", "Unknown"}, {"reason", "NodeLost"}})},
    {"PreemptedOrDrained", true, Condition("DisruptionTarget", "True")},
    {"NodeCameBackWithoutIt", true, Terminated("ContainerStatusUnknown", 137)},
    {"RuntimeLostIt", true, Terminated("Unknown", 255)},
    {"KilledAtTheEndOfItsGracePeriod",
     true,
     {{"metadata", {{"deletionTimestamp", "2026-11-22T09:00:00Z"}}},
      {"status", {{"phase", "Failed"}}}}},
    {"ToldToEnd", true, Status({{"phase", "Succeeded"}}), objects::TaskPhase::kInterrupted},
    {"OutOfMemory", false, Terminated("OOMKilled", 137)},
    {"Aborted", false, Terminated("Error", 134)},
    {"NoDisruption", false, Condition("DisruptionTarget", "False")},
    {"OtherCondition", false, Condition("ContainersReady", "True")},
    {"RefusedByTheKubelet", false, Status({{"phase", "Failed"}, {"reason", "OutOfcpu"}})},
    {"EndedWithoutALastPhase", false, Status({{"phase", "Succeeded"}})},
    {"WordsOfTheWrongType", false,
     Status({{"phase", "Failed"}, {"reason", 7}, {"conditions", "DisruptionTarget"}})},
};
INSTANTIATE_TEST_SUITE_P(Table, WasDisruptedTest, testing::ValuesIn(kEnds),
                         [](const auto& test) { return std::string(test.param.name); });

struct LossCase {
  const char* name;
  WorkPosition furthest;
  WorkPosition position;
  bool had_progress;
};

class ProgressTest : public testing::TestWithParam<LossCase> {};

TEST_P(ProgressTest, OnlyADisruptedPodWithProgressDoesNotCount) {
  const LossCase& c = GetParam();
  const LostPods before{.counted = 2, .furthest = c.furthest};
  const objects::VolumeTask task =
      As(Task(before, "Running", c.position.stage, c.position.done_bytes));
  ASSERT_EQ(LostPodsOf(task).furthest, c.furthest);
  const LostPods disrupted = AfterLoss(task, nullptr);
  EXPECT_EQ(disrupted.counted, c.had_progress ? 0 : 3);
  EXPECT_EQ(disrupted.furthest, c.had_progress ? c.position : c.furthest);
  const objects::Pod aborted = support::As<objects::Pod>(Terminated("Error", 134));
  const LostPods crashed = AfterLoss(task, &aborted);
  EXPECT_EQ(crashed.counted, 3);
  EXPECT_EQ(crashed.furthest, disrupted.furthest) << "what it reached is no progress again";
}

const LossCase kLosses[] = {
    {"AtTheBeginning", {}, {"transfer", 999}, false},
    {"TheFirst", {}, {"transfer", 1000}, true},
    {"SaidNothing", {}, {"", 0}, false},
    {"AThousandth", {"transfer", 5000}, {"transfer", 6000}, true},
    {"Less", {"transfer", 5000}, {"transfer", 5999}, false},
    {"Behind", {"transfer", 5000}, {"transfer", 4000}, false},
    {"LaterStage", {"transfer", 900'000}, {"audit", 0}, true},
    {"EarlierStage", {"audit", 0}, {"transfer", 1'000'000}, false},
    {"UploadsAfterAudit", {"audit", 1'000'000}, {"uploads", 10}, true},
    {"RescanAfterAudit", {"audit", 1'000'000}, {"rescan", 10}, true},
    {"OnlyBegunAgain", {"transfer", 5000}, {"", 5000}, false},
    {"Restore", {"restore", 5000}, {"restore", 9000}, true},
};
INSTANTIATE_TEST_SUITE_P(Table, ProgressTest, testing::ValuesIn(kLosses),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(LostPodsTest, ForeignAnnotationsCountAsNothing) {
  Json task = Task({}, "Running", "", 0);
  task["metadata"]["annotations"][objects::kLostPodsAnnotation] = "-7";
  task["metadata"]["annotations"][objects::kFurthestAnnotation] = "transfer many";
  EXPECT_EQ(LostPodsOf(As(task)).counted, 0);
  EXPECT_EQ(LostPodsOf(As(task)).furthest.stage, "");
}

}  // namespace
}  // namespace csidelta::datamover::lost_pods_test
