#pragma once

#include <condition_variable>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/call_context.h"
#include "base/mutex.h"
#include "cli/cluster_access.h"
#include "k8s/list_watch.h"

namespace csidelta::cli {

// Informers that keep nothing and tell that something changed. One thread and one client each,
// which the destructor ends. Thread-safe.
class ChangeWatch final : private k8s::ObjectEventHandler {
 public:
  // Borrows `access`.
  ChangeWatch(const CallContext& ctx, const ClusterAccess& access,
              const std::vector<k8s::WatchedObjects>& watched);

  // Blocks until something changed since the last call, or since the beginning; false when `stop`
  // came first. One thread may wait.
  bool Await(std::stop_token stop);

 private:
  void OnPage(const std::vector<Json>& /*objects*/, bool /*is_first*/) override {}
  void OnListed() override { Note(); }
  void OnEvent(const k8s::WatchEvent& /*event*/) override { Note(); }
  void Note();

  Mutex mutex_;
  std::condition_variable_any changed_;
  bool has_changed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;  // Last: they end before the rest.
};

}  // namespace csidelta::cli
