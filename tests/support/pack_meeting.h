#pragma once

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "repository/request_window.h"
#include "tests/support/await.h"
#include "tests/support/watched_store.h"

namespace csidelta::support {

// Holds every put of a pack until as many as are wanted travel at the same time: what a network
// that is far away does, without the time. The first few end when they have met: a writer begins
// with them alone. Ends the program when they never meet. Thread-safe.
class PackMeeting {
 public:
  PackMeeting(WatchedStore& store, int wanted) : wanted_(wanted) {
    store.before_put = [this](const std::string& key) { Begin(key); };
    store.after_put = [this](const std::string& key) { End(key); };
  }

  // The most that ever travelled at the same time.
  int most() const {
    std::scoped_lock lock(mutex_);
    return most_;
  }

 private:
  static bool IsPack(const std::string& key) { return absl::StartsWith(key, "data/"); }

  void Begin(const std::string& key) {
    if (!IsPack(key)) {
      return;
    }
    std::unique_lock lock(mutex_);
    most_ = std::max(most_, ++travelling_);
    changed_.notify_all();
    const int needed = ++begun_ <= kPutsFirst ? std::min<int>(kPutsFirst, wanted_) : wanted_;
    AwaitOn(changed_, lock, absl::StrCat(needed, " packs to travel at the same time"),
            [&] { return most_ >= needed; });
  }

  void End(const std::string& key) {
    std::scoped_lock lock(mutex_);
    travelling_ -= IsPack(key) ? 1 : 0;
  }

  static constexpr int kPutsFirst = repository::RequestWindow::kRequestsFirst;

  const int wanted_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int begun_ = 0;
  int travelling_ = 0;
  int most_ = 0;
};

}  // namespace csidelta::support
