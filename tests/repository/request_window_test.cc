#include "repository/request_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace csidelta::repository::request_window_test {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr int64_t kPackBytes = 16 << 20;

// A line without other users, on which an upload always has a further pack.
class Line {
 public:
  explicit Line(int puts_max) : window_(puts_max) {}

  // All puts together, and each alone, in bytes per second.
  void Carry(double all, double each) {
    all_ = all;
    each_ = each;
  }

  // Runs until so many further puts have ended.
  void Put(int count) {
    for (int ended = 0; ended < count;) {
      while (std::ssize(left_) < window_.width()) {
        left_.push_back({.bytes = static_cast<double>(kPackBytes), .began = now_});
      }
      most_ = std::max<int>(most_, static_cast<int>(left_.size()));
      const double pace = std::min(each_, all_ / static_cast<double>(left_.size()));
      const auto first =
          std::min_element(left_.begin(), left_.end(),
                           [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
      const double seconds = first->bytes / pace;
      const absl::Duration began = first->began;
      left_.erase(first);
      for (Travelling& one : left_) {
        one.bytes -= seconds * pace;
      }
      now_ += absl::Seconds(seconds);
      window_.Ended(kPackBytes, began, now_, /*others_wait=*/true);
      ++ended;
    }
  }

  // Puts that have just begun end so.
  void Refuse(int count) {
    const absl::Duration began = now_;
    now_ += absl::Milliseconds(1);
    for (int i = 0; i < count; ++i) {
      window_.Refused(began, now_);
    }
  }

  int puts() const { return window_.width(); }
  int most() const { return most_; }
  double seconds() const { return absl::ToDoubleSeconds(now_); }

 private:
  struct Travelling {
    double bytes = 0;  // to go
    absl::Duration began;
  };

  RequestWindow window_;
  double all_ = kNoLimit;
  double each_ = kNoLimit;
  std::vector<Travelling> left_;
  absl::Duration now_ = absl::Hours(1);
  int most_ = 0;
};

TEST(RequestWindowTest, AFullLineKeepsFewPuts) {
  for (const double megabits : {1, 4, 20}) {
    Line line(32);
    line.Carry(megabits * 125'000, kNoLimit);
    line.Put(RequestWindow::kRequestsFirst + 2 * RequestWindow::kRequestsFirst);
    EXPECT_EQ(line.puts(), RequestWindow::kRequestsFirst);
    line.Put(1'000);
    EXPECT_LE(line.most(), 2 * RequestWindow::kRequestsFirst) << megabits << " Mbit/s";
  }
}

TEST(RequestWindowTest, AFarStoreGetsAllPutsAfterTwoRounds) {
  Line line(32);
  line.Carry(kNoLimit, 4e6);
  line.Put(RequestWindow::kRequestsFirst + 16);
  EXPECT_EQ(line.puts(), 32);
  line.Put(1'000);
  EXPECT_EQ(line.puts(), 32);
}

TEST(RequestWindowTest, APlentifulLineLosesNoTwentiethOfItsRate) {
  for (const double connections : {1.0, 3.0, 6.0, 12.0, 20.0, 31.0, 100.0}) {
    Line line(32);
    line.Carry(connections * 4e6, 4e6);
    line.Put(100);
    const double since = line.seconds();
    line.Put(2'000);
    const double rate = 2'000.0 * kPackBytes / (line.seconds() - since);
    EXPECT_GE(rate, 0.95 * std::min(connections, 32.0) * 4e6) << connections << " connections";
  }
}

TEST(RequestWindowTest, ALineThatBecomesSlowGetsFewerPutsAndLaterMoreAgain) {
  Line line(32);
  line.Carry(kNoLimit, 4e6);
  line.Put(200);
  ASSERT_EQ(line.puts(), 32);
  line.Carry(4e6, 4e6);
  line.Put(200);
  EXPECT_LE(line.puts(), 16);
  line.Carry(kNoLimit, 4e6);
  line.Put(400);
  EXPECT_EQ(line.puts(), 32);
}

TEST(RequestWindowTest, StaysWithinTheMost) {
  for (const int puts_max : {1, 2, 4, 5, 7}) {
    Line line(puts_max);
    line.Carry(kNoLimit, 4e6);
    line.Put(100);
    EXPECT_EQ(line.puts(), puts_max);
    EXPECT_EQ(line.most(), puts_max);
    line.Carry(1e5, 4e6);
    line.Put(100);
    EXPECT_GE(line.puts(), std::min(puts_max, RequestWindow::kRequestsFirst));
  }
}

// Then the device or the processors are the bottleneck, and the rate is not the line's.
TEST(RequestWindowTest, RoundsInWhichNoPackWaitsSayNothing) {
  RequestWindow window(32);
  absl::Duration now = absl::Hours(1);
  const auto end = [&](int count, absl::Duration each, bool others_wait) {
    for (int i = 0; i < count; ++i) {
      const absl::Duration began = now;
      window.Ended(kPackBytes, began, now += each, others_wait);
    }
  };
  end(RequestWindow::kRequestsFirst, absl::Seconds(1), /*others_wait=*/false);
  EXPECT_EQ(window.width(), 16);  // The first round has nothing to be compared with.
  for (int i = 1; i < 100; ++i) {
    end(16, absl::Milliseconds(1'000 / i), /*others_wait=*/false);
    EXPECT_EQ(window.width(), 16) << i;
  }
}

// All puts of a round may end at once, and take the packs that wait before others are full.
TEST(RequestWindowTest, ARoundCountsThoughFewPacksWait) {
  RequestWindow window(22);
  absl::Duration now = absl::Hours(1);
  for (const int puts : {RequestWindow::kRequestsFirst, 16, 22}) {
    EXPECT_EQ(window.width(), puts);
    const absl::Duration began = now;
    now += absl::Seconds(1);
    for (int ended = 0; ended < puts; ++ended) {
      window.Ended(kPackBytes, began, now, /*others_wait=*/ended < 22 - puts);
    }
  }
}

TEST(RequestWindowTest, ARefusalHalvesOnceForAllThatWereUnderWay) {
  Line line(32);
  line.Carry(kNoLimit, 4e6);
  line.Put(100);
  for (const int refused : {0, 1, 32}) {
    line.Refuse(refused);
    EXPECT_EQ(line.puts(), refused == 0 ? 32 : refused == 1 ? 16 : 8);
  }
  line.Put(RequestWindow::kRoundsToProbe * 8 - 1);
  EXPECT_EQ(line.puts(), 8);
  line.Put(200);
  EXPECT_EQ(line.puts(), 32);
}

TEST(RequestWindowTest, PutsThatTakeNoTimeAreNoFault) {
  RequestWindow window(8);
  for (int i = 0; i < 100; ++i) {
    window.Ended(0, absl::ZeroDuration(), absl::ZeroDuration(), i % 3 == 0);
  }
  EXPECT_GE(window.width(), RequestWindow::kRequestsFirst);
}

}  // namespace
}  // namespace csidelta::repository::request_window_test
