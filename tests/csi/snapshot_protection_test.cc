#include "csi/snapshot_protection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <vector>

#include "objects/keys.h"

namespace csidelta::csi::snapshot_protection_test {
namespace {

using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;
using testing::HasSubstr;
using testing::IsEmpty;

// A VolumeSnapshot of a person, an hour old, for which nothing holds; a case changes it.
struct Story {
  Json snapshot = {
      {"metadata",
       {{"name", "orders"}, {"namespace", "shop"}, {"creationTimestamp", "2023-11-14T21:13:20Z"}}},
      {"spec", {{"source", {{"persistentVolumeClaimName", "data"}}}}}};
  Json content = {{"metadata", {{"name", "c"}}}};
  ProtectionInput input = {
      .content = {}, .mover_namespace = "csi-delta", .now = absl::FromUnixSeconds(1'700'000'000)};
};

std::vector<Finding> Protections(const Story& story, Requester requester) {
  const VolumeSnapshot snapshot = *VolumeSnapshot::Of(story.snapshot);
  const VolumeSnapshotContent content = *VolumeSnapshotContent::Of(story.content);
  ProtectionInput input = story.input;
  input.content = {.kind = ContentReading::Kind::kPresent, .content = &content};
  return ProtectionsOf(snapshot, input, requester);
}

struct Case {
  const char* code;
  std::function<void(Story&)> change;
  std::set<Requester> holds_for;
  const char* message;
};

// The table of the header, row by row, each alone.
TEST(SnapshotProtectionTest, FollowsItsTable) {
  using enum Requester;
  const std::vector<Case> cases = {
      {"PendingSource",
       [](Story& s) { s.input.pending_pvcs = {"copy"}; },
       {kPerson, kPrune, kBackupDeletion, kBaseCleanUp},
       "PVC copy"},
      {"GroupMember",
       [](Story& s) { s.snapshot["status"]["volumeGroupSnapshotName"] = "db"; },
       {kPerson, kPrune},
       "VolumeGroupSnapshot db"},
      {"DeltaBase",
       [](Story& s) {
         SetJson(s.content, {"metadata", "labels", objects::kBaseLabel}, "true");
       },
       {kPerson, kPrune, kBackupDeletion},
       "delta base"},
      {"DeltaBase",
       [](Story& s) { s.snapshot["metadata"]["namespace"] = "csi-delta"; },
       {kPerson, kPrune, kBackupDeletion},
       "delta base"},
      {"Backup",
       [](Story& s) {
         SetJson(s.snapshot, {"metadata", "labels", objects::kBackupNameLabel}, "nightly");
       },
       {kPerson, kPrune, kBaseCleanUp},
       "backup nightly"},
      {"Keep",
       [](Story& s) {
         SetJson(s.snapshot, {"metadata", "labels", objects::kKeepLabel}, "true");
       },
       {kPerson, kPrune},
       objects::kKeepLabel},
      {"LastReady",
       [](Story& s) { s.input.is_last_ready = true; },
       {kPerson, kPrune},
       "only Ready"},
      {"Young",
       [](Story& s) { s.snapshot["metadata"]["creationTimestamp"] = "2023-11-14T22:08:21Z"; },
       {kPrune},
       "5 minutes"},
  };
  for (const Case& one : cases) {
    Story story;
    one.change(story);
    for (const Requester requester : {kPerson, kPrune, kBackupDeletion, kBaseCleanUp}) {
      const std::vector<Finding> found = Protections(story, requester);
      if (!one.holds_for.contains(requester)) {
        EXPECT_THAT(found, IsEmpty()) << one.code << ", requester " << static_cast<int>(requester);
        continue;
      }
      ASSERT_EQ(found.size(), 1u) << one.code << ", requester " << static_cast<int>(requester);
      EXPECT_EQ(found[0].code, one.code);
      EXPECT_THAT(found[0].message, HasSubstr(one.message));
    }
  }
}

TEST(SnapshotProtectionTest, NothingHoldsForAnOldSnapshotOfAPerson) {
  for (const Requester requester : {Requester::kPerson, Requester::kPrune,
                                    Requester::kBackupDeletion, Requester::kBaseCleanUp}) {
    EXPECT_THAT(Protections(Story(), requester), IsEmpty());
  }
  Story other_label;
  SetJson(other_label.snapshot, {"metadata", "labels", objects::kKeepLabel}, "false");
  other_label.snapshot["metadata"]["creationTimestamp"] = "2023-11-14T22:08:20Z";
  EXPECT_THAT(Protections(other_label, Requester::kPrune), IsEmpty());
}

TEST(SnapshotProtectionTest, AllReasonsAreGivenInTheOrderOfTheTable) {
  Story story;
  story.input.pending_pvcs = {"a", "b"};
  story.input.is_last_ready = true;
  SetJson(story.snapshot, {"metadata", "labels", objects::kKeepLabel}, "true");
  const std::vector<Finding> found = Protections(story, Requester::kPerson);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].code, "PendingSource");
  EXPECT_EQ(found[1].code, "Keep");
  EXPECT_EQ(found[2].code, "LastReady");
}

}  // namespace
}  // namespace csidelta::csi::snapshot_protection_test
