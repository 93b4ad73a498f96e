#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/time/time.h"
#include "base/check.h"

namespace csidelta::repository {

// How many requests for packs, all puts or all gets, are under way at a time: few at first, twice
// as many while that moves more bytes each second, and fewer again when it does not. Requests that
// share a full line only make each other late. A round is as many requests as there are at a time.
// After the first, a round counts only if a request waited: otherwise the line is not the
// bottleneck. A store that refuses requests because of their number gets half as many. Not
// thread-safe.
class RequestWindow {
 public:
  static constexpr int kRequestsFirst = 8;
  static constexpr double kGain = 1.1;      // in bytes per second, that more requests must bring
  static constexpr int kRoundsToProbe = 8;  // without a gain, until more are tried again

  explicit RequestWindow(int requests_max)
      : requests_max_(requests_max), requests_(std::min(kRequestsFirst, requests_max)) {
    CSIDELTA_CHECK(requests_max > 0);
  }

  int width() const { return requests_; }

  // A request for so many bytes has ended. Times are of Clock::Uptime().
  void Ended(int64_t bytes, absl::Duration began, absl::Duration ended, bool others_wait) {
    if (since_ == absl::InfiniteDuration()) {
      since_ = began;
    }
    bytes_ += bytes;
    has_waited_ = has_waited_ || others_wait;
    if (++ended_ < requests_) {
      return;
    }
    if (has_waited_ || bytes_per_second_ == 0) {
      Judge(static_cast<double>(bytes_) /
            std::max(absl::ToDoubleSeconds(ended - since_), kSecondsMin));
    }
    BeginRound(ended);
  }

  // The store refused a request of that time at first. Those that were under way together count
  // once.
  void Refused(absl::Duration began, absl::Duration now) {
    if (began < refused_at_) {
      return;
    }
    refused_at_ = now;
    requests_ = proven_ = std::max(1, requests_ / 2);
    rounds_ = 0;
    bytes_per_second_ = std::numeric_limits<double>::quiet_NaN();  // neither faster nor slower
    BeginRound(now);
  }

 private:
  static constexpr double kSecondsMin = 1e-3;

  void BeginRound(absl::Duration now) {
    since_ = now;
    bytes_ = 0;
    ended_ = 0;
    has_waited_ = false;
  }

  void Judge(double bytes_per_second) {
    const bool is_faster = bytes_per_second >= kGain * bytes_per_second_;
    const bool is_slower = 2 * bytes_per_second < bytes_per_second_;
    CSIDELTA_CHECK(requests_ > 0 && requests_ <= requests_max_);
    bytes_per_second_ = bytes_per_second;
    if (is_faster || (requests_ == proven_ && ++rounds_ >= kRoundsToProbe)) {
      proven_ = requests_;
      requests_ = std::min(2 * requests_, requests_max_);
      rounds_ = 0;
    } else if (requests_ > proven_) {
      requests_ = proven_;
    } else if (is_slower && requests_ > kRequestsFirst) {
      requests_ = proven_ = std::max(requests_ / 2, kRequestsFirst);
    }
  }

  const int requests_max_;
  int requests_;
  int proven_ = 0;  // so many requests brought a gain
  int rounds_ = 0;
  double bytes_per_second_ = 0;  // of the last round
  absl::Duration refused_at_ = -absl::InfiniteDuration();
  // Of this round:
  absl::Duration since_ = absl::InfiniteDuration();
  int64_t bytes_ = 0;
  int ended_ = 0;
  bool has_waited_ = false;
};

}  // namespace csidelta::repository
