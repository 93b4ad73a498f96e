#include "datamover/daily_window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace csidelta::datamover::daily_window_test {
namespace {

absl::Time At(int hour, int minute, int second = 0) {
  return absl::FromCivil(absl::CivilSecond(2026, 2, 28, hour, minute, second), absl::UTCTimeZone());
}

std::vector<DailyWindow> Windows(std::vector<const char*> texts) {
  std::vector<DailyWindow> windows;
  for (const char* text : texts) {
    windows.push_back(ParseDailyWindow(text).value());
  }
  return windows;
}

TEST(DailyWindowTest, IsReadAsHoursAndMinutes) {
  EXPECT_EQ(ParseDailyWindow("22:00-06:30"), (DailyWindow{22 * 60, 6 * 60 + 30}));
  EXPECT_EQ(ParseDailyWindow("00:00-24:00"), (DailyWindow{0, 24 * 60}));
  EXPECT_EQ(ParseDailyWindow("23:59-00:00"), (DailyWindow{23 * 60 + 59, 0}));
  for (const char* wrong : {"", "22:00", "22:00-6:00", "22-06", "24:00-06:00", "22:60-23:00",
                            "22:00-24:01", "22:00-22:00", "-1:00-06:00", "2a:00-06:00",
                            "22:00 06:00", "22:00-06:00 ", "22.00-06.00"}) {
    EXPECT_EQ(ParseDailyWindow(wrong), std::nullopt) << wrong;
  }
}

TEST(DailyWindowTest, IsOpenFromItsFirstMinuteAndNotInItsLast) {
  const std::vector<DailyWindow> noon = Windows({"12:00-13:30"});
  EXPECT_FALSE(IsOpen(noon, At(11, 59, 59)));
  EXPECT_TRUE(IsOpen(noon, At(12, 0)));
  EXPECT_TRUE(IsOpen(noon, At(13, 29, 59)));
  EXPECT_FALSE(IsOpen(noon, At(13, 30)));
  const std::vector<DailyWindow> night = Windows({"22:00-06:00"});
  EXPECT_TRUE(IsOpen(night, At(22, 0)));
  EXPECT_TRUE(IsOpen(night, At(0, 0)));
  EXPECT_TRUE(IsOpen(night, At(5, 59)));
  EXPECT_FALSE(IsOpen(night, At(6, 0)));
  EXPECT_FALSE(IsOpen(night, At(21, 59)));
  EXPECT_TRUE(IsOpen({}, At(3, 0))) << "none: always";
  EXPECT_TRUE(IsOpen(Windows({"00:00-24:00"}), At(23, 59, 59)));
}

TEST(DailyWindowTest, TheNextOneOpensTodayOrTomorrow) {
  const std::vector<DailyWindow> both = Windows({"22:00-06:00", "12:00-13:00"});
  EXPECT_EQ(NextOpening(both, At(7, 0)), At(12, 0));
  EXPECT_EQ(NextOpening(both, At(12, 0)), At(22, 0)) << "later, not now";
  EXPECT_EQ(NextOpening(both, At(23, 0)), At(12, 0) + absl::Hours(24));
  EXPECT_EQ(FormatTimeOfDay(At(9, 5)), "09:05");
}

}  // namespace
}  // namespace csidelta::datamover::daily_window_test
