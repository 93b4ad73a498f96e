#include "k8s/cached_client.h"

#include <utility>

#include "k8s/object.h"

namespace csidelta::k8s {
namespace {

// Such an object is gone once it is written: nothing keeps it.
bool IsGoneAfter(const Json& written) {
  const Json* const finalizers = FindJson(written, {"metadata", "finalizers"});
  return BeingDeleted(written) && (finalizers == nullptr || finalizers->empty());
}

void RecordAnswer(ObjectCache& cache, uint64_t begun, const ObjectKey& key,
                  const absl::StatusOr<Json>& written) {
  if (written.ok() && !IsGoneAfter(*written)) {
    cache.RecordWritten(begun, key, *written);
  } else {
    cache.MarkUncertain(key);
  }
}

}  // namespace

// --- RecordingClient

absl::StatusOr<Json> RecordingClient::Get(const CallContext& ctx, const ObjectKey& key) {
  const uint64_t begun = cache_.Begin();
  absl::StatusOr<Json> object = ForwardingClient::Get(ctx, key);
  if (object.ok()) {
    cache_.RecordRead(begun, key, *object);
  } else if (absl::IsNotFound(object.status())) {
    cache_.RecordMissing(key);
  }
  return object;
}

absl::StatusOr<Json> RecordingClient::Create(const CallContext& ctx, const ResourceType& type,
                                             absl::string_view namespace_name, const Json& object) {
  const uint64_t begun = cache_.Begin();
  absl::StatusOr<Json> created = ForwardingClient::Create(ctx, type, namespace_name, object);
  if (created.ok()) {
    cache_.RecordWritten(begun, {type, Namespace(*created), Name(*created)}, *created);
  } else if (const std::string name = Name(object); !name.empty()) {
    cache_.RecordFailedCreate({type, std::string(namespace_name), name});
  }
  return created;
}

absl::StatusOr<Json> RecordingClient::Update(const CallContext& ctx, const ObjectKey& key,
                                             const Json& object) {
  const uint64_t begun = cache_.Begin();
  cache_.MarkUncertain(key);
  absl::StatusOr<Json> updated = ForwardingClient::Update(ctx, key, object);
  RecordAnswer(cache_, begun, key, updated);
  return updated;
}

absl::StatusOr<Json> RecordingClient::Patch(const CallContext& ctx, const ObjectKey& key,
                                            PatchKind kind, const Json& patch,
                                            absl::string_view subresource) {
  const uint64_t begun = cache_.Begin();
  cache_.MarkUncertain(key);
  absl::StatusOr<Json> patched = ForwardingClient::Patch(ctx, key, kind, patch, subresource);
  RecordAnswer(cache_, begun, key, patched);
  return patched;
}

absl::Status RecordingClient::Delete(const CallContext& ctx, const ObjectKey& key,
                                     const DeleteOptions& options) {
  cache_.MarkUncertain(key);
  const absl::Status deleted = ForwardingClient::Delete(ctx, key, options);
  cache_.MarkUncertain(key);
  return deleted;
}

// --- CachedReader

absl::StatusOr<Json> CachedReader::Get(const CallContext& ctx, const ObjectKey& key) {
  if (cache_ != nullptr) {
    ObjectCache::Answer answer = cache_->Find(key);
    if (answer.presence == ObjectCache::Presence::kFound) {
      return std::move(answer.object);
    }
  }
  return ForwardingClient::Get(ctx, key);
}

absl::StatusOr<ObjectList> CachedReader::List(const CallContext& ctx, const ResourceType& type,
                                              absl::string_view namespace_name,
                                              const ListOptions& options) {
  if (cache_ != nullptr && options.field_selector.empty() && options.exactly_at.empty()) {
    if (auto objects = cache_->List(type, namespace_name, options.label_selector)) {
      return ObjectList{.items = *std::move(objects), .resource_version = ""};
    }
  }
  return ForwardingClient::List(ctx, type, namespace_name, options);
}

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
    if (const auto found = reads_->reads_.find(name);
        found != reads_->reads_.end() && found->second.at >= not_before_) {
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
