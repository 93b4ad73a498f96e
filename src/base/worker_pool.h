#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <stop_token>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/call_context.h"
#include "base/mutex.h"

namespace csidelta {

// A fixed number of threads that end together: the first error of any stops all, and so does the
// caller's own stop token.
//
//   WorkerPool pool(ctx);
//   pool.Start(4, [&](const CallContext& worker_ctx, int worker) { ... return absl::OkStatus(); });
//   ... the owner's own part, under pool.context() ...
//   RETURN_IF_ERROR(pool.Join());
//
// Start() and Join() belong to one thread; Fail() and context() are thread-safe. The destructor
// stops and joins.
class WorkerPool {
 public:
  using Body = std::function<absl::Status(const CallContext& ctx, int worker)>;

  explicit WorkerPool(const CallContext& ctx)
      : context_(ctx), relay_(ctx.stop, [this] { stop_.request_stop(); }) {
    context_.stop = stop_.get_token();
  }

  ~WorkerPool() {
    stop_.request_stop();
    threads_.clear();
  }

  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // The caller's context, which also ends when the pool does.
  const CallContext& context() const { return context_; }

  // Starts `threads` more threads; each runs `body` once, with its number from 0.
  void Start(int threads, const Body& body) {
    for (int worker = 0; worker < threads; ++worker) {
      threads_.emplace_back([this, body, worker] { Fail(body(context_, worker)); });
    }
  }

  // Stops all when `status` is an error. The first one is what Join() returns.
  void Fail(const absl::Status& status) {
    if (status.ok()) {
      return;
    }
    {
      const MutexLock lock(mutex_);
      if (first_.ok()) {
        first_ = status;
      }
    }
    stop_.request_stop();
  }

  // Blocks until every thread has returned. The first error, else OK. A pool may be used again
  // after an OK.
  absl::Status Join() {
    threads_.clear();
    const MutexLock lock(mutex_);
    return first_;
  }

 private:
  std::stop_source stop_;
  CallContext context_;
  std::stop_callback<std::function<void()>> relay_;
  Mutex mutex_;
  absl::Status first_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_;
};

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

}  // namespace csidelta
