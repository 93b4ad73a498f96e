#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "base/check.h"

namespace csidelta::repository {

// How many packs are put at a time: few at first, twice as many while that moves more bytes each
// second, and fewer again when it does not. Puts that share a full line only make each other late.
// A round is as many puts as there are at a time. After the first, a round counts only if a pack
// waited: otherwise the line is not the bottleneck. Not thread-safe.
class UploadWindow {
 public:
  static constexpr int kPutsFirst = 8;
  static constexpr double kGain = 1.1;      // in bytes per second, that more puts must bring
  static constexpr int kRoundsToProbe = 8;  // without a gain, until more puts are tried again

  explicit UploadWindow(int puts_max) : puts_max_(puts_max), puts_(std::min(kPutsFirst, puts_max)) {
    CSIDELTA_CHECK(puts_max > 0);
  }

  int width() const { return puts_; }

  // A put of so many bytes has ended. Times are of Clock::Uptime().
  void Ended(int64_t bytes, absl::Duration began, absl::Duration ended, bool others_wait) {
    if (since_ == absl::InfiniteDuration()) {
      since_ = began;
    }
    bytes_ += bytes;
    has_waited_ = has_waited_ || others_wait;
    if (++ended_ < puts_) {
      return;
    }
    if (has_waited_ || bytes_per_second_ == 0) {
      Judge(static_cast<double>(bytes_) /
            std::max(absl::ToDoubleSeconds(ended - since_), kSecondsMin));
    }
    since_ = ended;
    bytes_ = 0;
    ended_ = 0;
    has_waited_ = false;
  }

 private:
  static constexpr double kSecondsMin = 1e-3;

  void Judge(double bytes_per_second) {
    const bool is_faster = bytes_per_second >= kGain * bytes_per_second_;
    const bool is_slower = 2 * bytes_per_second < bytes_per_second_;
    CSIDELTA_CHECK(puts_ > 0 && puts_ <= puts_max_);
    bytes_per_second_ = bytes_per_second;
    if (is_faster || (puts_ == proven_ && ++rounds_ >= kRoundsToProbe)) {
      proven_ = puts_;
      puts_ = std::min(2 * puts_, puts_max_);
      rounds_ = 0;
    } else if (puts_ > proven_) {
      puts_ = proven_;
    } else if (is_slower) {
      puts_ = proven_ = std::max(puts_ / 2, std::min(kPutsFirst, puts_max_));
    }
  }

  const int puts_max_;
  int puts_;
  int proven_ = 0;  // so many puts brought a gain
  int rounds_ = 0;
  double bytes_per_second_ = 0;  // of the last round
  // Of this round:
  absl::Duration since_ = absl::InfiniteDuration();
  int64_t bytes_ = 0;
  int ended_ = 0;
  bool has_waited_ = false;
};

}  // namespace csidelta::repository
