#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/json.h"
#include "base/mutex.h"
#include "k8s/api_client.h"
#include "k8s/object_cache.h"

namespace csidelta::k8s {

// Passes every call on to another client. Thread-safe as that one is.
class ForwardingClient : public ApiClient {
 public:
  // Borrows `client`.
  explicit ForwardingClient(ApiClient& client) : client_(client) {}

  absl::StatusOr<Json> Get(const CallContext& ctx, const ObjectKey& key) override {
    return client_.Get(ctx, key);
  }
  absl::StatusOr<ObjectList> List(const CallContext& ctx, const ResourceType& type,
                                  absl::string_view namespace_name,
                                  const ListOptions& options) override {
    return client_.List(ctx, type, namespace_name, options);
  }
  absl::StatusOr<std::string> ListPages(const CallContext& ctx, const ResourceType& type,
                                        absl::string_view namespace_name,
                                        const ListOptions& options, PageSink sink) override {
    return client_.ListPages(ctx, type, namespace_name, options, sink);
  }
  absl::StatusOr<Json> Create(const CallContext& ctx, const ResourceType& type,
                              absl::string_view namespace_name, const Json& object) override {
    return client_.Create(ctx, type, namespace_name, object);
  }
  absl::StatusOr<Json> DryRunCreate(const CallContext& ctx, const ResourceType& type,
                                    absl::string_view namespace_name, const Json& object) override {
    return client_.DryRunCreate(ctx, type, namespace_name, object);
  }
  absl::StatusOr<Json> CreateSubresource(const CallContext& ctx, const ObjectKey& key,
                                         absl::string_view subresource,
                                         const Json& object) override {
    return client_.CreateSubresource(ctx, key, subresource, object);
  }
  absl::StatusOr<Json> Update(const CallContext& ctx, const ObjectKey& key,
                              const Json& object) override {
    return client_.Update(ctx, key, object);
  }
  absl::StatusOr<Json> Patch(const CallContext& ctx, const ObjectKey& key, PatchKind kind,
                             const Json& patch, absl::string_view subresource) override {
    return client_.Patch(ctx, key, kind, patch, subresource);
  }
  absl::Status Delete(const CallContext& ctx, const ObjectKey& key,
                      const DeleteOptions& options) override {
    return client_.Delete(ctx, key, options);
  }
  absl::Status Watch(const CallContext& ctx, const ResourceType& type,
                     absl::string_view namespace_name, const WatchOptions& options,
                     WatchSink sink) override {
    return client_.Watch(ctx, type, namespace_name, options, sink);
  }
  absl::StatusOr<std::string> ListWanted(const CallContext& ctx, const ResourceType& type,
                                         absl::string_view namespace_name, NameFilter is_wanted,
                                         PageSink sink) override {
    return client_.ListWanted(ctx, type, namespace_name, is_wanted, sink);
  }

 private:
  ApiClient& client_;
};

// Reads and writes at the API server, and records in a cache what this process has written. All
// writes of the process must go through one, or the cache finds older states.
class RecordingClient : public ForwardingClient {
 public:
  // Borrows both.
  RecordingClient(ApiClient& client, ObjectCache& cache)
      : ForwardingClient(client), cache_(cache) {}

  absl::StatusOr<Json> Get(const CallContext& ctx, const ObjectKey& key) override;
  absl::StatusOr<Json> Create(const CallContext& ctx, const ResourceType& type,
                              absl::string_view namespace_name, const Json& object) override;
  absl::StatusOr<Json> Update(const CallContext& ctx, const ObjectKey& key,
                              const Json& object) override;
  absl::StatusOr<Json> Patch(const CallContext& ctx, const ObjectKey& key, PatchKind kind,
                             const Json& patch, absl::string_view subresource) override;
  absl::Status Delete(const CallContext& ctx, const ObjectKey& key,
                      const DeleteOptions& options) override;

 private:
  ObjectCache& cache_;
};

// Answers Get() and List() from a cache if that has the objects, a moment old at most. It asks
// `client` for everything else, also if the cache lacks an object. Only for reads whose answer is
// checked by what follows: by a conditional write, or by a name that exists once.
class CachedReader : public ForwardingClient {
 public:
  // Borrows both; `cache` null: nothing is cached.
  CachedReader(ApiClient& client, const ObjectCache* cache)
      : ForwardingClient(client), cache_(cache) {}

  absl::StatusOr<Json> Get(const CallContext& ctx, const ObjectKey& key) override;
  absl::StatusOr<ObjectList> List(const CallContext& ctx, const ResourceType& type,
                                  absl::string_view namespace_name,
                                  const ListOptions& options) override;

 private:
  const ObjectCache* const cache_;
};

// Objects read in the last `age_max`: for those that many ask for at once and that cannot be
// watched, such as Secrets. Thread-safe.
class RecentReads {
 public:
  explicit RecentReads(absl::Duration age_max) : age_max_(age_max) {}

 private:
  friend class RecentReader;
  struct Read {
    absl::Time at;
    Json object;
  };

  const absl::Duration age_max_;
  Mutex mutex_;
  std::map<std::string, Read> reads_ ABSL_GUARDED_BY(mutex_);  // by key
};

// Answers Get() from `reads` if that has the object, and asks `client` for everything else. What is
// written through it is read again. Only for reads of which an answer that is a moment old does no
// harm.
class RecentReader : public ForwardingClient {
 public:
  // Borrows both; `reads` null: each read is asked for. So is what was read before `not_before`.
  RecentReader(ApiClient& client, RecentReads* reads, absl::Time not_before = absl::InfinitePast())
      : ForwardingClient(client), reads_(reads), not_before_(not_before) {}

  absl::StatusOr<Json> Get(const CallContext& ctx, const ObjectKey& key) override;
  absl::StatusOr<Json> Update(const CallContext& ctx, const ObjectKey& key,
                              const Json& object) override;
  absl::StatusOr<Json> Patch(const CallContext& ctx, const ObjectKey& key, PatchKind kind,
                             const Json& patch, absl::string_view subresource) override;
  absl::Status Delete(const CallContext& ctx, const ObjectKey& key,
                      const DeleteOptions& options) override;

 private:
  void Forget(const ObjectKey& key);

  RecentReads* const reads_;
  const absl::Time not_before_;
};

}  // namespace csidelta::k8s
