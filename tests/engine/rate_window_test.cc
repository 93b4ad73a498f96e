#include "engine/rate_window.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

namespace csidelta::engine::rate_window_test {
namespace {

// Work of `total` that arrives in parts, `per_second` of it, and half as much from `slower_at` on.
struct Work {
  int64_t total = 0;
  int64_t part = 0;
  double per_second = 0;
  absl::Duration slower_at = absl::InfiniteDuration();

  absl::Duration End() const { return At(total); }
  absl::Duration At(int64_t done) const {
    const absl::Duration at = absl::Seconds(static_cast<double>(done) / per_second);
    return at <= slower_at ? at : slower_at + 2 * (at - slower_at);
  }
};

// Calls `look` in each second, until all is done.
void WatchEachSecond(const Work& work, const auto& look) {
  RateWindow window;
  int64_t done = 0;
  window.Add(absl::ZeroDuration(), 0, work.total);
  for (absl::Duration now; now < work.End(); now += absl::Seconds(1)) {
    while (done < work.total && work.At(done + work.part) <= now) {
      done += work.part;
      window.Add(work.At(done), done, work.total - done);
    }
    window.Add(now, done, work.total - done + absl::ToInt64Seconds(now) % 3);
    look(now, window);
  }
}

TEST(RateWindowTest, ARateNeedsTwoSamples) {
  RateWindow window;
  EXPECT_EQ(window.At(absl::Seconds(5)).rate, std::nullopt);
  EXPECT_EQ(window.At(absl::Seconds(5)).left, std::nullopt);
  window.Add(absl::Seconds(5), 100, 0);
  EXPECT_EQ(window.At(absl::Seconds(5)).rate, std::nullopt);
  window.Add(absl::Seconds(5), 200, 0);
  EXPECT_EQ(window.At(absl::Seconds(5)).rate, std::nullopt);
  window.Add(absl::Seconds(6), 300, 0);
  EXPECT_EQ(window.At(absl::Seconds(6)).rate, 200);
}

TEST(RateWindowTest, OnlyTheLastTenSecondsCountHoweverOftenItIsTold) {
  for (const absl::Duration every : {absl::Milliseconds(1), absl::Seconds(1), absl::Seconds(4)}) {
    RateWindow window;
    int64_t done = 0;
    absl::Duration at;
    for (; at < absl::Seconds(60); at += every) {
      window.Add(at, done, 0);
      done += absl::ToInt64Milliseconds(every) * (at < absl::Seconds(40) ? 100 : 1);
    }
    ASSERT_TRUE(window.At(at).rate.has_value());
    EXPECT_NEAR(*window.At(at).rate, 1000, 1) << every;
  }
}

// Neither the moment between two parts counts, nor what is left by a little more or less.
TEST(RateWindowTest, LargePartsAreMeasuredFromPartToPart) {
  const Work work{.total = 4000, .part = 40, .per_second = 10};
  int known = 0;
  WatchEachSecond(work, [&](absl::Duration now, const RateWindow& window) {
    if (now < RateWindow::kSpan) {
      EXPECT_EQ(window.At(now).left, std::nullopt) << now;
      return;
    }
    EXPECT_NEAR(window.At(now).rate.value_or(0), 10, 0.1) << now;
    if (const std::optional<absl::Duration> left = window.At(now).left; left.has_value()) {
      ++known;
      EXPECT_NEAR(absl::ToDoubleSeconds(*left), absl::ToDoubleSeconds(work.End() - now), 0.1);
    }
  });
  EXPECT_GT(known, 380);
}

// What is said from 15 seconds after a change on is good within 30 percent.
TEST(RateWindowTest, TheTimeLeftIsKnownSoonAfterTheSpeedChanged) {
  const Work work{.total = 2000, .part = 20, .per_second = 20, .slower_at = absl::Seconds(50)};
  int known = 0;
  bool was_unknown = false;
  WatchEachSecond(work, [&](absl::Duration now, const RateWindow& window) {
    const std::optional<absl::Duration> left = window.At(now).left;
    was_unknown |= now > work.slower_at && !left.has_value();
    if (now >= work.slower_at + absl::Seconds(15) && left.has_value()) {
      ++known;
      const double truth = absl::ToDoubleSeconds(work.End() - now);
      EXPECT_NEAR(absl::ToDoubleSeconds(*left), truth, 0.3 * truth) << now;
    }
  });
  EXPECT_TRUE(was_unknown) << "while both speeds are in the window";
  EXPECT_GT(known, 80);
}

TEST(RateWindowTest, AStandstillIsSeen) {
  RateWindow window;
  for (int64_t i = 0; i <= 30; ++i) {
    window.Add(absl::Seconds(i), 10 * i, 1000 - 10 * i);
  }
  EXPECT_TRUE(window.At(absl::Seconds(31)).left.has_value());
  double before = window.At(absl::Seconds(31)).rate.value_or(0);
  EXPECT_NEAR(before, 10, 0.1);
  for (int64_t i = 32; i < 60; ++i) {
    const double rate = window.At(absl::Seconds(i)).rate.value_or(0);
    EXPECT_LT(rate, before) << i;
    before = rate;
    EXPECT_TRUE(i < 33 || !window.At(absl::Seconds(i)).left.has_value()) << i;
  }
  EXPECT_LT(before, 1);
}

TEST(RateWindowTest, WhatIsFoundUnchangedShortensTheTimeLeft) {
  RateWindow window;
  for (int64_t i = 0; i <= 20; ++i) {
    window.Add(absl::Seconds(i), 0, 1000 - 10 * i);
  }
  EXPECT_EQ(window.At(absl::Seconds(20)).rate, 0);
  EXPECT_EQ(window.At(absl::Seconds(20)).left, absl::Seconds(80));
}

}  // namespace
}  // namespace csidelta::engine::rate_window_test
