#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/check.h"
#include "base/mutex.h"

namespace csidelta::backupitemactions {

// How many callers may do something at once, within this process. Thread-safe.
class Slots {
 public:
  explicit Slots(int count) : count_(count), free_(count) {}

  // Waits until one is free and takes it; Give() gives it back. DEADLINE_EXCEEDED and CANCELLED
  // from `ctx`.
  absl::Status Take(const CallContext& ctx) {
    while (!TakeIfFree()) {
      if (absl::Status status = ctx.Check(); !status.ok()) {
        return status;
      }
      ctx.clock->SleepFor(kLookEvery, ctx.stop);
    }
    return absl::OkStatus();
  }

  // REQUIRES that the caller took one.
  void Give() {
    const MutexLock lock(mutex_);
    CSIDELTA_CHECK(free_ < count_);
    ++free_;
  }

 private:
  // Short against the seconds that a holder takes: a caller whose time is over does not wait for
  // others.
  static constexpr absl::Duration kLookEvery = absl::Milliseconds(100);

  bool TakeIfFree() {
    const MutexLock lock(mutex_);
    if (free_ == 0) {
      return false;
    }
    --free_;
    return true;
  }

  const int count_;
  Mutex mutex_;
  int free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace csidelta::backupitemactions
