#include "k8s/recent_reads.h"

namespace csidelta::k8s {

absl::StatusOr<Json> RecentReader::Get(const CallContext& ctx, const ObjectKey& key) {
  if (reads_ == nullptr) {
    return ForwardingClient::Get(ctx, key);
  }
  const absl::Time now = ctx.clock->Now();
  const std::string name = ToString(key);
  {
    const MutexLock lock(reads_->mutex_);
    std::erase_if(reads_->reads_, [this, now](const auto& read) {
      return now - read.second.at > reads_->age_max_;
    });
    if (const auto found = reads_->reads_.find(name); found != reads_->reads_.end()) {
      return found->second.object;
    }
  }
  absl::StatusOr<Json> object = ForwardingClient::Get(ctx, key);
  if (object.ok()) {
    const MutexLock lock(reads_->mutex_);
    reads_->reads_[name] = {.at = now, .object = *object};
  }
  return object;
}

absl::StatusOr<Json> RecentReader::Update(const CallContext& ctx, const ObjectKey& key,
                                          const Json& object) {
  Forget(key);
  absl::StatusOr<Json> updated = ForwardingClient::Update(ctx, key, object);
  Forget(key);
  return updated;
}

absl::StatusOr<Json> RecentReader::Patch(const CallContext& ctx, const ObjectKey& key,
                                         PatchKind kind, const Json& patch,
                                         absl::string_view subresource) {
  Forget(key);
  absl::StatusOr<Json> patched = ForwardingClient::Patch(ctx, key, kind, patch, subresource);
  Forget(key);
  return patched;
}

absl::Status RecentReader::Delete(const CallContext& ctx, const ObjectKey& key,
                                  const DeleteOptions& options) {
  Forget(key);
  const absl::Status deleted = ForwardingClient::Delete(ctx, key, options);
  Forget(key);
  return deleted;
}

void RecentReader::Forget(const ObjectKey& key) {
  if (reads_ != nullptr) {
    const MutexLock lock(reads_->mutex_);
    reads_->reads_.erase(ToString(key));
  }
}

}  // namespace csidelta::k8s
