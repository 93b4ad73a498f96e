#include "cli/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_clock.h"

namespace csidelta::cli::progress_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(ProgressTest, ALineSaysStageRateAndTimeLeft) {
  const ProgressFacts facts{.stage = "transfer",
                            .done = int64_t{1} << 30,
                            .total = int64_t{8} << 30,
                            .elapsed = absl::Seconds(2)};
  EXPECT_EQ(ProgressLine(facts), "transfer  12.5%  1.0 GiB of 8.0 GiB, 512.0 MiB/s, 14.00 s left");
  const Json json = ProgressJson(facts);
  EXPECT_EQ(GetString(json, {"message_type"}), "status");
  EXPECT_EQ(GetInt(json, {"bytes_done"}), int64_t{1} << 30);
  EXPECT_EQ(GetInt(json, {"seconds_remaining"}), 14);
}

TEST(ProgressTest, WhatIsNotKnownIsNotSaid) {
  const ProgressFacts facts{
      .stage = "packs", .done = 3, .bytes = false, .elapsed = absl::Milliseconds(10)};
  EXPECT_EQ(ProgressLine(facts), "packs  3");
  EXPECT_EQ(FindJson(ProgressJson(facts), {"seconds_remaining"}), nullptr);
  EXPECT_EQ(GetInt(ProgressJson(facts), {"items_done"}), 3);
}

TEST(ProgressTest, MoreThanAllIsNoMoreThanAHundredPercent) {
  const ProgressFacts facts{.stage = "audit", .done = 30, .total = 20, .elapsed = absl::Seconds(1)};
  EXPECT_THAT(ProgressLine(facts), HasSubstr("100.0%"));
  EXPECT_EQ(facts.Left(), absl::ZeroDuration());
}

class ProgressMeterTest : public testing::Test {
 protected:
  Console Make(const ConsoleOptions& options) {
    const auto into = [](std::string& text) {
      return [&text](absl::string_view bytes) {
        text.append(bytes.data(), bytes.size());
        return true;
      };
    };
    return Console(into(out_), into(error_), options);
  }

  support::FakeClock clock_;
  std::string out_;
  std::string error_;
};

TEST_F(ProgressMeterTest, JsonHasOneLineASecond) {
  Console console = Make({.json = true, .error_is_terminal = true});
  ProgressMeter meter(console, clock_);
  for (int i = 0; i < 25; ++i) {
    meter.ReportBytes("transfer", i, 100);
    clock_.Advance(absl::Milliseconds(100));
  }
  EXPECT_EQ(std::count(out_.begin(), out_.end(), '\n'), 3);
  EXPECT_THAT(error_, IsEmpty());
}

TEST_F(ProgressMeterTest, ATerminalHasOneLineThatGoesAway) {
  Console console = Make({.error_is_terminal = true});
  {
    ProgressMeter meter(console, clock_);
    meter.ReportBytes("transfer", 1, 100);
    clock_.Advance(absl::Seconds(1));
    meter.ReportBytes("transfer", 2, 100);
  }
  EXPECT_THAT(error_, HasSubstr("transfer  2.0%"));
  EXPECT_EQ(error_.find('\n'), std::string::npos);
  EXPECT_TRUE(error_.ends_with("\r\x1b[K"));
  EXPECT_THAT(out_, IsEmpty());
}

TEST_F(ProgressMeterTest, NobodyIsToldWhoDidNotAsk) {
  for (const ConsoleOptions& options :
       {ConsoleOptions{}, ConsoleOptions{.json = true, .quiet = true},
        ConsoleOptions{.quiet = true, .error_is_terminal = true}}) {
    Console console = Make(options);
    ProgressMeter(console, clock_).ReportBytes("transfer", 1, 2);
    EXPECT_THAT(out_, IsEmpty());
    EXPECT_THAT(error_, IsEmpty());
  }
}

}  // namespace
}  // namespace csidelta::cli::progress_test
