#include "incremental/thread_queue.h"

#include <chrono>
#include <stop_token>
#include <utility>

#include "base/check.h"
#include "base/mutex.h"
#include "base/status_macros.h"

namespace csidelta::incremental {
namespace {

// How often a wait looks at its context.
constexpr std::chrono::milliseconds kWaitSlice{200};

}  // namespace

ThreadQueue::ThreadQueue(const RawFile& file, int depth) : file_(file) {
  CSIDELTA_CHECK(depth >= 1 && depth <= kQueueDepthMax);
  for (int i = 0; i < depth; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { Work(stop); });
  }
}

ThreadQueue::~ThreadQueue() {
  for (std::jthread& thread : threads_) {
    thread.request_stop();
  }
  threads_.clear();  // Each ends the transfer that it is in.
}

std::optional<IoRequest> ThreadQueue::Take(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  const bool is_there = submitted_.wait(
      lock, stop, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !waiting_.empty(); });
  if (!is_there || stop.stop_requested()) {
    return std::nullopt;
  }
  const IoRequest request = waiting_.front();
  waiting_.pop_front();
  return request;
}

void ThreadQueue::Work(const std::stop_token& stop) {
  while (const std::optional<IoRequest> request = Take(stop)) {
    absl::Status status = DoTransfer(file_, *request);
    const MutexLock lock(mutex_);
    ready_.push_back({.tag = request->tag, .status = std::move(status)});
    done_.notify_one();
  }
}

void ThreadQueue::Submit(const IoRequest& request) {
  CSIDELTA_CHECK(in_flight() < depth());
  CSIDELTA_CHECK(request.length_bytes > 0 && request.length_bytes <= kTransferBytesMax);
  ++in_flight_;
  const MutexLock lock(mutex_);
  waiting_.push_back(request);
  submitted_.notify_one();
}

absl::StatusOr<IoCompletion> ThreadQueue::Wait(const CallContext& ctx) {
  CSIDELTA_CHECK(in_flight_ > 0);
  MutexLock lock(mutex_);
  while (!done_.wait_for(lock, ctx.stop, kWaitSlice,
                         [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !ready_.empty(); })) {
    RETURN_IF_ERROR(ctx.Check());
  }
  IoCompletion done = std::move(ready_.front());
  ready_.pop_front();
  --in_flight_;
  return done;
}

}  // namespace csidelta::incremental
