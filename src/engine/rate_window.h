#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "absl/time/time.h"

namespace csidelta::engine {

// How fast work is by its last kSpan, and how long the rest takes. Work that arrives in large
// parts, like packs, is measured from part to part. Times are of one clock. Not thread-safe.
class RateWindow {
 public:
  static constexpr absl::Duration kSpan = absl::Seconds(10);

  struct Pace {
    // Done per second; nullopt before something was done. It decreases while parts are overdue.
    std::optional<double> rate = {};
    // Until nothing is left. nullopt unless the last kSpan suffice to know it: both of its halves
    // were equally fast, and no part is overdue.
    std::optional<absl::Duration> left = {};
  };

  // `left`: what is known to be left, 0 if that is unknown. REQUIRES that `now` never decreases. A
  // `done` that decreases starts over.
  void Add(absl::Duration now, int64_t done, int64_t left);
  Pace At(absl::Duration now) const;

 private:
  struct Sample {
    absl::Duration at;
    int64_t done = 0;
    int64_t left = 0;
  };

  // Where a part was done, or as much was found not to be left, ascending. The first is kSpan old,
  // or from the beginning.
  std::deque<Sample> samples_;
};

}  // namespace csidelta::engine
