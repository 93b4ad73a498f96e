#include "csi/snapshot_state.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "tests/support/snapshot_objects.h"

namespace csidelta::csi::snapshot_state_test {
namespace {

using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

constexpr char kTaken[] = "2023-11-14T22:13:20Z";
const absl::Time kTakenAt = absl::FromUnixSeconds(1'700'000'000);

// A VolumeSnapshot that is bound to a content which names it, taken and ready; a case changes it.
struct Objects {
  Json snapshot = support::MakeReadySnapshot("orders", "data");
  Json content = support::MakeBoundContent("orders");
  ContentReading::Kind kind = ContentReading::Kind::kPresent;
  bool is_handle_gone = false;
};

SnapshotStatus Read(const Objects& objects) {
  const VolumeSnapshot snapshot = *VolumeSnapshot::Of(objects.snapshot);
  const VolumeSnapshotContent content = *VolumeSnapshotContent::Of(objects.content);
  return StatusOf(snapshot,
                  {.kind = objects.kind,
                   .content = objects.kind == ContentReading::Kind::kPresent ? &content : nullptr,
                   .is_handle_gone = objects.is_handle_gone});
}

void NotReady(Objects& o) { o.snapshot["status"]["readyToUse"] = false; }
void Fail(Objects& o, const char* message) {
  o.snapshot["status"]["error"] = {{"message", message}, {"time", kTaken}};
}

struct Case {
  const char* what;
  std::function<void(Objects&)> change;
  SnapshotState state;
  const char* reason;
};

// The table of the header, row by row.
void ExpectStates(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    Objects objects;
    one.change(objects);
    const SnapshotStatus status = Read(objects);
    EXPECT_EQ(ToString(status.state), ToString(one.state)) << one.what;
    ASSERT_FALSE(status.conditions.empty()) << one.what;
    EXPECT_EQ(status.conditions[0].type, ToString(one.state)) << one.what;
    EXPECT_TRUE(status.conditions[0].holds) << one.what;
    EXPECT_EQ(status.conditions[0].reason, one.reason) << one.what;
    EXPECT_EQ(status.conditions.size(), one.state == SnapshotState::kReady ? 1u : 2u) << one.what;
    EXPECT_EQ(status.conditions.back().type, "Ready") << one.what;
    EXPECT_EQ(status.conditions.back().holds, one.state == SnapshotState::kReady) << one.what;
  }
}

TEST(SnapshotStateTest, ReadyLostAndForeignSnapshotsFollowTheTable) {
  using enum SnapshotState;
  ExpectStates({{"ready", [](Objects&) {}, kReady, "Ready"},
                {"ready, content not read",
                 [](Objects& o) { o.kind = ContentReading::Kind::kUnknown; }, kReady, "Ready"},
                {"a stale error", [](Objects& o) { Fail(o, "busy"); }, kReady, "Ready"},
                {"deletion requested",
                 [](Objects& o) { o.snapshot["metadata"]["deletionTimestamp"] = kTaken; },
                 kDeleting, "Requested"},
                {"deletion held",
                 [](Objects& o) {
                   o.snapshot["metadata"]["deletionTimestamp"] = kTaken;
                   o.snapshot["metadata"]["finalizers"] = Json::array({"a/b"});
                   o.kind = ContentReading::Kind::kGone;
                 },
                 kDeleting, "HeldByFinalizer"},
                {"content gone", [](Objects& o) { o.kind = ContentReading::Kind::kGone; }, kLost,
                 "ContentGone"},
                {"content gone, not ready",
                 [](Objects& o) {
                   NotReady(o);
                   o.kind = ContentReading::Kind::kGone;
                 },
                 kLost, "ContentGone"},
                {"handle gone", [](Objects& o) { o.is_handle_gone = true; }, kLost, "HandleGone"},
                {"another's content",
                 [](Objects& o) { o.content["spec"]["volumeSnapshotRef"]["uid"] = "another"; },
                 kError, "BoundToAnother"},
                {"pre-provisioned, unverified",
                 [](Objects& o) {
                   o.snapshot["spec"]["source"] = {{"volumeSnapshotContentName", "c"}};
                   o.snapshot["status"].erase("restoreSize");
                 },
                 kUnverified, "NoRestoreSize"},
                {"pre-provisioned, verified",
                 [](Objects& o) {
                   o.snapshot["spec"]["source"] = {{"volumeSnapshotContentName", "c"}};
                 },
                 kReady, "Ready"},
                {"taken by a driver without sizes",
                 [](Objects& o) { o.snapshot["status"].erase("restoreSize"); }, kReady, "Ready"}});
}

TEST(SnapshotStateTest, UnfinishedSnapshotsFollowTheTable) {
  using enum SnapshotState;
  ExpectStates({{"refused",
                 [](Objects& o) {
                   NotReady(o);
                   Fail(o, "rpc error: code = InvalidArgument desc = no");
                 },
                 kError, "Refused"},
                {"retried",
                 [](Objects& o) {
                   NotReady(o);
                   Fail(o, "rpc error: code = Unavailable desc = later");
                 },
                 kError, "Retried"},
                {"taken", NotReady, kUploading, "Taken"},
                {"taken, content not read",
                 [](Objects& o) {
                   NotReady(o);
                   o.kind = ContentReading::Kind::kUnknown;
                 },
                 kUploading, "Taken"},
                {"asked",
                 [](Objects& o) {
                   o.snapshot["status"] = {{"boundVolumeSnapshotContentName", "c"}};
                   o.content.erase("status");
                 },
                 kCreating, "AskedDriver"},
                {"a time without a handle",
                 [](Objects& o) {
                   NotReady(o);
                   o.content["status"].erase("snapshotHandle");
                 },
                 kCreating, "AskedDriver"},
                {"new",
                 [](Objects& o) {
                   o.snapshot.erase("status");
                   o.kind = ContentReading::Kind::kUnknown;
                 },
                 kCreating, "WaitsForController"}});
}

TEST(SnapshotStateTest, TimesAreThoseOfTheObjectsAndNeverNow) {
  Objects objects;
  SnapshotStatus status = Read(objects);
  EXPECT_EQ(status.taken_at, kTakenAt);
  EXPECT_EQ(status.conditions[0].last_transition_time, std::nullopt);  // No managedFields.
  NotReady(objects);
  objects.content["status"]["creationTime"] = 1'700'000'000'000'000'007;
  status = Read(objects);
  EXPECT_EQ(status.taken_at, kTakenAt + absl::Nanoseconds(7));
  EXPECT_EQ(status.conditions[0].last_transition_time, status.taken_at);
  Fail(objects, "no");
  EXPECT_EQ(Read(objects).conditions[0].last_transition_time, kTakenAt);
  objects = Objects();
  objects.kind = ContentReading::Kind::kUnknown;
  objects.snapshot.erase("status");
  EXPECT_EQ(Read(objects).conditions[0].last_transition_time, kTakenAt);
  objects.snapshot["metadata"].erase("creationTimestamp");
  EXPECT_EQ(Read(objects).conditions[0].last_transition_time, std::nullopt);
}

}  // namespace
}  // namespace csidelta::csi::snapshot_state_test
