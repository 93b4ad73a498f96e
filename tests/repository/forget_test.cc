#include "repository/forget.h"

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "tests/repository/maintenance_fixture.h"

namespace csidelta::repository::forget_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

absl::Time At(const std::string& text) {
  absl::Time time;
  std::string error;
  EXPECT_TRUE(absl::ParseTime("%Y-%m-%d %H:%M", text, absl::UTCTimeZone(), &time, &error)) << error;
  return time;
}

// Of one host and path; "2026-01-31 12:00 a,b" has the tags a and b.
StoredSnapshot Taken(const std::string& text) {
  StoredSnapshot stored = {.id = Id::Of(text), .snapshot = {}};
  stored.snapshot.time = At(text.substr(0, 16));
  stored.snapshot.hostname = "cluster";
  stored.snapshot.paths = {"/shop/db"};
  if (text.size() > 17) {
    stored.snapshot.tags = absl::StrSplit(text.substr(17), ',');
  }
  return stored;
}

std::vector<StoredSnapshot> TakenAll(const std::vector<std::string>& texts) {
  std::vector<StoredSnapshot> snapshots;
  for (const std::string& text : texts) {
    snapshots.push_back(Taken(text));
  }
  return snapshots;
}

const absl::Time kNow = At("2026-12-31 00:00");

// The times of what stays, newest first.
std::vector<std::string> Kept(const std::vector<std::string>& texts, const KeepRules& rules,
                              absl::Time now = kNow) {
  const absl::StatusOr<std::vector<ForgetGroup>> groups =
      DecideForget(TakenAll(texts), rules, {}, now);
  EXPECT_THAT(groups, IsOkAndHolds(SizeIs(1)));
  std::vector<std::string> kept;
  for (const KeptSnapshot& snapshot : groups->front().keep) {
    kept.push_back(
        absl::FormatTime("%m-%d %H:%M", snapshot.snapshot.snapshot.time, absl::UTCTimeZone()));
  }
  EXPECT_EQ(groups->front().keep.size() + groups->front().remove.size(), texts.size());
  return kept;
}

TEST(GroupingTest, ReadsNames) {
  const absl::StatusOr<SnapshotGrouping> grouping = ParseGrouping("host,tags");
  ASSERT_THAT(grouping, IsOk());
  EXPECT_TRUE(grouping->by_host && !grouping->by_paths && grouping->by_tags);
  EXPECT_FALSE(ParseGrouping("")->by_host);
  EXPECT_THAT(ParseGrouping("host,color"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ForgetRulesTest, LastCountsSnapshots) {
  EXPECT_THAT(Kept({"2026-01-01 10:00", "2026-01-01 11:00", "2026-01-01 12:00"}, {.last = 2}),
              ElementsAre("01-01 12:00", "01-01 11:00"));
  EXPECT_THAT(Kept({"2026-01-01 10:00", "2026-01-01 11:00"}, {.last = kKeepAll}), SizeIs(2));
}

TEST(ForgetRulesTest, ADayKeepsItsNewest) {
  EXPECT_THAT(Kept({"2026-01-01 10:00", "2026-01-01 20:00", "2026-01-02 10:00", "2026-01-02 20:00",
                    "2026-01-05 09:00"},
                   {.daily = 2}),
              ElementsAre("01-05 09:00", "01-02 20:00"));
}

TEST(ForgetRulesTest, TheOldestStaysWhileThereIsRoom) {
  const std::vector<std::string> snapshots = {"2026-01-01 10:00", "2026-01-01 20:00",
                                              "2026-01-02 10:00"};
  EXPECT_THAT(Kept(snapshots, {.daily = 3}),
              ElementsAre("01-02 10:00", "01-01 20:00", "01-01 10:00"));
  EXPECT_THAT(Kept(snapshots, {.daily = 2}), ElementsAre("01-02 10:00", "01-01 20:00"));
  const auto groups = DecideForget(TakenAll(snapshots), {.daily = 3}, {}, kNow);
  EXPECT_THAT(groups->front().keep.back().reasons, ElementsAre("oldest daily snapshot"));
}

TEST(ForgetRulesTest, PeriodsBeginWhereTheCalendarSays) {
  // 2026-01-01 is a Thursday of week 1 of 2026, which began on December 29th.
  EXPECT_THAT(Kept({"2025-12-27 00:00", "2025-12-28 23:59", "2025-12-29 00:00", "2026-01-04 23:59",
                    "2026-01-05 00:00"},
                   {.weekly = 3}),
              ElementsAre("01-05 00:00", "01-04 23:59", "12-28 23:59"));
  EXPECT_THAT(Kept({"2025-12-31 23:00", "2026-01-01 00:00", "2026-01-31 00:00"}, {.yearly = 2}),
              ElementsAre("01-31 00:00", "12-31 23:00"));
  EXPECT_THAT(Kept({"2026-01-31 00:00", "2026-02-01 00:00", "2026-02-28 00:00"}, {.monthly = 2}),
              ElementsAre("02-28 00:00", "01-31 00:00"));
  EXPECT_THAT(Kept({"2026-02-01 09:59", "2026-02-01 10:00", "2026-02-01 10:59"}, {.hourly = 2}),
              ElementsAre("02-01 10:59", "02-01 09:59"));
}

TEST(ForgetRulesTest, DaysAreThoseOfTheZone) {
  const std::vector<std::string> snapshots = {"2026-01-01 10:00", "2026-01-01 21:00",
                                              "2026-01-01 23:00"};
  KeepRules rules = {.daily = 2};
  rules.zone = absl::FixedTimeZone(2 * 60 * 60);
  EXPECT_THAT(Kept(snapshots, rules), ElementsAre("01-01 23:00", "01-01 21:00"));
}

TEST(ForgetRulesTest, WithinCountsBackFromTheNewest) {
  const std::vector<std::string> snapshots = {"2026-02-20 12:00", "2026-02-25 12:00",
                                              "2026-02-26 12:00", "2026-03-05 11:00"};
  KeepRules rules;
  rules.within = {.days = 8};
  EXPECT_THAT(Kept(snapshots, rules), ElementsAre("03-05 11:00", "02-26 12:00", "02-25 12:00"));
  rules.within = {.months = 1};
  EXPECT_THAT(Kept(snapshots, rules), SizeIs(4));
  rules = KeepRules();
  rules.within_weekly = {.days = 8};
  EXPECT_THAT(Kept(snapshots, rules), ElementsAre("03-05 11:00", "02-26 12:00"));
}

TEST(ForgetRulesTest, ASnapshotOfTheFutureDoesNotMoveSpans) {
  KeepRules rules;
  rules.within = {.days = 2};
  EXPECT_THAT(Kept({"2026-01-01 12:00", "2026-01-02 12:00", "2031-01-01 00:00"}, rules,
                   At("2026-01-03 00:00")),
              ElementsAre("01-01 00:00", "01-02 12:00", "01-01 12:00"));
}

TEST(ForgetRulesTest, ASnapshotOfTheFutureStaysAndCountsForNothing) {
  const std::vector<std::string> snapshots = {"2026-01-01 12:00", "2026-01-02 12:00",
                                              "2099-01-01 00:00"};
  EXPECT_THAT(Kept(snapshots, {.last = 1}, At("2026-01-03 00:00")),
              ElementsAre("01-01 00:00", "01-02 12:00"));
  const auto groups = DecideForget(TakenAll(snapshots), {.last = 1}, {}, At("2026-01-03 00:00"));
  EXPECT_THAT(groups->front().keep.front().reasons, ElementsAre("dated in the future"));
  // Where all are, it is the clock that forgets which is wrong.
  EXPECT_THAT(Kept(snapshots, {.last = 1}, At("2025-01-03 00:00")), ElementsAre("01-01 00:00"));
}

TEST(ForgetRulesTest, AnyRuleKeeps) {
  KeepRules rules = {.last = 1};
  rules.tags = {{"gold", "eu"}, {"legal"}};
  const std::vector<std::string> snapshots = {"2026-01-01 00:00 gold", "2026-01-02 00:00 eu,gold",
                                              "2026-01-03 00:00 legal", "2026-01-04 00:00",
                                              "2026-01-05 00:00"};
  EXPECT_THAT(Kept(snapshots, rules), ElementsAre("01-05 00:00", "01-03 00:00", "01-02 00:00"));
}

TEST(ForgetRulesTest, GroupsDoNotCompete) {
  std::vector<StoredSnapshot> snapshots =
      TakenAll({"2026-01-01 00:00", "2026-01-02 00:00 x", "2026-01-03 00:00"});
  snapshots[0].snapshot.paths = {"/b", "/a"};
  snapshots[1].snapshot.paths = {"/a", "/b"};
  const auto by_paths = DecideForget(snapshots, {.last = 1}, {}, kNow);
  ASSERT_THAT(by_paths, IsOkAndHolds(SizeIs(2)));
  EXPECT_THAT((*by_paths)[0].paths, ElementsAre("/a", "/b"));
  EXPECT_THAT((*by_paths)[0].remove, SizeIs(1));
  EXPECT_THAT((*by_paths)[1].remove, IsEmpty());
  const auto by_tags = DecideForget(snapshots, {.last = 1},
                                    {.by_host = false, .by_paths = false, .by_tags = true}, kNow);
  ASSERT_THAT(by_tags, IsOkAndHolds(SizeIs(2)));
  EXPECT_THAT((*by_tags)[0].remove, SizeIs(1));
}

TEST(ForgetRulesTest, NeverEmptiesAGroup) {
  const std::vector<StoredSnapshot> snapshots = TakenAll({"2026-01-01 00:00"});
  EXPECT_THAT(DecideForget(snapshots, KeepRules(), {}, kNow),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no rule")));
  KeepRules rules;
  rules.tags = {{"gold"}};
  EXPECT_THAT(DecideForget(snapshots, rules, {}, kNow),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("every snapshot of host")));
  EXPECT_THAT(DecideForget({}, rules, {}, kNow), IsOkAndHolds(IsEmpty()));
}

class ForgetTest : public MaintenanceFixture {};

TEST_F(ForgetTest, RemovesSnapshotAndSidecar) {
  const Id first = BackUp(Image({1}));
  const Id second = BackUp(Image({2}));
  std::unique_ptr<Repository> repository = Open();
  ASSERT_THAT(repository->SaveLocator(ctx_, first, TreeLocator()), IsOk());
  ASSERT_THAT(Forget(first), IsOk());
  EXPECT_THAT(KeysBelow("snapshots/"), ElementsAre(FileKey(FileKind::kSnapshot, second)));
  EXPECT_THAT(KeysBelow("aux/"), IsEmpty());
  EXPECT_THAT(KeysBelow("locks/"), IsEmpty());
  EXPECT_THAT(Forget(first), IsOk());  // Gone already.
  ExpectClean();
}

TEST_F(ForgetTest, StopsWhenTheLockIsGone) {
  const Id id = BackUp(Image({1}));
  std::unique_ptr<Repository> repository = Open();
  const absl::StatusOr<std::unique_ptr<Lock>> lock = TakeLock(*repository);
  ASSERT_THAT(lock, IsOk());
  store_.RemoveObject(KeysBelow("locks/").front());
  EXPECT_THAT(RemoveSnapshots(ctx_, *repository, **lock, absl::MakeConstSpan(&id, 1)),
              StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(KeysBelow("snapshots/"), SizeIs(1));
}

}  // namespace
}  // namespace csidelta::repository::forget_test
