#include "cli/change_watch.h"

#include <memory>
#include <utility>

namespace csidelta::cli {

ChangeWatch::ChangeWatch(const CallContext& ctx, const ClusterAccess& access,
                         const std::vector<k8s::WatchedObjects>& watched) {
  threads_.reserve(watched.size());
  for (const k8s::WatchedObjects& objects : watched) {
    threads_.emplace_back([this, &access, ctx, objects](std::stop_token stop) {
      CallContext context = ctx;
      context.stop = std::move(stop);
      const std::unique_ptr<k8s::ApiClient> api = access.MakeClient();
      // It ends with the stop alone.
      k8s::ListAndWatch(context, *api, objects, *this).IgnoreError();
    });
  }
}

bool ChangeWatch::Await(std::stop_token stop) {
  MutexLock lock(mutex_);
  const bool changed =
      changed_.wait(lock, std::move(stop),
                    [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return has_changed_; });
  has_changed_ = false;
  return changed;
}

void ChangeWatch::Note() {
  {
    const MutexLock lock(mutex_);
    has_changed_ = true;
  }
  changed_.notify_all();
}

}  // namespace csidelta::cli
