#pragma once

#include <errno.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace csidelta::support {

// Which of very many cases a test tries: all of them with CSI_DELTA_SWEEP=all, else a sample, drawn
// with the seed in CSI_DELTA_SWEEP, else with that of the day (yyyymmdd, UTC). While it lives, a
// failure of this thread has the command that draws the same sample again, as have the output and
// the property "sweep" of the test.
class SweepSample {
 public:
  SweepSample() : SweepSample(std::getenv("CSI_DELTA_SWEEP")) {}

  // As if CSI_DELTA_SWEEP were `text`; null where it is not set.
  explicit SweepSample(const char* text)
      : is_everything_(text != nullptr && std::string(text) == "all"),
        seed_(SeedOf(text)),
        trace_(__FILE__, __LINE__, Replay()) {
    std::cout << "sweep: " << Replay() << "\n";
    testing::Test::RecordProperty("sweep",
                                  is_everything_ ? "all" : std::string(absl::StrCat(seed_)));
  }
  SweepSample(const SweepSample&) = delete;
  SweepSample& operator=(const SweepSample&) = delete;

  bool is_everything() const { return is_everything_; }
  uint64_t seed() const { return seed_; }

  // The command that draws the same again.
  std::string Replay() const {
    const testing::TestInfo* const test = testing::UnitTest::GetInstance()->current_test_info();
    return absl::StrCat(
        "CSI_DELTA_SWEEP=", is_everything_ ? "all" : absl::StrCat(seed_), " ",
        program_invocation_name, " --gtest_filter=",
        test == nullptr ? "*" : absl::StrCat(test->test_suite_name(), ".", test->name()));
  }

  // All of `points`, or `count` of them.
  template <typename Point>
  std::vector<Point> Of(std::vector<Point> points, std::size_t count) const {
    if (!is_everything_ && count < points.size()) {
      std::mt19937_64 engine(seed_);
      std::shuffle(points.begin(), points.end(), engine);
      points.resize(count);
    }
    return points;
  }

  // The same of the numbers below `end`.
  std::vector<int64_t> Below(int64_t end, std::size_t count) const {
    std::vector<int64_t> points(static_cast<std::size_t>(end));
    std::iota(points.begin(), points.end(), 0);
    return Of(std::move(points), count);
  }

 private:
  static uint64_t SeedOf(const char* text) {
    uint64_t seed = 1;
    if (text == nullptr || *text == '\0') {
      const std::time_t now = std::time(nullptr);
      std::tm day{};
      ::gmtime_r(&now, &day);
      seed = static_cast<uint64_t>((day.tm_year + 1900) * 10'000 + (day.tm_mon + 1) * 100 +
                                   day.tm_mday);
    } else if (std::string(text) != "all") {
      EXPECT_TRUE(absl::SimpleAtoi(text, &seed)) << "CSI_DELTA_SWEEP is a seed or \"all\"";
    }
    return seed;
  }

  const bool is_everything_;
  const uint64_t seed_;
  const testing::ScopedTrace trace_;
};

}  // namespace csidelta::support
