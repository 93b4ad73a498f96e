#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

// Waits of tests, each with a timeout: after kAwaitMax of real time the program ends with a message
// that names what was awaited. Failing the test alone would not do, because its threads may wait
// for the same thing; and the time limit of a test program names nothing.
namespace csidelta::support {

inline constexpr std::chrono::milliseconds kAwaitMax = std::chrono::seconds(60);

[[noreturn]] inline void GiveUpAwaiting(std::string_view what, std::chrono::milliseconds waited) {
  std::cout << std::flush;
  std::cerr << "waited " << waited.count() << " ms for " << what << ", which did not come\n";
  std::abort();
}

// Waits on `changed` until `done`, which is called under `lock`.
template <typename Condition, typename Lock, typename Done>
void AwaitOn(Condition& changed, Lock& lock, std::string_view what, Done done,
             std::chrono::milliseconds wait_max = kAwaitMax) {
  if (!changed.wait_for(lock, wait_max, std::move(done))) {
    GiveUpAwaiting(what, wait_max);
  }
}

// Calls `done` until it returns true, for what has no condition variable.
template <typename Done>
void Await(std::string_view what, Done done, std::chrono::milliseconds wait_max = kAwaitMax) {
  const auto end = std::chrono::steady_clock::now() + wait_max;
  std::mutex mutex;
  std::condition_variable never;
  while (!done()) {
    if (std::chrono::steady_clock::now() >= end) {
      GiveUpAwaiting(what, wait_max);
    }
    std::unique_lock lock(mutex);
    never.wait_for(lock, std::chrono::milliseconds(1));
  }
}

// For a call that must return or a thread that must be joined: does the same when it is not
// destroyed in time.
class AwaitEnd {
 public:
  explicit AwaitEnd(std::string what, std::chrono::milliseconds wait_max = kAwaitMax)
      : thread_([this, what = std::move(what), wait_max] {
          std::unique_lock lock(mutex_);
          AwaitOn(
              changed_, lock, what, [this] { return is_over_; }, wait_max);
        }) {}
  ~AwaitEnd() {
    {
      const std::scoped_lock lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  AwaitEnd(const AwaitEnd&) = delete;
  AwaitEnd& operator=(const AwaitEnd&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

// Whether to assert a promise of less than half a minute of real time, which a machine keeps only
// where nothing else runs (CSI_DELTA_QUIET=1). Where it is left out, the output has a line
// "left out beside ...". Tests call it themselves: ./dev looks for those that do.
inline bool AssertsSeconds(std::string_view promise) {
  const char* const quiet = std::getenv("CSI_DELTA_QUIET");
  if (quiet != nullptr && std::string_view(quiet) == "1") {
    return true;
  }
  std::cout << "left out beside other work: " << promise << "\n";
  return false;
}

}  // namespace csidelta::support
