#include "tests/bench/virtual_clock.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace csidelta::bench {
namespace {

// Between two looks at the threads: one that was just woken runs by then.
constexpr absl::Duration kLookEvery = absl::Microseconds(200);
constexpr int kLooksMin = 2;  // in a row that find every thread waiting

// Whether a thread of this process but the caller's runs, or waits to run.
bool AnyThreadRuns() {
  const std::string own = absl::StrCat(::gettid());
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == own) {
      continue;
    }
    std::string line;
    std::getline(std::ifstream(task.path() / "stat"), line);
    const std::size_t name_end = line.rfind(')');
    if (name_end != std::string::npos && name_end + 2 < line.size() && line[name_end + 2] != 'S') {
      return true;
    }
  }
  return false;
}

}  // namespace

VirtualClock::VirtualClock() : pacer_([this](const std::stop_token& stop) { Pace(stop); }) {}

VirtualClock::~VirtualClock() = default;

absl::Time VirtualClock::Now() const {
  const std::scoped_lock lock(mutex_);
  return now_;
}

bool VirtualClock::SleepUntil(absl::Time wake_at, std::stop_token stop) const {
  std::unique_lock lock(mutex_);
  const auto wake = enqueue_table_.insert(wake_at);
  ++sleeps_;
  const bool is_reached = woken_.wait(lock, std::move(stop), [&] { return now_ >= wake_at; });
  enqueue_table_.erase(wake);
  ++sleeps_;
  return is_reached;
}

int64_t VirtualClock::sleeps() const {
  const std::scoped_lock lock(mutex_);
  return sleeps_;
}

void VirtualClock::GoOn(int64_t sleeps) {
  const std::scoped_lock lock(mutex_);
  if (sleeps == sleeps_ && !enqueue_table_.empty() &&
      *enqueue_table_.begin() != absl::InfiniteFuture()) {
    now_ = std::max(now_, *enqueue_table_.begin());
    woken_.notify_all();
  }
}

void VirtualClock::Pace(const std::stop_token& stop) {
  int64_t seen = -1;
  int looks = 0;
  while (Clock::Real().SleepFor(kLookEvery, stop)) {
    const int64_t now = sleeps();
    looks = AnyThreadRuns() ? 0 : now == seen ? looks + 1 : 1;
    seen = now;
    if (looks >= kLooksMin) {
      GoOn(seen);
      looks = 0;
    }
  }
}

}  // namespace csidelta::bench
