#include "datamover/overview.h"

#include <string>
#include <vector>

#include "base/rfc3339.h"
#include "datamover/volume_task.h"
#include "gtest/gtest.h"
#include "tests/support/snapshot_objects.h"

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

// The task of "NAME-uid", running for `ran`.
Json Task(const std::string& name, int64_t done_bytes, absl::Duration ran) {
  Json task = MakeVolumeTask("csi-delta", "du-" + name + "-uid",
                             {.kind = TaskKind::kUpload,
                              .subject = {"DataUpload", "velero", name, name + "-uid"},
                              .volume = {}},
                             {});
  VolumeTaskStatus status;
  status.phase = TaskPhase::kRunning;
  status.stage = "transfer";
  status.node = "n1";
  status.done_bytes = done_bytes;
  status.total_bytes = 4 * kGib;
  status.started_at = kMade;
  status.heartbeat_at = kMade + ran;
  SetJson(task, {"status"}, ToJson(status));
  return task;
}

TEST(OverviewTest, SaysHowFarHowFastAndHowLong) {
  const std::vector<Movement> movements =
      ListMovements({Transfer("DataUpload", "u1", absl::ZeroDuration())}, {},
                    {Task("u1", kGib, absl::Seconds(10))});
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

TEST(OverviewTest, ARateOfNoTimeIsNone) {
  const std::vector<Movement> movements =
      ListMovements({Transfer("DataUpload", "u1", absl::ZeroDuration())}, {},
                    {Task("u1", kGib, absl::Seconds(1))});
  ASSERT_EQ(movements.size(), 1u);
  EXPECT_EQ(movements.front().bytes_per_second, std::nullopt);
  EXPECT_EQ(movements.front().left, std::nullopt);
}

TEST(OverviewTest, WhatDidNotMoveYetHasNoTimeLeft) {
  const std::vector<Movement> movements = ListMovements(
      {Transfer("DataUpload", "u1", absl::ZeroDuration())}, {}, {Task("u1", 0, absl::Seconds(10))});
  ASSERT_EQ(movements.size(), 1u);
  EXPECT_EQ(movements.front().left, std::nullopt);
}

TEST(OverviewTest, SaysForWhomItWaits) {
  Json waits = Transfer("DataUpload", "u2", absl::ZeroDuration());
  SetJson(waits, {"status"}, Json{{"phase", "Accepted"}, {"message", "waits for u1"}});
  const std::vector<Movement> movements = ListMovements({waits}, {}, {});
  ASSERT_EQ(movements.size(), 1u);
  EXPECT_EQ(movements.front().phase, "Accepted");
  EXPECT_EQ(movements.front().message, "waits for u1");
  EXPECT_EQ(ToJson(movements.front())["message"], "waits for u1");
}

TEST(OverviewTest, OldestFirstAndOthersMoversNotAtAll) {
  const std::vector<Movement> movements = ListMovements(
      {Transfer("DataUpload", "u3", absl::Seconds(3)),
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

TEST(OverviewTest, WhatIsOverIsOver) {
  Json done = Transfer("DataUpload", "u1", absl::ZeroDuration());
  SetJson(done, {"status"},
          Json{{"phase", "Completed"}, {"progress", {{"bytesDone", 7}, {"totalBytes", 7}}}});
  const std::vector<Movement> movements = ListMovements({done}, {}, {});
  ASSERT_EQ(movements.size(), 1u);
  EXPECT_TRUE(movements.front().is_over);
  EXPECT_EQ(movements.front().done_bytes, 7);
}

}  // namespace
}  // namespace csidelta::datamover::overview_test
