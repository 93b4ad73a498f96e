#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/mutex.h"

namespace csidelta::repository {

// Calls `work` for 0 ... count - 1, each once, on up to `threads_max` threads at the same time, and
// waits for them. The first error ends it and is returned: what has begun is finished, the rest is
// left out.
inline absl::Status ParallelFor(std::size_t count, std::size_t threads_max,
                                absl::FunctionRef<absl::Status(std::size_t)> work) {
  std::atomic<std::size_t> next = 0;
  Mutex mutex;
  absl::Status first_error;
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      if (const absl::Status status = work(i); !status.ok()) {
        const MutexLock lock(mutex);
        first_error.Update(status);
        next = count;
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < std::min(count, threads_max); ++i) {
      threads.emplace_back(run);
    }
    run();
  }
  return first_error;
}

}  // namespace csidelta::repository
