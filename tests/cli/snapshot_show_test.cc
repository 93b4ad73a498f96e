// csi-delta snapshot show: one VolumeSnapshot in full, with the caller's rights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/yaml.h"
#include "tests/cli/snapshot_verb_fixture.h"
#include "tests/support/status_matchers.h"

namespace csidelta::cli::snapshot_show_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class SnapshotShowTest : public SnapshotVerbTest {
 protected:
  SnapshotShowTest() : SnapshotVerbTest("show") {
    Ready("monday", "2023-11-13T05:00:00Z");
    Ready("tuesday", "2023-11-14T05:00:00Z");
  }

  void Event(const std::string& name, const std::string& uid, const std::string& time,
             const std::string& message) {
    Json event = support::MakeObject("v1", "Event", "shop", name);
    SetJson(event, {"involvedObject", "uid"}, uid);
    SetJson(event, {"lastTimestamp"}, time);
    SetJson(event, {"type"}, "Warning");
    SetJson(event, {"reason"}, "SnapshotCreationFailed");
    SetJson(event, {"source", "component"}, "csi-snapshotter");
    SetJson(event, {"count"}, 3);
    SetJson(event, {"message"}, message);
    api_.Seed(EventType(), event);
  }
};

TEST_F(SnapshotShowTest, ShowsAllThatIsKnown) {
  Change("monday", {"metadata", "annotations", objects::kSnapshotNoteAnnotation}, "before the fix");
  Change("monday", {"metadata", "annotations", objects::kSnapshotAskedAtAnnotation},
         "2023-11-13T04:59:59.75Z");
  Label("monday", objects::kSnapshotSetLabel, "db-1");
  FillFrom("monday", "copy");
  const Outcome outcome = Run({"-n", "shop", "monday"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.error, IsEmpty());
  EXPECT_THAT(
      outcome.out,
      AllOf(HasSubstr("monday"), HasSubstr("Ready"), HasSubstr("59.75"), HasSubstr("1.0 GiB"),
            HasSubstr("both ways: VolumeSnapshotContent content-of-monday names it, too"),
            HasSubstr(support::kDriver), HasSubstr("handle-of-monday"),
            HasSubstr("its data is gone for good"), HasSubstr("db-1"),
            HasSubstr("before the fix")));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("Conditions:\n  TYPE"), HasSubstr("Kept from delete:\n"),
                                 HasSubstr("Kept from prune:\n"), HasSubstr("PendingSource"),
                                 HasSubstr("PVC copy is being filled"), HasSubstr("Events: none")));
  EXPECT_THAT(outcome.out, Not(HasSubstr("tuesday")));
}

TEST_F(SnapshotShowTest, AnUnknownFieldIsLeftOut) {
  const Outcome outcome = Run({"-n", "shop", "monday"});
  EXPECT_THAT(outcome.out,
              AllOf(Not(HasSubstr("Note:")), Not(HasSubstr("Set:")), Not(HasSubstr("Used by:")),
                    Not(HasSubstr("Ready:  ")), HasSubstr("Kept from delete: by nothing")));
}

TEST_F(SnapshotShowTest, JsonAndYamlHaveTheObjectOfListAndMore) {
  FillFrom("monday", "copy");
  const Json shown = RunJson({"monday"});
  EXPECT_EQ(GetString(shown, {"name"}), "monday");
  EXPECT_EQ(GetString(shown, {"state"}), "Ready");
  EXPECT_EQ(GetString(shown, {"uid"}), "monday-uid");
  EXPECT_EQ(GetString(shown, {"taken_at"}), "2023-11-13T05:00:00Z");
  EXPECT_EQ(GetString(shown, {"binding", "content"}), "content-of-monday");
  EXPECT_EQ(GetString(shown, {"binding", "content_names"}), "shop/monday");
  EXPECT_TRUE(GetBool(shown, {"binding", "both_ways"}));
  EXPECT_EQ(GetString(shown, {"data_if_deleted"}), "deleted");
  EXPECT_EQ(GetString(shown.at("kept_for_person").at(0), {"reason"}), "PendingSource");
  EXPECT_EQ(GetString(shown.at("kept_for").at(0), {"reason"}), "PendingSource");
  EXPECT_THAT(shown.at("events"), IsEmpty());
  const absl::StatusOr<Json> yaml = ParseYaml(Run({"-n", "shop", "monday", "-o", "yaml"}).out);
  ASSERT_THAT(yaml, support::IsOk());
  EXPECT_EQ(GetString(*yaml, {"binding", "content_names"}), "shop/monday");
  EXPECT_EQ(Run({"-n", "shop", "volumesnapshot/monday", "-o", "name"}).out,
            "volumesnapshot.snapshot.storage.k8s.io/monday\n");
}

TEST_F(SnapshotShowTest, NamesEveryReason) {
  Change("tuesday", {"status", "readyToUse"}, false);
  Label("monday", objects::kKeepLabel, "true");
  const Json shown = RunJson({"monday"});
  std::vector<std::string> reasons;
  for (const Json& one : shown.at("kept_for_person")) {
    reasons.push_back(GetString(one, {"reason"}));
  }
  EXPECT_THAT(reasons, ElementsAre("Keep", "LastReady"));
}

TEST_F(SnapshotShowTest, TheBindingIsShownBothWays) {
  ChangeContent("monday", {"spec", "volumeSnapshotRef", "namespace"}, "bank");
  EXPECT_THAT(Run({"-n", "shop", "monday"}).out,
              AllOf(HasSubstr("names VolumeSnapshotContent content-of-monday, which names "
                              "bank/monday"),
                    HasSubstr("BoundToAnother")));
  api_.Remove(VolumeSnapshotContentKey("content-of-monday"));
  EXPECT_THAT(Run({"-n", "shop", "monday"}).out,
              AllOf(HasSubstr("which does not exist"), HasSubstr("ContentGone")));
  Change("monday", {"status"}, Json::object());
  EXPECT_THAT(Run({"-n", "shop", "monday"}).out,
              AllOf(HasSubstr("not bound yet"), HasSubstr("WaitsForController")));
}

TEST_F(SnapshotShowTest, EventsComeByTimeAndOnlyItsOwn) {
  Event("late", "monday-uid", "2023-11-13T05:02:00Z", "second");
  Event("early", "monday-uid", "2023-11-13T05:01:00Z", "first");
  Event("other", "tuesday-uid", "2023-11-13T05:01:30Z", "of another");
  const Json events = RunJson({"monday"}).at("events");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(GetString(events.at(0), {"message"}), "first");
  EXPECT_EQ(GetString(events.at(1), {"time"}), "2023-11-13T05:02:00Z");
  EXPECT_EQ(GetInt(events.at(1), {"count"}), 3);
  const std::string text = Run({"-n", "shop", "monday"}).out;
  EXPECT_THAT(text, AllOf(HasSubstr("LAST SEEN"), HasSubstr("csi-snapshotter"),
                          Not(HasSubstr("of another"))));
  EXPECT_LT(text.find("first"), text.find("second"));
}

TEST_F(SnapshotShowTest, WhatMayNotBeReadIsNamedAndNotGuessed) {
  api_.Forbid("*", "volumesnapshotcontents");
  api_.Forbid("list", "persistentvolumeclaims");
  api_.Forbid("list", "events");
  const Outcome outcome = Run({"-n", "shop", "monday"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("binding, driver and handle not checked"),
                                   HasSubstr("PVCs that use a snapshot not checked"),
                                   HasSubstr("events not checked")));
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("not checked: you may not read it"), HasSubstr("Events: not checked"),
                    HasSubstr("it is not known whether the storage keeps its data"),
                    HasSubstr("Kept from delete: by nothing that may be read"),
                    Not(HasSubstr("Driver:")), Not(HasSubstr("Policy:"))));
  const Json shown = RunJson({"monday"});
  EXPECT_TRUE(shown.at("events").is_null());
  EXPECT_TRUE(shown.at("binding").at("both_ways").is_null());
  EXPECT_EQ(GetString(shown, {"data_if_deleted"}), "unknown");
  EXPECT_EQ(GetString(shown, {"state"}), "Ready");
}

TEST_F(SnapshotShowTest, AMissingNameIsReportedWithTheNearestName) {
  const Outcome outcome = Run({"-n", "shop", "mondya"});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_THAT(outcome.error,
              AllOf(HasSubstr("VolumeSnapshot mondya was not found in namespace shop"),
                    HasSubstr("but monday was"), HasSubstr("csi-delta snapshot list -n shop")));
}

TEST_F(SnapshotShowTest, FlagsThatMeanNothingHereAreRefused) {
  EXPECT_THAT(Run({"-A", "monday"}).error, HasSubstr("works in one namespace"));
  EXPECT_THAT(Run({"-n", "shop", "-l", "a=b", "monday"}).error, HasSubstr("takes names"));
  EXPECT_THAT(Run({"-n", "shop", "pvc/monday"}).error, HasSubstr("does not name a VolumeSnapshot"));
  EXPECT_EQ(Run({"-n", "shop"}).code, ExitCode::kFailed);
  EXPECT_EQ(api_.CallCount("*", "*"), 0);
}

TEST_F(SnapshotShowTest, ForeignTextsAreShownAndNotObeyed) {
  const std::string hostile = HostileText();
  Change("monday", {"metadata", "annotations", objects::kSnapshotNoteAnnotation}, hostile);
  Change("monday", {"status", "readyToUse"}, false);
  Change("monday", {"status", "error"}, Json{{"message", hostile}});
  ChangeContent("monday", {"status", "snapshotHandle"}, hostile);
  ChangeContent("monday", {"spec", "deletionPolicy"}, "Retain");
  Event("event", "monday-uid", "2023-11-13T05:02:00Z", hostile);
  const Outcome outcome = Run({"-n", "shop", "monday"});
  ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  ExpectHarmless(outcome.out);
  EXPECT_THAT(outcome.out, HasSubstr("red \\u001b[31m\\u0007"));
  // Each is printed a few times, and widens no other line.
  EXPECT_LT(outcome.out.size(), 10 * hostile.size());
  const Json shown = RunJson({"monday"});
  EXPECT_EQ(GetString(shown, {"handle"}), hostile);
  EXPECT_EQ(GetString(shown, {"note"}), hostile);
  ExpectHarmless(Run({"-n", "shop", "monday", "-o", "json"}).out);
  ExpectHarmless(Run({"-n", "shop", "monday", "-o", "yaml"}).out);
}

TEST_F(SnapshotShowTest, CostsOneListOfAKindAndTheContentsOfItsPvc) {
  for (int i = 0; i < 30; ++i) {
    Ready(absl::StrCat("other-", i), "2023-11-12T05:00:00Z", "team");
  }
  api_.ClearCalls();
  RunJson({"monday"});
  EXPECT_EQ(api_.CallCount("list", "*"), 3);  // VolumeSnapshots, PVCs, events
  EXPECT_EQ(api_.CallCount("get", "*"), 2);   // the contents of the two Ready ones of its PVC
}

}  // namespace
}  // namespace csidelta::cli::snapshot_show_test
