#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>

#include "absl/time/time.h"
#include "base/clock.h"
#include "tests/support/await.h"

namespace csidelta::support {

// A clock that stands still until the test moves it. Sleepers wake when Advance() reaches their
// time. With auto-advance on, a sleep moves the clock itself and returns at once: for code that
// polls. Thread-safe.
class FakeClock : public Clock {
 public:
  explicit FakeClock(absl::Time start = absl::FromUnixSeconds(1'700'000'000)) : now_(start) {}

  absl::Time Now() const override {
    std::scoped_lock lock(mutex_);
    return now_ + set_by_;
  }
  absl::Duration Uptime() const override {
    std::scoped_lock lock(mutex_);
    return now_ - absl::UnixEpoch();
  }

  bool SleepUntil(absl::Time wake_at, std::stop_token stop) const override {
    std::unique_lock lock(mutex_);
    if (stop.stop_requested()) {
      return false;
    }
    wake_at -= set_by_;
    if (auto_advance_ && wake_at != absl::InfiniteFuture()) {
      now_ = wake_at > now_ ? wake_at : now_;
      changed_.notify_all();
      return true;
    }
    return AwaitTime(lock, wake_at, stop);
  }

  void Advance(absl::Duration step) {
    std::scoped_lock lock(mutex_);
    now_ += step;
    changed_.notify_all();
  }

  // Sets the time of day, and nothing else: who sleeps sleeps as long.
  void SetForward(absl::Duration step) {
    std::scoped_lock lock(mutex_);
    set_by_ += step;
  }

  // Blocks until at least `count` threads sleep on this clock.
  void AwaitSleepers(int count) const {
    std::unique_lock lock(mutex_);
    AwaitOn(changed_, lock, std::to_string(count) + " threads to sleep on the clock",
            [&] { return sleepers_ >= count; });
  }

  void SetAutoAdvance(bool on) {
    std::scoped_lock lock(mutex_);
    auto_advance_ = on;
  }
  bool auto_advance() const {
    std::scoped_lock lock(mutex_);
    return auto_advance_;
  }

 protected:
  // A sleep that waits for the clock, also one that advances by itself.
  bool SleepUntilMoved(absl::Time wake_at, const std::stop_token& stop) const {
    std::unique_lock lock(mutex_);
    return AwaitTime(lock, wake_at - set_by_, stop);
  }

 private:
  bool AwaitTime(std::unique_lock<std::mutex>& lock, absl::Time wake_at,
                 const std::stop_token& stop) const {
    ++sleepers_;
    changed_.notify_all();
    if (!changed_.wait_for(lock, stop, kSleepMax, [&] { return now_ >= wake_at; }) &&
        !stop.stop_requested()) {
      GiveUpAwaiting("the test to move its clock on", kSleepMax);
    }
    --sleepers_;
    return !stop.stop_requested();
  }

  // Of the machine's time: longer than any test lets a thread sleep in the background.
  static constexpr std::chrono::milliseconds kSleepMax = std::chrono::minutes(5);

  mutable std::mutex mutex_;
  mutable std::condition_variable_any changed_;
  mutable absl::Time now_;
  absl::Duration set_by_;  // How much the time of day is ahead of now_.
  mutable int sleepers_ = 0;
  bool auto_advance_ = false;
};

}  // namespace csidelta::support
