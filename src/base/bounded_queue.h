#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <optional>
#include <stop_token>
#include <utility>

#include "base/check.h"
#include "base/mutex.h"

namespace csidelta {

// First in, first out between threads, bounded by the bytes that its items weigh. An item heavier
// than the bound passes alone. Once Close() was called nothing more goes in, and what is in comes
// out. Thread-safe.
template <typename T>
class BoundedQueue {
 public:
  // REQUIRES bytes_max > 0.
  explicit BoundedQueue(int64_t bytes_max) : bytes_max_(bytes_max) {
    CSIDELTA_CHECK(bytes_max > 0);
  }

  // Blocks until there is room. False, and `item` is dropped, when `stop` was requested or the
  // queue is closed.
  bool Push(T item, int64_t weight_bytes, std::stop_token stop) {
    MutexLock lock(mutex_);
    const bool woken = changed_.wait(lock, stop, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return closed_ || items_.empty() || bytes_ + weight_bytes <= bytes_max_;
    });
    if (!woken || closed_ || stop.stop_requested()) {
      return false;
    }
    items_.emplace_back(std::move(item), weight_bytes);
    bytes_ += weight_bytes;
    changed_.notify_all();
    return true;
  }

  // Blocks until there is an item. Nothing when `stop` was requested, or when the queue is closed
  // and empty.
  std::optional<T> Pop(std::stop_token stop) {
    MutexLock lock(mutex_);
    const bool woken = changed_.wait(lock, stop, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return closed_ || !items_.empty();
    });
    if (!woken || items_.empty() || stop.stop_requested()) {
      return std::nullopt;
    }
    return TakeFirst();
  }

  // The item that is there now, if any.
  std::optional<T> TryPop() {
    const MutexLock lock(mutex_);
    return items_.empty() ? std::nullopt : std::optional<T>(TakeFirst());
  }

  // No more items will come.
  void Close() {
    const MutexLock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  int64_t bytes() const {
    const MutexLock lock(mutex_);
    return bytes_;
  }

 private:
  // REQUIRES an item.
  T TakeFirst() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    T item = std::move(items_.front().first);
    bytes_ -= items_.front().second;
    items_.pop_front();
    changed_.notify_all();
    return item;
  }

  const int64_t bytes_max_;
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::pair<T, int64_t>> items_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace csidelta
