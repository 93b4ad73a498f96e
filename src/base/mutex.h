#pragma once

#include <mutex>

#include "absl/base/thread_annotations.h"  // IWYU pragma: export

namespace csidelta {

// A std::mutex that clang's thread-safety analysis knows
// (https://clang.llvm.org/docs/ThreadSafetyAnalysis.html), and that the thread sanitizer sees,
// unlike an absl::Mutex of a library that was built without it. What it guards says so:
//
//   Mutex mutex_;
//   int count_ ABSL_GUARDED_BY(mutex_) = 0;
//   void AddLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
//
// `./dev lint` fails where either is touched without the lock. Not recursive. Lock it by MutexLock.
class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  // Named as the standard's locks and condition variables ask.
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  bool try_lock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }

 private:
  std::mutex mutex_;
};

// Holds a Mutex for as long as it lives. A std::condition_variable_any waits with it; its predicate
// is called with the lock held, and says so: `[&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return
// count_ > 0; }`.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  // For a condition variable alone, which returns with the lock held again: the destructor unlocks.
  void lock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.lock(); }
  void unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.unlock(); }

 private:
  Mutex& mutex_;
};

}  // namespace csidelta
