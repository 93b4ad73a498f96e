#include "datamover/controller/overview.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/rfc3339.h"
#include "datamover/daily_window.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "objects/keys.h"
#include "objects/volume_task.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/typed.h"

namespace csidelta::datamover::overview_test {
namespace {

constexpr int64_t kGib = int64_t{1} << 30;
const absl::Time kMade = absl::FromUnixSeconds(1'700'000'000);

Json Transfer(const std::string& kind, const std::string& name, absl::Duration after,
              const std::string& mover = "csi-delta") {
  Json object = support::MakeObject("velero.io/v2alpha1", kind, "velero", name);
  SetJson(object, {"metadata", "uid"}, name + "-uid");
  SetJson(object, {"metadata", "creationTimestamp"}, FormatRfc3339(kMade + after));
  SetJson(object, {"spec"},
          Json{{"datamover", mover},
               {"snapshotType", "CSI"},
               {"backupStorageLocation", "default"},
               {"sourceNamespace", "shop"},
               {"sourcePVC", "orders"},
               {"operationTimeout", "10m0s"},
               {"csiSnapshot", {{"volumeSnapshot", "vs"}, {"storageClass", "fast"}}},
               {"snapshotID", "x"},
               {"targetVolume", {{"pvc", "orders"}, {"pv", ""}, {"namespace", "copy"}}}});
  SetJson(object, {"status", "phase"}, "InProgress");
  return object;
}

// The task of "NAME-uid", which runs.
objects::VolumeTask Task(const std::string& name, int64_t done_bytes,
                         std::optional<int64_t> bytes_per_second,
                         std::optional<int64_t> seconds_left) {
  const objects::VolumeTask task =
      objects::VolumeTask::Make("csi-delta", "du-" + name + "-uid",
                                {.kind = objects::TaskKind::kUpload,
                                 .subject = {"DataUpload", "velero", name, name + "-uid"},
                                 .volume = {}},
                                {});
  objects::VolumeTaskStatus status;
  status.phase = objects::TaskPhase::kRunning;
  status.stage = "transfer";
  status.node = "n1";
  status.done_bytes = done_bytes;
  status.total_bytes = 4 * kGib;
  status.bytes_per_second = bytes_per_second;
  status.seconds_left = seconds_left;
  status.started_at = kMade;
  status.heartbeat_at = kMade + absl::Minutes(5);
  Json json = task.json();
  SetJson(json, {"status"}, objects::ToJson(status));
  return support::As<objects::VolumeTask>(json);
}

std::vector<Movement> Movements(const std::vector<Json>& uploads,
                                const std::vector<Json>& downloads,
                                const std::vector<objects::VolumeTask>& tasks) {
  return ListMovements(support::AllAs<objects::DataUpload>(uploads),
                       support::AllAs<objects::DataDownload>(downloads), tasks);
}
QueueOverview Queue(const MoverSettings& settings, const std::vector<Json>& uploads,
                    const std::vector<Json>& downloads, absl::Time now) {
  return DescribeQueue(settings, support::AllAs<objects::DataUpload>(uploads),
                       support::AllAs<objects::DataDownload>(downloads), now);
}
std::optional<absl::Duration> Mean(const std::vector<Json>& uploads,
                                   const std::vector<Json>& downloads, absl::Time since) {
  return MeanDuration(support::AllAs<objects::DataUpload>(uploads),
                      support::AllAs<objects::DataDownload>(downloads), since);
}

TEST(OverviewTest, SaysHowFarHowFastAndHowLong) {
  const std::vector<Movement> movements = Movements(
      {Transfer("DataUpload", "u1", absl::ZeroDuration())}, {}, {Task("u1", kGib, kGib / 10, 30)});
  ASSERT_EQ(movements.size(), 1u);
  const Movement& movement = movements.front();
  EXPECT_EQ(movement.volume, "shop/orders");
  EXPECT_EQ(movement.stage, "transfer");
  EXPECT_EQ(movement.node, "n1");
  EXPECT_EQ(movement.bytes_per_second, kGib / 10);
  ASSERT_TRUE(movement.left.has_value());
  EXPECT_EQ(absl::ToInt64Seconds(*movement.left), 30);
  EXPECT_FALSE(movement.is_over);
}

TEST(OverviewTest, WhatTheWorkerDoesNotKnowIsNotMadeUp) {
  const std::vector<Movement> movements =
      Movements({Transfer("DataUpload", "u1", absl::ZeroDuration())}, {},
                {Task("u1", kGib, std::nullopt, std::nullopt)});
  ASSERT_EQ(movements.size(), 1u);
  EXPECT_EQ(movements.front().bytes_per_second, std::nullopt);
  EXPECT_EQ(movements.front().left, std::nullopt);
}

TEST(OverviewTest, SaysWhatItWaitsFor) {
  Json waits = Transfer("DataUpload", "u2", absl::ZeroDuration());
  SetJson(waits, {"status"}, Json{{"phase", "Accepted"}, {"message", "waits for u1"}});
  const std::vector<Movement> movements = Movements({waits}, {}, {});
  ASSERT_EQ(movements.size(), 1u);
  EXPECT_EQ(movements.front().phase, "Accepted");
  EXPECT_EQ(movements.front().message, "waits for u1");
  EXPECT_EQ(movements.front().uid, "u2-uid");
}

TEST(OverviewTest, OldestFirstAndOthersMoversNotAtAll) {
  const std::vector<Movement> movements =
      Movements({Transfer("DataUpload", "u3", absl::Seconds(3)),
                 Transfer("DataUpload", "u1", absl::Seconds(1)),
                 Transfer("DataUpload", "theirs", absl::Seconds(2), "velero"), Json("no object")},
                {Transfer("DataDownload", "d2", absl::Seconds(2))}, {});
  ASSERT_EQ(movements.size(), 3u);
  EXPECT_EQ(movements[0].name, "u1");
  EXPECT_EQ(movements[1].name, "d2");
  EXPECT_EQ(movements[1].kind, "download");
  EXPECT_EQ(movements[1].volume, "copy/orders");
  EXPECT_EQ(movements[2].name, "u3");
}

// Accepted, of a PVC of its own.
Json Waiting(const std::string& name, const std::string& kind = "DataUpload") {
  Json object = Transfer(kind, name, absl::ZeroDuration());
  SetJson(object, {"spec", "sourcePVC"}, name);
  SetJson(object, {"spec", "targetVolume", "pvc"}, name);
  SetJson(object, {"status"}, Json{{"phase", "Accepted"}});
  return object;
}
Json Annotated(Json object, const char* annotation) {
  SetJson(object, {"metadata", "annotations", annotation}, FormatRfc3339(kMade));
  return object;
}

TEST(OverviewTest, TheQueueIsThatOfTheController) {
  MoverSettings settings;
  settings.transfers_max = 2;
  Json again = Waiting("again");
  SetJson(again, {"spec", "sourcePVC"}, "running");
  Json done = Waiting("done");
  SetJson(done, {"status", "phase"}, "Completed");
  const std::vector<Json> uploads = {
      Annotated(Waiting("running"), objects::kAdmittedAtAnnotation),
      again,
      done,
      Waiting("first"),
      Waiting("second"),
      Annotated(Annotated(Waiting("refused"), objects::kAwaitingAtAnnotation),
                objects::kRefusedSinceAnnotation)};
  const std::vector<Json> downloads = {
      Annotated(Waiting("consumer", "DataDownload"), objects::kAwaitingAtAnnotation),
      Transfer("DataDownload", "theirs", absl::ZeroDuration(), "velero")};
  QueueOverview queue = Queue(settings, uploads, downloads, kMade);
  EXPECT_EQ(queue.admitted, 1);
  EXPECT_EQ(queue.waits(), 5);
  EXPECT_EQ(queue.reasons,
            (std::map<std::string, WaitReason>{{"again-uid", WaitReason::kVolume},
                                               {"first-uid", WaitReason::kNext},
                                               {"second-uid", WaitReason::kTotal},
                                               {"refused-uid", WaitReason::kRefused},
                                               {"consumer-uid", WaitReason::kPrerequisite}}));
  EXPECT_EQ(ToText(queue),
            "1 transfer is admitted, 5 wait:\n"
            "  1 for the controller, which has free slots: is it running?\n"
            "  1 for one of 2 slots (limits.total)\n"
            "  1 for another transfer of their volume\n"
            "  1 for what their Pods need, for a node, or for their PVC to be bound\n"
            "  1 for the API server, which refuses what their workers need\n");
  settings.is_paused = true;
  queue = Queue(settings, uploads, {}, kMade);
  EXPECT_EQ(queue.waiting.at(WaitReason::kPaused), 3);
  EXPECT_THAT(ToText(queue), testing::StartsWith("paused: the settings admit no transfer\n"));
}

TEST(OverviewTest, OutsideOfTheWindowsItSaysWhenUploadsAreAdmitted) {
  MoverSettings settings;
  EXPECT_EQ(ToText(Queue(settings, {}, {}, kMade)), "");
  settings.upload_windows = {*ParseDailyWindow("01:00-02:00")};  // kMade is 22:13.
  EXPECT_EQ(ToText(Queue(settings, {}, {}, kMade)), "uploads are admitted from 01:00 UTC on\n");
  EXPECT_EQ(ToText(Queue(settings, {Waiting("u")}, {}, kMade)),
            "uploads are admitted from 01:00 UTC on\n"
            "0 transfers are admitted, 1 waits:\n"
            "  1 for an upload window\n");
  EXPECT_EQ(ToText(Queue(settings, {}, {}, kMade + absl::Hours(3))), "");
}

TEST(OverviewTest, HowLongTransfersTookOnAverage) {
  const auto completed = [](const std::string& kind, absl::Duration after, absl::Duration took) {
    Json object = Transfer(kind, "done", absl::ZeroDuration());
    SetJson(object, {"status"},
            Json{{"phase", "Completed"},
                 {"startTimestamp", FormatRfc3339(kMade + after)},
                 {"completionTimestamp", FormatRfc3339(kMade + after + took)}});
    return object;
  };
  Json admitted = completed("DataUpload", absl::Hours(1), absl::Minutes(20));
  SetJson(admitted, {"metadata", "annotations", objects::kAdmittedAtAnnotation},
          FormatRfc3339(kMade + absl::Minutes(50)));
  Json failed = completed("DataUpload", absl::Hours(1), absl::Hours(9));
  failed["status"]["phase"] = "Failed";
  Json others = completed("DataUpload", absl::Hours(1), absl::Hours(9));
  others["spec"]["datamover"] = "velero";
  const std::vector<Json> uploads = {admitted, failed, others,
                                     completed("DataUpload", -absl::Hours(30), absl::Hours(9))};
  EXPECT_EQ(Mean(uploads, {completed("DataDownload", absl::Hours(1), absl::Minutes(50))}, kMade),
            absl::Minutes(40));
  EXPECT_EQ(Mean({failed}, {}, kMade), std::nullopt);
}

TEST(OverviewTest, WhatIsOverIsOver) {
  Json done = Transfer("DataUpload", "u1", absl::ZeroDuration());
  SetJson(done, {"status"},
          Json{{"phase", "Completed"}, {"progress", {{"bytesDone", 7}, {"totalBytes", 7}}}});
  const std::vector<Movement> movements = Movements({done}, {}, {});
  ASSERT_EQ(movements.size(), 1u);
  EXPECT_TRUE(movements.front().is_over);
  EXPECT_EQ(movements.front().done_bytes, 7);
}

}  // namespace
}  // namespace csidelta::datamover::overview_test
