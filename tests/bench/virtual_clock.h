#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>
#include <stop_token>
#include <thread>

#include "absl/time/time.h"
#include "base/clock.h"

namespace csidelta::bench {

// A clock that goes on only while every thread of the process waits, and then to the moment at
// which the first of those that sleep by it wakes: so that processors cost no time, and a machine
// that is slow or busy shows the same figures. Whether a thread waits is what the kernel says of
// it, so a wait for anything else than this clock, a disk say, costs none either. Thread-safe.
class VirtualClock : public Clock {
 public:
  VirtualClock();
  ~VirtualClock() override;
  VirtualClock(const VirtualClock&) = delete;
  VirtualClock& operator=(const VirtualClock&) = delete;

  absl::Time Now() const override;
  bool SleepUntil(absl::Time wake_at, std::stop_token stop) const override;

 private:
  // Lets the time go on, until it is stopped.
  void Pace(const std::stop_token& stop);
  // Wakes those whose time has come when the first of them is due. `sleeps`: how many sleeps had
  // begun when it was seen that every thread waits; nothing is done when there is another by now.
  void GoOn(int64_t sleeps);
  int64_t sleeps() const;

  mutable std::mutex mutex_;
  mutable std::condition_variable_any woken_;
  absl::Time now_ = absl::UnixEpoch();               // under mutex_, as what follows
  mutable std::multiset<absl::Time> enqueue_table_;  // of those that sleep
  mutable int64_t sleeps_ = 0;                       // begun or ended so far
  std::jthread pacer_;
};

}  // namespace csidelta::bench
