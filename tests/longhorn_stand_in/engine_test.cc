#include "tests/support/longhorn/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace csidelta::longhorn_stand_in::engine_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000) + absl::Milliseconds(700);

class EngineTest : public testing::Test {
 protected:
  EngineTest() { engine_.Start(); }
  absl::Status Take(const std::string& name) {
    return engine_.TakeSnapshot(name, /*is_user_created=*/true, {}, kNow);
  }
  // Each after a write of its own block, and of block 0.
  void TakeThree() {
    int64_t block = 1;
    for (const char* name : {"one", "two", "three"}) {
      engine_.Write(0, name);
      engine_.Write(block++, name);
      EXPECT_THAT(Take(name), IsOk());
    }
  }
  void RemoveAndPurge(const std::string& name) {
    EXPECT_THAT(engine_.RemoveSnapshot(name), IsOk());
    EXPECT_THAT(engine_.StartPurge(kNow), IsOk());
    engine_.Advance(kNow + kPurgeTime);
  }
  ChainEntry Entry(const std::string& name) const { return engine_.Entries().at(name); }

  Engine engine_{1 << 20};
};

TEST_F(EngineTest, ASnapshotHasWhatWasWrittenSinceTheOneBefore) {
  TakeThree();
  EXPECT_EQ(Entry("two").size_bytes, 2 * kEngineBlockBytes);
  EXPECT_EQ(Entry(kVolumeHead).size_bytes, 0);
  EXPECT_EQ(engine_.Read("two", 0), "two");
  EXPECT_EQ(engine_.Read("two", 1), "one");
  EXPECT_EQ(engine_.Read("two", 3), "");
}

TEST_F(EngineTest, ASnapshotKeepsItsLabelsAndTheSecondInWhichItWasTaken) {
  ASSERT_THAT(engine_.TakeSnapshot("one", false, {{"RecurringJob", "nightly"}}, kNow), IsOk());
  EXPECT_EQ(Entry("one").labels.at("RecurringJob"), "nightly");
  EXPECT_EQ(Entry("one").taken_at, absl::FromUnixSeconds(1'700'000'000));
  EXPECT_FALSE(Entry("one").is_user_created);
}

TEST_F(EngineTest, AnotherSnapshotOfTheNameIsRefused) {
  TakeThree();
  EXPECT_THAT(Take("two"), StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_FALSE(engine_.is_faulted());
  EXPECT_EQ(engine_.Entries().size(), 4);
}

TEST_F(EngineTest, AStoppedEngineTakesNone) {
  engine_.Stop();
  EXPECT_THAT(Take("one"), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(EngineTest, RemovingMarksAndPurgingCoalescesIntoTheChild) {
  TakeThree();
  ASSERT_THAT(engine_.RemoveSnapshot("two"), IsOk());
  EXPECT_TRUE(Entry("two").is_removed);
  ASSERT_THAT(engine_.StartPurge(kNow), IsOk());
  EXPECT_TRUE(engine_.is_purging());
  engine_.Advance(kNow + kPurgeTime - absl::Milliseconds(1));
  EXPECT_TRUE(engine_.Has("two"));
  engine_.Advance(kNow + kPurgeTime);
  EXPECT_FALSE(engine_.is_purging());
  EXPECT_FALSE(engine_.Has("two"));
  EXPECT_EQ(Entry("three").parent, "one");
  EXPECT_EQ(Entry("three").size_bytes, 3 * kEngineBlockBytes) << "the child's, and what it lacked";
}

TEST_F(EngineTest, PurgingChangesNoContent) {
  TakeThree();
  engine_.Write(9, "live");
  RemoveAndPurge("two");
  RemoveAndPurge("one");
  EXPECT_EQ(engine_.Read("three", 0), "three");
  EXPECT_EQ(engine_.Read("three", 1), "one");
  EXPECT_EQ(engine_.Read("three", 2), "two");
  EXPECT_EQ(engine_.Read(kVolumeHead, 1), "one");
  EXPECT_EQ(engine_.Read(kVolumeHead, 9), "live");
}

TEST_F(EngineTest, APurgeTakesAllSystemSnapshots) {
  ASSERT_THAT(engine_.TakeSnapshot("rebuild", false, {}, kNow), IsOk());
  TakeThree();
  RemoveAndPurge("one");
  EXPECT_FALSE(engine_.Has("rebuild"));
  EXPECT_TRUE(engine_.Has("two"));
}

TEST_F(EngineTest, ExpandingTakesASystemSnapshot) {
  ASSERT_THAT(engine_.Expand(2 << 20, kNow), IsOk());
  EXPECT_EQ(engine_.size_bytes(), 2 << 20);
  EXPECT_FALSE(Entry("expand-2097152").is_user_created);
}

TEST_F(EngineTest, APurgeIsRefusedWhileAnotherRuns) {
  TakeThree();
  ASSERT_THAT(engine_.StartPurge(kNow), IsOk());
  EXPECT_THAT(engine_.StartPurge(kNow), StatusIs(absl::StatusCode::kAlreadyExists));
}

TEST_F(EngineTest, RemovingAnUnknownOneIsAnError) {
  EXPECT_THAT(engine_.RemoveSnapshot("one"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(engine_.RemoveSnapshot(kVolumeHead), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(EngineTest, TheMaximumCountsWhatIsNotRemoved) {
  ASSERT_THAT(engine_.SetSnapshotMaxCount(3), IsOk());
  TakeThree();
  EXPECT_THAT(Take("four"), StatusIs(absl::StatusCode::kFailedPrecondition,
                                     "snapshot count usage 3 is equal or larger than "
                                     "snapshotMaxCount 3"));
  ASSERT_THAT(engine_.RemoveSnapshot("three"), IsOk());
  EXPECT_THAT(Take("four"), IsOk());
}

TEST_F(EngineTest, TheMaximumCannotBeLessThanWhatExists) {
  TakeThree();
  EXPECT_THAT(engine_.SetSnapshotMaxCount(2), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(engine_.snapshot_max_count(), kSnapshotMaxCountDefault);
  EXPECT_THAT(engine_.SetSnapshotMaxCount(3), IsOk());
}

TEST_F(EngineTest, TheTotalCountsTheHeadAndRemovedOnesUntilTheyArePurged) {
  for (int i = 0; i < kChainEntriesMax - 1; ++i) {
    ASSERT_THAT(Take(absl::StrCat("s", i)), IsOk());
  }
  const auto too_big = StatusIs(absl::StatusCode::kFailedPrecondition,
                                "snapshot count total is already too big: 250");
  EXPECT_THAT(Take("more"), too_big);
  ASSERT_THAT(engine_.RemoveSnapshot("s7"), IsOk());
  EXPECT_THAT(Take("more"), too_big) << "marking frees nothing";
  RemoveAndPurge("s7");
  EXPECT_THAT(Take("more"), IsOk());
}

TEST_F(EngineTest, RevertingNeedsTheFrontendDownAndGivesASnapshotTwoChildren) {
  TakeThree();
  engine_.SetFrontend(true);
  EXPECT_THAT(engine_.Revert("two"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("with frontend enabled")));
  engine_.SetFrontend(false);
  ASSERT_THAT(engine_.Revert("two"), IsOk());
  EXPECT_THAT(Entry("two").children, ElementsAre("three", kVolumeHead));
  EXPECT_EQ(engine_.Read(kVolumeHead, 0), "two");
  EXPECT_EQ(engine_.Read(kVolumeHead, 3), "");
  RemoveAndPurge("two");
  EXPECT_TRUE(engine_.Has("two")) << "two branches read it";
  EXPECT_EQ(engine_.Read("three", 2), "two");
  EXPECT_EQ(engine_.Read(kVolumeHead, 2), "two");
}

TEST_F(EngineTest, ARemovedSnapshotCannotBeRevertedTo) {
  TakeThree();
  ASSERT_THAT(engine_.RemoveSnapshot("one"), IsOk());
  EXPECT_THAT(engine_.Revert("one"), StatusIs(absl::StatusCode::kNotFound));
}

TEST(EnginesTest, CallsAreCountedAndNeedARunningProcess) {
  Engines engines;
  engines.Ensure("pvc-1", 1 << 20);
  const auto nothing = [](Engine&) { return absl::OkStatus(); };
  EXPECT_THAT(engines.Call("pvc-2", nothing), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(engines.Call("pvc-1", nothing), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_TRUE(engines.Handle("pvc-1", [](Engine& engine) { engine.Start(); }));
  EXPECT_THAT(engines.Call("pvc-1", nothing), IsOk());
  EXPECT_EQ(engines.call_count("pvc-1"), 2) << "starting it is not a call";
  engines.Remove("pvc-1");
  EXPECT_FALSE(engines.Has("pvc-1"));
}

TEST(EnginesTest, AnObserverIsToldOnceOfEachSnapshotThatComesOrGoes) {
  std::vector<std::string> told;
  Engines engines([&](const std::string& volume, const std::string& name, bool is_there) {
    told.push_back(absl::StrCat(volume, "/", name, is_there ? " is there" : " is gone"));
  });
  engines.Ensure("pvc-1", 1 << 20);
  const absl::Time now = absl::UnixEpoch();
  engines.Handle("pvc-1", [](Engine& engine) { engine.Start(); });
  for (const char* const name : {"one", "two"}) {
    EXPECT_THAT(
        engines.Call("pvc-1",
                     [&](Engine& engine) { return engine.TakeSnapshot(name, true, {}, now); }),
        IsOk());
  }
  engines.Handle("pvc-1", [&](Engine& engine) {
    EXPECT_THAT(engine.RemoveSnapshot("one"), IsOk());
    EXPECT_THAT(engine.StartPurge(now), IsOk());
    engine.Advance(now + kPurgeTime);
  });
  EXPECT_THAT(told, ElementsAre("pvc-1/one is there", "pvc-1/two is there", "pvc-1/one is gone"));
}

}  // namespace
}  // namespace csidelta::longhorn_stand_in::engine_test
