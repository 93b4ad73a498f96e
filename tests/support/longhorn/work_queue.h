#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/time/time.h"

namespace csidelta::longhorn_stand_in {

// What a key names: an object to reconcile, or the volume whose engine is to be looked at.
enum class Part { kSnapshot, kVolume, kEngine, kMonitor };

struct WorkKey {
  Part part = Part::kSnapshot;
  std::string name = {};

  auto operator<=>(const WorkKey&) const = default;
};

// Keys that are due at a time, each once; those that failed later and later. Thread-safe.
class WorkQueue {
 public:
  // Of what fails: the first and the longest time until it is tried again.
  static constexpr absl::Duration kRetryFirst = absl::Seconds(1);
  static constexpr absl::Duration kRetryMax = absl::Seconds(30);

  // One that waits already is due at the earlier time.
  void Add(const WorkKey& key, absl::Time due) {
    std::scoped_lock lock(mutex_);
    ++added_;
    AddLocked(key, due);
  }
  void AddAfterFailure(const WorkKey& key, absl::Time now) {
    std::scoped_lock lock(mutex_);
    ++added_;
    absl::Duration& delay = delays_[key];
    delay = delay == absl::ZeroDuration() ? kRetryFirst : std::min(delay * 2, kRetryMax);
    AddLocked(key, now + delay);
  }
  void Succeeded(const WorkKey& key) {
    std::scoped_lock lock(mutex_);
    delays_.erase(key);
  }
  std::optional<WorkKey> TakeDue(absl::Time now) {
    std::scoped_lock lock(mutex_);
    if (order_.empty() || order_.begin()->first > now) {
      return std::nullopt;
    }
    WorkKey key = order_.begin()->second;
    order_.erase(order_.begin());
    due_.erase(key);
    return key;
  }
  absl::Time next_due() const {
    std::scoped_lock lock(mutex_);
    return order_.empty() ? absl::InfiniteFuture() : order_.begin()->first;
  }
  // Since the beginning, also of keys that waited already.
  int64_t added() const {
    std::scoped_lock lock(mutex_);
    return added_;
  }

 private:
  void AddLocked(const WorkKey& key, absl::Time due) {
    const auto [waiting, is_new] = due_.try_emplace(key, due);
    if (!is_new) {
      if (waiting->second <= due) {
        return;
      }
      order_.erase({waiting->second, key});
      waiting->second = due;
    }
    order_.emplace(due, key);
  }

  mutable std::mutex mutex_;
  std::map<WorkKey, absl::Time> due_;
  std::set<std::pair<absl::Time, WorkKey>> order_;
  std::map<WorkKey, absl::Duration> delays_;
  int64_t added_ = 0;
};

}  // namespace csidelta::longhorn_stand_in
