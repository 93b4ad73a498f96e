// Sources are deleted at each moment of a copy, while each verb runs that needs or deletes one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "inplace/volume_swap.h"
#include "restoreitemactions/claim_operation.h"
#include "tests/support/late_copy_world.h"
#include "tests/support/status_matchers.h"
#include "tests/support/sweep_sample.h"

namespace csidelta::restoreitemactions::late_copies_test {
namespace {

using csi::LateCopyWorld;
using support::IsOk;
using support::StatusIs;

constexpr char kUnknownDriver[] = "late.example.com";
constexpr int kCallsMax = 80;  // More than any verb makes before the copy is at its end.
constexpr int kLooksMax = 40;  // of Velero at an operation

enum class Verb {
  kPromote,
  kRestoreInto,
  kRestoreOfVelero,
  kFinish,
  kDeleteSnapshot,
  kDeleteBackup
};
constexpr Verb kVerbs[] = {Verb::kPromote, Verb::kRestoreInto,    Verb::kRestoreOfVelero,
                           Verb::kFinish,  Verb::kDeleteSnapshot, Verb::kDeleteBackup};
// Those that delete what a copy may need: run by others meanwhile.
constexpr Verb kDeletions[] = {Verb::kFinish, Verb::kDeleteSnapshot, Verb::kDeleteBackup};

constexpr const char* NameOf(Verb verb) {
  constexpr const char* kNames[] = {"promote",  "restore --into", "Velero's restore",
                                    "--finish", "delete",         "deletion of the backup"};
  return kNames[static_cast<int>(verb)];
}

struct Point {
  std::string driver;
  Verb verb = Verb::kPromote;
  std::string end;  // of the copy
  int looks_per_stage = 1;
  Verb attack = Verb::kFinish;
  int position = 0;  // of the call before which the attack comes
};
std::ostream& operator<<(std::ostream& out, const Point& point) {
  return out << point.driver << ", " << NameOf(point.verb) << ", copy " << point.end << " after "
             << point.looks_per_stage << " looks each, " << NameOf(point.attack) << " before call "
             << point.position;
}

// Until Velero hears that the operation is at its end.
absl::Status AwaitOperation(LateCopyWorld& world) {
  for (int look = 0; look < kLooksMax; ++look) {
    const velero::OperationProgress progress =
        CheckClaim(world.Ctx(), world.env(), {"shop", "copy", "monday"});
    if (progress.completed) {
      return progress.error.empty() ? absl::OkStatus() : absl::AbortedError(progress.error);
    }
    world.env().clock.SleepFor(absl::Minutes(1), {});
  }
  return absl::DeadlineExceededError(world.HandleOf("copy"));
}

absl::Status RunVerb(LateCopyWorld& world, Verb verb) {
  switch (verb) {
    case Verb::kPromote:
      return world.Promote();
    case Verb::kRestoreInto:
      return world.Restore();
    case Verb::kRestoreOfVelero:
      return AwaitOperation(world);
    case Verb::kFinish:
      return world.Finish();
    case Verb::kDeleteSnapshot:
      return world.DeleteSnapshot();
    case Verb::kDeleteBackup:
      return world.DeleteBackup();
  }
  return absl::OkStatus();
}

// What there is when the verb begins: a copy under way, if the verb does not begin one.
void Prepare(LateCopyWorld& world, Verb verb) {
  if (verb == Verb::kFinish) {
    ASSERT_THAT(world.RestoreEarly(), IsOk());
  } else if (verb != Verb::kPromote && verb != Verb::kRestoreInto) {
    ASSERT_THAT(world.MakeCopy(), IsOk());
  }
}

// LateCopyWorld looks before each call: no copy has lost its source, and no volume of before is
// deleted while the one that takes its place is not complete.
class LateCopiesSweep {
 public:
  explicit LateCopiesSweep(const Point& point)
      : point_(point), world_({"", "initiated", point.end}, point.looks_per_stage, point.driver) {}

  // Whether the attack came at all.
  bool Try() {
    world_.ArchiveMonday();
    Prepare(world_, point_.verb);
    world_.Before(point_.position, [&] { RunVerb(world_, point_.attack).IgnoreError(); });
    const absl::Status done = RunVerb(world_, point_.verb);
    const bool has_acted = world_.has_acted();
    CheckDone(done);
    for (const Verb deletion : kDeletions) {
      RunVerb(world_, deletion).IgnoreError();
      ExpectNothingLost();
    }
    if (point_.end == "failed" && world_.copies.size() > 0) {
      EXPECT_TRUE(world_.HasMonday());
    }
    return has_acted;
  }

 private:
  bool is_shown() const { return point_.driver == LateCopyWorld::kLonghorn; }

  void CheckDone(const absl::Status& done) {
    const bool is_copy = point_.verb == Verb::kPromote || point_.verb == Verb::kRestoreOfVelero;
    const bool says_filled = is_copy || (point_.verb == Verb::kRestoreInto &&
                                         (is_shown() || world_.not_checked.empty()));
    if (done.ok() && says_filled) {
      EXPECT_TRUE(world_.copies.all_complete());
      EXPECT_EQ(world_.DataOf(is_copy ? "copy" : "data"), "old");
      EXPECT_NE(point_.end, "failed");
    }
    ExpectNothingLost();
  }
  void ExpectNothingLost() {
    EXPECT_FALSE(world_.copies.has_lost_a_source());
    EXPECT_TRUE(world_.HasOriginal() || world_.copies.all_complete());
  }

  const Point point_;
  LateCopyWorld world_;
};

std::vector<Point> AllPoints() {
  std::vector<Point> points;
  for (const char* driver : {LateCopyWorld::kLonghorn, kUnknownDriver}) {
    for (const Verb verb : kVerbs) {
      for (const char* end : {"completed", "copy-completed-awaiting-healthy", "failed"}) {
        for (const int looks : {1, 2}) {
          for (const Verb attack : kDeletions) {
            for (int position = 0; position < kCallsMax; ++position) {
              points.push_back({driver, verb, end, looks, attack, position});
            }
          }
        }
      }
    }
  }
  return points;
}

TEST(LateCopiesSweepTest, NoSourceGoesAndNothingIsDoneBeforeTheCopyIsComplete) {
  const support::SweepSample sample;
  int tried = 0;
  for (const Point& point : sample.Of(AllPoints(), 60)) {
    SCOPED_TRACE(testing::PrintToString(point));
    tried += LateCopiesSweep(point).Try() ? 1 : 0;
  }
  RecordProperty("points", tried);
  EXPECT_GT(tried, 0);
}

// The PVC that was restored into names no VolumeSnapshot; its PersistentVolume does. Seen by the
// sweep above: the source was deleted while the restored volume was still filled from it.
TEST(LateCopiesTest, ARestoreInPlaceByADriverThatShowsNothingKeepsItsSource) {
  LateCopyWorld world({""}, 1, kUnknownDriver);
  world.ArchiveMonday();
  ASSERT_THAT(world.RestoreEarly(), IsOk());
  EXPECT_THAT(world.not_checked, testing::Not(testing::IsEmpty()));
  EXPECT_THAT(world.DeleteSnapshot(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       testing::HasSubstr("data is copied from it, or may be: PVC shop/data")));
  EXPECT_THAT(world.DeleteBackup(), IsOk()) << "deferred: the sweep deletes it";
  EXPECT_TRUE(world.HasMonday());
  world.copies.Show("completed");
  world.RunPod("data");
  EXPECT_THAT(world.DeleteSnapshot(), IsOk());
  EXPECT_FALSE(world.HasMonday());
}

// Each verb ends when nothing is in its way.
TEST(LateCopiesSweepTest, EachVerbEndsWhenTheCopyIsComplete) {
  for (const char* driver : {LateCopyWorld::kLonghorn, kUnknownDriver}) {
    for (const Verb verb : kVerbs) {
      SCOPED_TRACE(testing::Message() << driver << ", " << NameOf(verb));
      LateCopyWorld world({"", "initiated", "completed"}, 1, driver);
      world.ArchiveMonday();
      Prepare(world, verb);
      absl::Status done = RunVerb(world, verb);
      for (int again = 0; again < 5 && !done.ok(); ++again) {
        done = RunVerb(world, verb);
      }
      EXPECT_THAT(done, IsOk());
      // The sweep of the plugin deletes later what is needed when its backup is deleted; a restore
      // in place says when the data was not checked.
      EXPECT_TRUE(verb == Verb::kDeleteBackup || !world.not_checked.empty() ||
                  world.copies.all_complete());
    }
  }
}

}  // namespace
}  // namespace csidelta::restoreitemactions::late_copies_test
