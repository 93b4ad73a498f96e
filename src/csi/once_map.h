#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/check.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "k8s/api_client.h"
#include "objects/workload.h"

namespace csidelta::csi {

// Values that are loaded once and hold for a whole backup, by key. If several callers ask for a key
// at once, one loads and the others wait. An error goes to the loader alone, and the next caller
// loads again. Keeps the last `entries_max` keys, at least one. Thread-safe; no lock is held while
// loading.
template <typename Value>
class OnceMap {
 public:
  using Pointer = std::shared_ptr<const Value>;  // shared: an entry may be dropped while in use
  using Load = absl::FunctionRef<absl::StatusOr<Value>()>;

  explicit OnceMap(std::size_t entries_max) : entries_max_(entries_max) {
    CSIDELTA_CHECK(entries_max > 0);
  }

  // CANCELLED if ctx.stop fires while another caller loads; else the result of `load`.
  absl::StatusOr<Pointer> Get(const CallContext& ctx, const std::string& key, Load load) {
    {
      MutexLock lock(mutex_);
      const bool free = changed_.wait(lock, ctx.stop, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return !loading_.contains(key);
      });
      if (!free) {
        return absl::CancelledError("stop requested");
      }
      if (const auto found = values_.find(key); found != values_.end()) {
        return found->second;
      }
      loading_.insert(key);
    }
    // Whatever comes of it, also an exception: the next one may load.
    const absl::Cleanup finish = [this, &key] {
      const MutexLock lock(mutex_);
      loading_.erase(key);
      changed_.notify_all();
    };
    absl::StatusOr<Value> value = load();
    const MutexLock lock(mutex_);
    RETURN_IF_ERROR(value.status());
    Pointer stored = std::make_shared<const Value>(*std::move(value));
    values_[key] = stored;
    order_.push_back(key);
    if (order_.size() > entries_max_) {
      values_.erase(order_.front());
      order_.pop_front();
    }
    CSIDELTA_CHECK(values_.size() == order_.size());  // No key was loaded twice.
    return stored;
  }

 private:
  const std::size_t entries_max_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, Pointer> values_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> loading_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> order_ ABSL_GUARDED_BY(mutex_);  // keys of values_, oldest first
};

// The Pods that name PVCs among their volumes, listed once for each backup and namespace. Keeps
// only their Essence(). Thread-safe.
class NamespacePods {
 public:
  explicit NamespacePods(k8s::ApiClient& api) : api_(api) {}

  absl::StatusOr<std::shared_ptr<const std::vector<objects::Pod>>> Get(
      const CallContext& ctx, const std::string& backup_uid, const std::string& namespace_name);

 private:
  k8s::ApiClient& api_;
  OnceMap<std::vector<objects::Pod>> pods_{32};
};

}  // namespace csidelta::csi
