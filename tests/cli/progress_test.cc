#include "cli/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "cli/text.h"
#include "tests/support/fake_clock.h"

namespace csidelta::cli::progress_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(ProgressTest, ALineSaysStageRateAndTimeLeft) {
  const ProgressInfo info{.stage = "transfer",
                          .done = int64_t{1} << 30,
                          .total = int64_t{8} << 30,
                          .elapsed = absl::Seconds(2)};
  EXPECT_EQ(ProgressLine(info), "transfer  12.5%  1.0 GiB of 8.0 GiB, 512.0 MiB/s, 14.00 s left");
  const Json json = ProgressJson(info);
  EXPECT_EQ(GetString(json, {"message_type"}), "status");
  EXPECT_EQ(GetInt(json, {"bytes_done"}), int64_t{1} << 30);
  EXPECT_EQ(GetInt(json, {"seconds_remaining"}), 14);
}

TEST(ProgressTest, UnknownRatesAreOmitted) {
  const ProgressInfo info{
      .stage = "packs", .done = 3, .bytes = false, .elapsed = absl::Milliseconds(10)};
  EXPECT_EQ(ProgressLine(info), "packs  3");
  EXPECT_EQ(FindJson(ProgressJson(info), {"seconds_remaining"}), nullptr);
  EXPECT_EQ(GetInt(ProgressJson(info), {"items_done"}), 3);
}

TEST(ProgressTest, MoreThanAllIsNoMoreThanAHundredPercent) {
  const ProgressInfo info{.stage = "audit", .done = 30, .total = 20, .elapsed = absl::Seconds(1)};
  EXPECT_THAT(ProgressLine(info), HasSubstr("100.0%"));
  EXPECT_EQ(info.Left(), absl::ZeroDuration());
}

TEST(WaitTest, ALineSaysStateTimeAndWhatWasReported) {
  const WaitInfo info{.subject = "PVC shop/copy",
                      .state = "Pending",
                      .waits_for = "Provisioning: soon",
                      .elapsed = absl::Milliseconds(12'900)};
  EXPECT_EQ(WaitLine(info), "PVC shop/copy  Pending  12 s  Provisioning: soon");
  const Json json = WaitJson(info);
  EXPECT_EQ(GetString(json, {"message_type"}), "status");
  EXPECT_EQ(GetString(json, {"subject"}), "PVC shop/copy");
  EXPECT_EQ(GetString(json, {"state"}), "Pending");
  EXPECT_EQ(GetInt(json, {"seconds_elapsed"}), 12);
  EXPECT_EQ(GetString(json, {"waits_for"}), "Provisioning: soon");
  EXPECT_EQ(WaitLine({.subject = "PVC a/b", .state = "Pending", .waits_for = "", .elapsed = {}}),
            "PVC a/b  Pending  0 s");
}

TEST(WaitTest, ALongLineIsCutBetweenCharacters) {
  for (int length = 40; length < 90; ++length) {
    std::string text(static_cast<std::size_t>(length), 'x');
    for (int i = 0; i < 40; ++i) {
      text += "\u00e4";
    }
    const std::string line =
        WaitLine({.subject = "PVC a/b", .state = "Pending", .waits_for = text, .elapsed = {}});
    EXPECT_LE(line.size(), kWaitLineBytesMax);
    EXPECT_GE(line.size(), kWaitLineBytesMax - 1U);
    EXPECT_TRUE(line.ends_with("...")) << line;
    EXPECT_EQ(Printable(line), line) << "no half of a character";
  }
}

TEST(RateWindowTest, ARateNeedsTwoSamples) {
  RateWindow window;
  EXPECT_EQ(window.Rate(), std::nullopt);
  window.Add(absl::Seconds(5), 100);
  EXPECT_EQ(window.Rate(), std::nullopt);
  window.Add(absl::Seconds(5), 200);
  EXPECT_EQ(window.Rate(), std::nullopt);
  window.Add(absl::Seconds(6), 300);
  EXPECT_EQ(window.Rate(), 200);
}

// However often it is told.
TEST(RateWindowTest, OnlyTheLastTenSecondsCount) {
  for (const absl::Duration every : {absl::Milliseconds(1), absl::Seconds(1), absl::Seconds(4)}) {
    RateWindow window;
    int64_t done = 0;
    for (absl::Duration at; at < absl::Seconds(60); at += every) {
      window.Add(at, done);
      done += absl::ToInt64Milliseconds(every) * (at < absl::Seconds(40) ? 100 : 1);
    }
    ASSERT_TRUE(window.Rate().has_value());
    EXPECT_NEAR(*window.Rate(), 1000, 1) << every;
  }
}

// What is compared is fast, what is written is slow: at half of a stage the time left is that of
// the other half within a quarter, which the rate since the beginning would miss by far.
TEST(ProgressTest, TheTimeLeftFollowsTheRateOfNow) {
  RateWindow window;
  absl::Duration at;
  constexpr int64_t kTotal = 100'000;
  for (int64_t done = 0; done <= kTotal / 2; done += 100) {
    window.Add(at, done);
    at += done < kTotal / 4 ? absl::Milliseconds(10) : absl::Milliseconds(100);
  }
  const ProgressInfo info{.stage = "copy",
                          .done = kTotal / 2,
                          .total = kTotal,
                          .elapsed = at,
                          .recent_rate = window.Rate()};
  EXPECT_NEAR(absl::ToDoubleSeconds(info.Left()), 50, 12.5);
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

TEST_F(ProgressMeterTest, AWaitCountsFromItsFirstReport) {
  Console console = Make({.json = true});
  ProgressMeter meter(console, clock_);
  meter.ReportWait("PVC shop/a", "Pending", "");
  clock_.Advance(absl::Seconds(3));
  meter.ReportWait("PVC shop/a", "Pending", "Provisioning: \x1b[31msoon");
  clock_.Advance(absl::Seconds(3));
  meter.ReportWait("PVC shop/b", "Pending", "");
  EXPECT_EQ(std::count(out_.begin(), out_.end(), '\n'), 3);
  EXPECT_THAT(out_, HasSubstr("\"seconds_elapsed\":3"));
  EXPECT_EQ(out_.find("\"seconds_elapsed\":6"), std::string::npos) << "b has only begun";
  EXPECT_EQ(out_.find('\x1b'), std::string::npos);
}

TEST_F(ProgressMeterTest, AWaitIsSilentWithoutATerminal) {
  for (const ConsoleOptions& options :
       {ConsoleOptions{}, ConsoleOptions{.json = true, .quiet = true}}) {
    Console console = Make(options);
    ProgressMeter meter(console, clock_);
    meter.ReportWait("PVC shop/a", "Pending", "");
  }
  EXPECT_THAT(out_ + error_, IsEmpty());
}

TEST_F(ProgressMeterTest, EachStageHasARateOfItsOwn) {
  Console console = Make({.json = true});
  ProgressMeter meter(console, clock_);
  const auto report = [&](const char* stage, int64_t each) {
    for (int64_t i = 0; i <= 30; ++i) {
      meter.ReportBytes(stage, i * each, 1000);
      clock_.Advance(absl::Seconds(1));
    }
  };
  report("audit", 10);
  report("copy", 2);
  EXPECT_THAT(out_, HasSubstr("\"bytes_per_second\":10,"));
  const std::size_t last = out_.rfind("bytes_per_second");
  EXPECT_THAT(out_.substr(last), testing::StartsWith("bytes_per_second\":2,"));
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

TEST_F(ProgressMeterTest, ProgressIsSilentUnlessRequested) {
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
