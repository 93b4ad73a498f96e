#include "report/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "report/page.h"
#include "tests/report/sample_report.h"

namespace csidelta::report::summary_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

struct CronCase {
  const char* cron;
  bool on_monday_30th;
  bool on_sunday_29th;
};

TEST(RunsOnTest, ASchedulesDaysAreThoseOfItsFields) {
  constexpr CronCase kCases[] = {
      {"0 2 * * *", true, true},
      {"@daily", true, true},
      {"@every 24h", true, true},
      {"@weekly", false, true},
      {"@monthly", false, false},
      {"0 2 * * 1", true, false},
      {"0 2 * * 7", false, true},
      {"0 2 * * 0", false, true},
      {"0 2 * * MON-FRI", true, false},
      {"0 2 * * sun,tue", false, true},
      {"0 2 29 * 1", true, true},
      {"0 2 */2 * *", false, true},
      {"0 2 30 nov *", true, false},
      {"0 2 * 1-10 *", false, false},
      {"CRON_TZ=UTC 0 2 30 * *", true, false},
      // What is none runs never.
      {"", false, false},
      {"0 2 * *", false, false},
      {"0 2 x * *", false, false},
      {"0 2 */0 * *", false, false},
      {"0 2 * eb *", false, false},
      {"0 2 40 * *", false, false},
  };
  for (const CronCase& test : kCases) {
    EXPECT_EQ(RunsOn(test.cron, absl::CivilDay(2026, 11, 30)), test.on_monday_30th) << test.cron;
    EXPECT_EQ(RunsOn(test.cron, absl::CivilDay(2026, 11, 29)), test.on_sunday_29th) << test.cron;
  }
}

TEST(SummaryTest, AGoodReportSaysSo) {
  const Report report = SampleReport(3, 30);
  const Summary summary = Summarize(report);
  EXPECT_TRUE(summary.is_good);
  EXPECT_EQ(summary.headline, "All 3 volumes have their newest backup");
  EXPECT_THAT(summary.problems, IsEmpty());
  EXPECT_EQ(summary.days, 31);
  const VolumeView& view = summary.volumes[0];
  EXPECT_EQ(view.good, 30);
  EXPECT_EQ(view.missing, 0);
  EXPECT_EQ(view.chain_length, 30);
  ASSERT_NE(view.chain_start, nullptr);
  EXPECT_EQ(view.chain_start->mode, "full");
  EXPECT_EQ(view.days.front(), DayState::kNone);
  EXPECT_EQ(view.days[1], DayState::kGoodFull);
  EXPECT_EQ(view.days.back(), DayState::kGood);
  // 256 MiB of 99.8 GiB.
  ASSERT_TRUE(view.audit_detects.has_value());
  EXPECT_NEAR(*view.audit_detects, 0.994, 0.002);
}

TEST(SummaryTest, NamesVolumesWithoutAGoodBackupFirst) {
  Report report = SampleReport(3, 10);
  auto& backups = report.volumes[2].backups;
  Fail(backups[8], "volume shop/volume-10002: no room in 507/1");
  Fail(backups[9], "volume shop/volume-10002: no room in 507/2; free some");
  report.volumes[1].backups.clear();
  report.volumes[1].known_since = report.since;
  const Summary summary = Summarize(report);
  EXPECT_FALSE(summary.is_good);
  EXPECT_EQ(summary.headline,
            "2 of 3 volumes have no good backup since 28 Nov 2026, 1 of them none at all");
  EXPECT_TRUE(summary.volumes[0].is_behind);
  EXPECT_TRUE(summary.volumes[1].is_behind);
  EXPECT_EQ(summary.volumes[2].entry->name, "shop/volume-10000");
  ASSERT_EQ(summary.problems.size(), 2U);
  EXPECT_EQ(summary.problems[0].title, "no room in 507/2");
  EXPECT_EQ(summary.problems[0].next_step, "free some");
  EXPECT_EQ(summary.problems[0].backups, 2) << "they differ in numbers alone";
  EXPECT_EQ(summary.problems[1].kind, ProblemKind::kMissing);
  EXPECT_EQ(summary.problems[1].backups, 9);
}

TEST(SummaryTest, AnOldFailureDoesNotMakeAVolumeBehind) {
  Report report = SampleReport(1, 10);
  Fail(report.volumes[0].backups[3], "no room");
  const Summary summary = Summarize(report);
  EXPECT_TRUE(summary.is_good);
  EXPECT_EQ(summary.problems.at(0).next_step, "csi-delta doctor looks for the cause");
  EXPECT_EQ(summary.volumes[0].days[4], DayState::kFailed);
}

TEST(SummaryTest, WithoutScheduleTheUsualGapTellsWhatIsMissing) {
  Report report = SampleReport(1, 28);
  VolumeEntry& volume = report.volumes[0];
  volume.schedules.clear();
  int next = 0;
  std::erase_if(volume.backups, [&next](const BackupEntry&) {
    const int day = next++;
    return day % 7 != 0 || day == 14;  // weekly, and one is missing
  });
  const VolumeView view = Summarize(report).volumes[0];
  EXPECT_EQ(view.good, 3);
  EXPECT_EQ(view.missing, 1);
  EXPECT_EQ(view.days[15], DayState::kMissing);
  EXPECT_EQ(view.days[16], DayState::kNotDue);
  EXPECT_FALSE(view.is_behind);
}

TEST(SummaryTest, DamageComesBeforeAllElse) {
  Report report = SampleReport(2, 10);
  report.volumes[1].finding = "pack 6e0ca2f1 is damaged";
  report.volumes[1].backups[4].state = BackupState::kBroken;
  Fail(report.volumes[0].backups[9], "no room");
  report.volumes[0].backups[5].mode = "full";
  report.volumes[0].backups[5].reason = "base-snapshot-gone";
  const Summary summary = Summarize(report);
  EXPECT_THAT(summary.headline, testing::StartsWith("1 backup cannot be restored; 1 of 2 volumes"));
  ASSERT_EQ(summary.problems.size(), 3U);
  EXPECT_EQ(summary.problems[0].title, "pack 6e0ca2f1 is damaged");
  EXPECT_EQ(summary.problems[2].kind, ProblemKind::kFull);
  EXPECT_THAT(summary.problems[2].next_step, HasSubstr("Keep the newest volume snapshot"));
}

TEST(SummaryTest, AVolumeThatIsGoneIsNotBehind) {
  Report report = SampleReport(2, 10);
  report.volumes[0].gone_at = SampleNow() - absl::Hours(24 * 4);
  report.volumes[0].backups.resize(5);
  Fail(report.volumes[0].backups[4], "no room");
  const Summary summary = Summarize(report);
  EXPECT_TRUE(summary.is_good);
  EXPECT_EQ(summary.volumes[0].days.back(), DayState::kNone);
  EXPECT_THAT(summary.lines[0], HasSubstr("0 missing"));
}

}  // namespace
}  // namespace csidelta::report::summary_test
