#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

#include "base/check.h"

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
    std::unique_lock lock(mutex_);
    const bool woken = changed_.wait(lock, stop, [&] {
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
    std::unique_lock lock(mutex_);
    const bool woken = changed_.wait(lock, stop, [&] { return closed_ || !items_.empty(); });
    if (!woken || items_.empty() || stop.stop_requested()) {
      return std::nullopt;
    }
    return TakeFirst();
  }

  // The item that is there now, if any.
  std::optional<T> TryPop() {
    std::scoped_lock lock(mutex_);
    return items_.empty() ? std::nullopt : std::optional<T>(TakeFirst());
  }

  // No more items will come.
  void Close() {
    std::scoped_lock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  int64_t bytes() const {
    std::scoped_lock lock(mutex_);
    return bytes_;
  }

 private:
  // REQUIRES mutex_ held, and an item.
  T TakeFirst() {
    T item = std::move(items_.front().first);
    bytes_ -= items_.front().second;
    items_.pop_front();
    changed_.notify_all();
    return item;
  }

  const int64_t bytes_max_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::pair<T, int64_t>> items_;
  int64_t bytes_ = 0;
  bool closed_ = false;
};

}  // namespace csidelta
