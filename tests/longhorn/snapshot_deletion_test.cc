#include "longhorn/snapshot_prune.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "k8s/object.h"
#include "longhorn/types.h"
#include "tests/support/fake_clock.h"
#include "tests/support/longhorn/fake_longhorn.h"
#include "tests/support/longhorn/kinds.h"
#include "tests/support/status_matchers.h"

namespace csidelta::longhorn::snapshot_deletion_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// The stand-in of Longhorn with an attached volume, and a clock of the caller's own.
class LonghornDeletionTest : public testing::Test {
 protected:
  LonghornDeletionTest() {
    longhorn_.AddVolume("pvc-1");
    longhorn_.Attach("pvc-1");
    longhorn_.Pass(absl::Seconds(10));
    clock_.SetAutoAdvance(true);
    ctx_.clock = &clock_;
  }

  static k8s::ObjectKey Key(const std::string& name) {
    return {Snapshot::Type(), kDefaultNamespace, name};
  }
  SnapshotEntry Take(const std::string& name) {
    const absl::StatusOr<Json> made =
        longhorn_.api().Create({}, Snapshot::Type(), kDefaultNamespace,
                               {{"apiVersion", "longhorn.io/v1beta2"},
                                {"kind", "Snapshot"},
                                {"metadata", {{"name", name}}},
                                {"spec", {{"volume", "pvc-1"}, {"createSnapshot", true}}}});
    EXPECT_THAT(made, IsOk());
    longhorn_.Pass(absl::Seconds(6));
    SnapshotEntry entry;
    entry.name = name;
    entry.uid = made.ok() ? k8s::Uid(*made) : "";
    return entry;
  }
  absl::Status Delete(const std::vector<SnapshotEntry>& entries) {
    std::vector<const SnapshotEntry*> snapshots;
    for (const SnapshotEntry& entry : entries) {
      snapshots.push_back(&entry);
    }
    ends_.clear();
    longhorn_.api().ClearCalls();
    return DeleteSnapshots(ctx_, longhorn_.api(), kDefaultNamespace, snapshots,
                           [&](std::size_t position, const absl::Status& end) {
                             EXPECT_EQ(position, ends_.size());
                             ends_.push_back(end);
                             if (after_each_) {
                               after_each_();
                             }
                           });
  }
  bool IsGoing(const std::string& name) {
    const std::optional<Json> object = longhorn_.api().Find(Key(name));
    return !object.has_value() || k8s::BeingDeleted(*object);
  }

  longhorn_stand_in::FakeLonghorn longhorn_;
  support::FakeClock clock_;
  CallContext ctx_;
  std::function<void()> after_each_;
  std::vector<absl::Status> ends_;
};

TEST_F(LonghornDeletionTest, FiveASecond) {
  std::vector<SnapshotEntry> entries;
  for (int i = 0; i < 11; ++i) {
    entries.emplace_back();
    entries.back().name = absl::StrCat("gone-", i);
    entries.back().uid = "u";
  }
  const absl::Time begin = clock_.Now();
  EXPECT_THAT(Delete(entries), IsOk());
  EXPECT_EQ(clock_.Now() - begin, absl::Seconds(2));
}

TEST_F(LonghornDeletionTest, AStopEndsTheWaitForTheNextOne) {
  const SnapshotEntry one = Take("one");
  const SnapshotEntry two = Take("two");
  clock_.SetAutoAdvance(false);  // It would wait for ever.
  std::stop_source stop;
  ctx_.stop = stop.get_token();
  after_each_ = [&] { stop.request_stop(); };
  EXPECT_THAT(Delete({one, two}), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(ends_, ElementsAre(IsOk()));
  EXPECT_TRUE(IsGoing("one"));
  EXPECT_FALSE(IsGoing("two"));
}

TEST_F(LonghornDeletionTest, AnotherOneOfTheNameIsLeftAlone) {
  SnapshotEntry one = Take("one");
  Take("two");
  one.uid = "of-before";
  EXPECT_THAT(Delete({one}), IsOk());
  EXPECT_THAT(ends_, ElementsAre(IsOk())) << "what was listed is gone";
  EXPECT_FALSE(IsGoing("one"));
}

TEST_F(LonghornDeletionTest, OneWithoutAUidIsNotDeletedByItsName) {
  SnapshotEntry one = Take("one");
  one.uid = "";
  EXPECT_THAT(Delete({one}), IsOk());
  EXPECT_THAT(ends_, ElementsAre(StatusIs(absl::StatusCode::kFailedPrecondition)));
  EXPECT_FALSE(IsGoing("one"));
}

TEST_F(LonghornDeletionTest, WhatLonghornDeniesIsNamedAndTheRestIsDone) {
  const SnapshotEntry too_long = Take(std::string(64, 'n'));
  const SnapshotEntry linked = Take("linked");
  const SnapshotEntry one = Take("one");
  Take("newest");
  ASSERT_TRUE(
      longhorn_.api().Mutate({Volume::Type(), kDefaultNamespace, "pvc-1"}, [](Json& volume) {
        SetJson(volume, {"metadata", "labels", longhorn_stand_in::kLinkedCloneLabel}, "linked");
      }));
  longhorn_.StopManager();
  longhorn_.StartManager();  // It has seen the label.
  EXPECT_THAT(Delete({too_long, linked, one}), IsOk());
  EXPECT_THAT(ends_,
              ElementsAre(StatusIs(absl::StatusCode::kFailedPrecondition,
                                   HasSubstr("must be no more than 63 bytes")),
                          StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("linked-clone")),
                          IsOk()));
  EXPECT_TRUE(IsGoing("one"));
}

TEST_F(LonghornDeletionTest, WithoutLonghornItEnds) {
  const SnapshotEntry one = Take("one");
  const SnapshotEntry two = Take("two");
  longhorn_.StopManager();
  EXPECT_THAT(Delete({one, two}),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("is longhorn-manager running"),
                             HasSubstr("failed calling webhook \"validator.longhorn.io\""))));
  EXPECT_EQ(ends_.size(), 1u);
  EXPECT_EQ(longhorn_.api().CallCount("delete", "*"), 1);
}

}  // namespace
}  // namespace csidelta::longhorn::snapshot_deletion_test
