#include "base/keep_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/time/civil_time.h"
#include "tests/support/status_matchers.h"

namespace csidelta::keep_rules_test {
namespace {

using support::IsOkAndHolds;
using support::StatusIs;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(CalendarSpanTest, ReadsAndWrites) {
  EXPECT_THAT(ParseCalendarSpan("2y5m7d3h"), IsOkAndHolds(CalendarSpan{2, 5, 7, 3}));
  EXPECT_THAT(ParseCalendarSpan("3h7d"), IsOkAndHolds(CalendarSpan{0, 0, 7, 3}));
  EXPECT_EQ(GoBack(absl::FromUnixSeconds(1'700'000'000), {0, 1, 1, 1}, absl::UTCTimeZone()),
            absl::FromUnixSeconds(1'697'231'600));
  EXPECT_EQ(FormatCalendarSpan({2, 0, 7, 0}), "2y7d");
  for (const char* text :
       {"", "7", "d", "7x", "7d7d", "-7d", "7 d", "1.5d", "99999999999d", "100001d", "7d3"}) {
    EXPECT_THAT(ParseCalendarSpan(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

// That the rules choose what restic would, see tests/repository/forget_test.cc and
// restic_maintenance_test.cc.
TEST(KeepRulesTest, ReasonsStandInTheOrderOfTheItems) {
  const absl::Time now = absl::FromUnixSeconds(1'700'000'000);
  const std::vector<std::string> gold = {"gold"};
  KeepRules rules = {.last = 1};
  rules.tags = {gold};
  const std::vector<DatedItem> items = {{.time = now + absl::Hours(1)},
                                        {.time = now},
                                        {.time = now - absl::Hours(1)},
                                        {.time = now - absl::Hours(2), .tags = gold}};
  EXPECT_THAT(DecideKeep(items, rules, now),
              ElementsAre(ElementsAre("dated in the future"), ElementsAre("last snapshot"),
                          IsEmpty(), ElementsAre("has tags gold")));
  EXPECT_THAT(DecideKeep({}, rules, now), IsEmpty());
}

TEST(KeepRulesTest, SpansCountBackByTheCalendarFromTheNewest) {
  const auto at = [](int month, int day, int hour) {
    return absl::FromCivil(absl::CivilSecond(2024, month, day, hour, 0, 0), absl::UTCTimeZone());
  };
  const std::vector<DatedItem> items = {
      {.time = at(3, 15, 12)}, {.time = at(2, 13, 10)}, {.time = at(2, 13, 9)}};
  const CalendarSpan span = {.years = 0, .months = 1, .days = 2, .hours = 3};
  KeepRules rules;
  rules.within = span;
  EXPECT_THAT(DecideKeep(items, rules, at(4, 1, 0)),
              ElementsAre(ElementsAre("within 1m2d3h"), ElementsAre("within 1m2d3h"), IsEmpty()));
  rules = KeepRules();
  rules.within_daily = span;
  EXPECT_THAT(DecideKeep(items, rules, at(4, 1, 0)),
              ElementsAre(ElementsAre("daily snapshot within 1m2d3h"),
                          ElementsAre("daily snapshot within 1m2d3h"), IsEmpty()));
}

TEST(KeepRulesTest, ClocksMayDifferALittle) {
  const absl::Time now = absl::FromUnixSeconds(1'700'000'000);
  EXPECT_FALSE(IsOfTheFuture(now + kClockSkewMax, now));
  EXPECT_TRUE(IsOfTheFuture(now + kClockSkewMax + absl::Nanoseconds(1), now));
}

}  // namespace
}  // namespace csidelta::keep_rules_test
