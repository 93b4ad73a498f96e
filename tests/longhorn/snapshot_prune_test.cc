#include "longhorn/snapshot_prune.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "longhorn/types.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/longhorn_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::longhorn::snapshot_prune_test {
namespace {

using support::MakeLonghornSnapshot;
using support::MakeLonghornVolume;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;

// Four of one volume, of four days and of a job that is gone.
class LonghornPruneTest : public testing::Test {
 protected:
  LonghornPruneTest() {
    api_.Seed(Volume::Type(), MakeLonghornVolume("pvc-1"));
    for (const int day : {10, 11, 12, 13}) {
      Snapshot(absl::StrCat("day-", day), "pvc-1", day);
    }
    request_.now = absl::FromUnixSeconds(1'800'000'000);
  }

  void Snapshot(const std::string& name, const std::string& volume, int day) {
    api_.Seed(
        Snapshot::Type(),
        MakeLonghornSnapshot(name, volume, absl::StrCat("2023-11-", day, "T12:00:00Z"), "old"));
  }
  void Change(const k8s::ResourceType& type, const std::string& name, JsonPath path,
              const Json& value) {
    ASSERT_TRUE(api_.Mutate({type, kDefaultNamespace, name},
                            [&](Json& object) { SetJson(object, path, value); }));
  }
  std::vector<PruneDecision> Decide() {
    absl::StatusOr<Inventory> inventory = ReadInventory(
        {}, api_, {.namespace_name = kDefaultNamespace, .requires_all = true, .now = request_.now});
    EXPECT_THAT(inventory, support::IsOk());
    inventory_ = *std::move(inventory);
    return DecidePrune(inventory_, request_);
  }
  // "name Reason", in their order; of what is removed and held with a mark.
  std::vector<std::string> Decisions() {
    std::vector<std::string> texts;
    for (const PruneDecision& one : Decide()) {
      texts.push_back(absl::StrCat(inventory_.snapshots[one.entry].name,
                                   one.verdict == PruneVerdict::kRemoved ? " - "
                                   : one.verdict == PruneVerdict::kHeld  ? " ~ "
                                                                         : " ",
                                   one.code));
    }
    return texts;
  }
  PruneDecision DecisionOf(const std::string& name) {
    for (const PruneDecision& one : Decide()) {
      if (inventory_.snapshots[one.entry].name == name) {
        return one;
      }
    }
    ADD_FAILURE() << name << " has no decision";
    return {};
  }

  support::FakeApiClient api_;
  Inventory inventory_;
  PruneRequest request_;
};

TEST_F(LonghornPruneTest, WithoutRulesWhatIsSelectedGoes) {
  request_.selection.of_gone_jobs = true;
  EXPECT_THAT(Decisions(), ElementsAre("day-10 - NoRule", "day-11 - NoRule", "day-12 - NoRule",
                                       "day-13 - NoRule"));
  EXPECT_EQ(DecisionOf("day-10").messages.at(0), "RecurringJob old is gone");
  api_.Seed(RecurringJob::Type(), support::MakeLonghornJob("old"));
  EXPECT_EQ(DecisionOf("day-10").messages.at(0),
            "RecurringJob old does not apply to the volume any more");
  request_.selection = {.volume = "pvc-2"};
  EXPECT_THAT(Decisions(), IsEmpty());
}

TEST_F(LonghornPruneTest, RulesCompeteWithinAVolume) {
  api_.Seed(Volume::Type(), MakeLonghornVolume("pvc-2"));
  Snapshot("other", "pvc-2", 1);
  request_.rules.last = 2;
  EXPECT_THAT(Decisions(), ElementsAre("day-10 - NoRule", "day-11 - NoRule", "day-12 Rule",
                                       "day-13 Rule", "other Rule"));
  EXPECT_EQ(DecisionOf("day-13").messages.at(0), "last snapshot");
  EXPECT_THAT(DecisionOf("day-10").messages.at(0), HasSubstr("no rule keeps it"));
}

TEST_F(LonghornPruneTest, RulesCountWhatIsSelectedAndReady) {
  Change(Snapshot::Type(), "day-13", {"status", "readyToUse"}, false);
  Change(Snapshot::Type(), "day-13", {"status", "error"}, "no space");
  Change(Snapshot::Type(), "day-12", {"spec", "labels", "RecurringJob"}, "other");
  request_.rules.last = 1;
  request_.selection.job = "old";
  EXPECT_THAT(Decisions(), ElementsAre("day-10 - NoRule", "day-11 Rule", "day-13 NotReady"));
  EXPECT_THAT(DecisionOf("day-13").messages.at(0), HasSubstr("no space"));
}

TEST_F(LonghornPruneTest, WhatIsNotReadyIsLeftAsItIs) {
  Change(Snapshot::Type(), "day-10", {"metadata", "deletionTimestamp"}, "2023-11-14T00:00:00Z");
  Change(Snapshot::Type(), "day-11", {"status", "markRemoved"}, true);
  Change(Snapshot::Type(), "day-12", {"status"}, Json::object());
  Change(Snapshot::Type(), "day-13", {"status", "userCreated"}, false);
  request_.selection.of_gone_jobs = true;
  EXPECT_THAT(Decisions(),
              ElementsAre("day-12 NotReady", "day-10 Deleting", "day-11 Removed", "day-13 System"))
      << "of a Pending one the object's own time counts";
}

TEST_F(LonghornPruneTest, OneWithoutADateIsNotCounted) {
  Change(Snapshot::Type(), "day-10", {"status", "creationTime"}, "");
  Change(Snapshot::Type(), "day-10", {"status", "requestedTime"}, "");
  Change(Snapshot::Type(), "day-10", {"metadata", "creationTimestamp"}, "");
  request_.rules.last = 1;
  EXPECT_THAT(Decisions(), ElementsAre("day-10 NotCounted", "day-11 - NoRule", "day-12 - NoRule",
                                       "day-13 Rule"));
}

TEST_F(LonghornPruneTest, OfAVolumeThatIsNotAttachedItIsHeldBack) {
  request_.selection = {.before = request_.now};
  for (const char* state : {"detached", "attaching", "detaching", ""}) {
    Change(Volume::Type(), "pvc-1", {"status", "state"}, state);
    const PruneDecision decision = DecisionOf("day-10");
    EXPECT_EQ(decision.verdict, PruneVerdict::kHeld) << state;
    EXPECT_EQ(decision.code, "Detached");
  }
  request_.also_detached = true;
  Change(Volume::Type(), "pvc-1", {"status", "state"}, "detached");
  const PruneDecision decision = DecisionOf("day-10");
  EXPECT_EQ(decision.verdict, PruneVerdict::kRemoved);
  EXPECT_THAT(decision.messages.at(0), EndsWith("goes when its volume is attached next"));
}

TEST_F(LonghornPruneTest, OfAVolumeThatIsGoneGoingOrBusyItIsHeldBack) {
  request_.selection.of_gone_jobs = true;
  request_.also_detached = true;  // These it does not overrule.
  const auto held = [&](const char* code) {
    const PruneDecision decision = DecisionOf("day-10");
    EXPECT_EQ(decision.verdict, PruneVerdict::kHeld);
    EXPECT_EQ(decision.code, code);
  };
  const auto with = [&](JsonPath path, const Json& value, const char* code) {
    api_.Seed(Volume::Type(), MakeLonghornVolume("pvc-1"));
    Change(Volume::Type(), "pvc-1", path, value);
    held(code);
  };
  with({"metadata", "deletionTimestamp"}, "2023-11-14T00:00:00Z", "VolumeGone");
  with({"spec", "migrationNodeID"}, "node-2", "VolumeBusy");
  with({"status", "restoreRequired"}, true, "VolumeBusy");
  with({"spec", "dataSource"}, "snap://pvc-9/x", "VolumeBusy");
  api_.Remove({Volume::Type(), kDefaultNamespace, "pvc-1"});
  held("VolumeGone");
}

TEST_F(LonghornPruneTest, SaysThatItIsOlderThanAskedFor) {
  request_.selection.before = request_.now;
  EXPECT_EQ(DecisionOf("day-10").messages.at(0), "RecurringJob old is gone, older than asked for");
}

}  // namespace
}  // namespace csidelta::longhorn::snapshot_prune_test
