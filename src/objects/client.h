#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "k8s/api_client.h"
#include "k8s/object_cache.h"
#include "k8s/wait.h"
#include "objects/object.h"
#include "objects/patch.h"

// k8s::ApiClient, its cache and its waits in the types of objects/: Kind is Object (any kind) or a
// class of ObjectOf. Errors are those of ApiClient, and INVALID_ARGUMENT where the API server
// answers with an object of another kind.
namespace csidelta::objects {

// Of any kind, as it is.
template <typename Kind>
absl::StatusOr<Kind> As(Json json) {
  if constexpr (std::is_same_v<Kind, Object>) {
    return Object(std::move(json));
  } else {
    return Kind::Of(std::move(json));
  }
}

template <typename Kind>
absl::StatusOr<Kind> As(absl::StatusOr<Json> json) {
  RETURN_IF_ERROR(json.status());
  return As<Kind>(*std::move(json));
}

template <typename Kind>
absl::StatusOr<std::vector<Kind>> AllAs(std::vector<Json> list) {
  std::vector<Kind> all;
  all.reserve(list.size());
  for (Json& json : list) {
    ASSIGN_OR_RETURN(Kind one, As<Kind>(std::move(json)));
    all.push_back(std::move(one));
  }
  return all;
}

// The objects of one kind among objects that were read as any kind.
template <typename Kind>
std::vector<Kind> AllFrom(const std::vector<Object>& objects) {
  std::vector<Kind> all;
  all.reserve(objects.size());
  for (const Object& object : objects) {
    if (absl::StatusOr<Kind> one = Kind::From(object); one.ok()) {
      all.push_back(*std::move(one));
    }
  }
  return all;
}

template <typename Kind>
absl::StatusOr<Kind> Get(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& key) {
  return As<Kind>(api.Get(ctx, key));
}

// Of a kind of one version. `namespace_name` "": of the cluster.
template <typename Kind>
absl::StatusOr<Kind> Get(const CallContext& ctx, k8s::ApiClient& api,
                         absl::string_view namespace_name, absl::string_view name) {
  return Get<Kind>(ctx, api, Kind::Key(namespace_name, name));
}

// Nothing if it does not exist.
template <typename Kind>
absl::StatusOr<std::optional<Kind>> Find(const CallContext& ctx, k8s::ApiClient& api,
                                         const k8s::ObjectKey& key) {
  absl::StatusOr<Kind> found = Get<Kind>(ctx, api, key);
  if (absl::IsNotFound(found.status())) {
    return std::optional<Kind>();
  }
  RETURN_IF_ERROR(found.status());
  return std::optional<Kind>(*std::move(found));
}
template <typename Kind>
absl::StatusOr<std::optional<Kind>> Find(const CallContext& ctx, k8s::ApiClient& api,
                                         absl::string_view namespace_name, absl::string_view name) {
  return Find<Kind>(ctx, api, Kind::Key(namespace_name, name));
}

// `namespace_name` "" lists all namespaces.
template <typename Kind>
absl::StatusOr<std::vector<Kind>> List(const CallContext& ctx, k8s::ApiClient& api,
                                       const k8s::ResourceType& type,
                                       absl::string_view namespace_name,
                                       const k8s::ListOptions& options = {}) {
  ASSIGN_OR_RETURN(k8s::ObjectList list, api.List(ctx, type, namespace_name, options));
  return AllAs<Kind>(std::move(list.items));
}
template <typename Kind>
absl::StatusOr<std::vector<Kind>> List(const CallContext& ctx, k8s::ApiClient& api,
                                       absl::string_view namespace_name,
                                       const k8s::ListOptions& options = {}) {
  return List<Kind>(ctx, api, Kind::Type(), namespace_name, options);
}

// Returns the object as stored.
template <typename Kind>
absl::StatusOr<Kind> Create(const CallContext& ctx, k8s::ApiClient& api,
                            const k8s::ResourceType& type, const Kind& object) {
  return As<Kind>(api.Create(ctx, type, object.namespace_name(), object.json()));
}
template <typename Kind>
absl::StatusOr<Kind> Create(const CallContext& ctx, k8s::ApiClient& api, const Kind& object) {
  return Create<Kind>(ctx, api, Kind::Type(), object);
}
// POST to a subresource, as ApiClient::CreateSubresource(). Returns the answer, which is of the
// kind.
template <typename Kind>
absl::StatusOr<Kind> CreateSubresource(const CallContext& ctx, k8s::ApiClient& api,
                                       const k8s::ObjectKey& key, absl::string_view subresource,
                                       const Kind& object) {
  return As<Kind>(api.CreateSubresource(ctx, key, subresource, object.json()));
}
// What Create() would answer now; stores nothing.
template <typename Kind>
absl::StatusOr<Kind> DryRunCreate(const CallContext& ctx, k8s::ApiClient& api, const Kind& object) {
  return As<Kind>(api.DryRunCreate(ctx, Kind::Type(), object.namespace_name(), object.json()));
}
// Returns an object that has the name already, whatever made it.
template <typename Kind>
absl::StatusOr<Kind> CreateOrGet(const CallContext& ctx, k8s::ApiClient& api, const Kind& object) {
  absl::StatusOr<Kind> made = Create<Kind>(ctx, api, object);
  return absl::IsAlreadyExists(made.status()) ? Get<Kind>(ctx, api, object.key()) : std::move(made);
}

// `object` has the resourceVersion that it was read with.
template <typename Kind>
absl::StatusOr<Kind> Update(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& key,
                            const Kind& object) {
  return As<Kind>(api.Update(ctx, key, object.json()));
}
template <typename Kind>
absl::StatusOr<Kind> Update(const CallContext& ctx, k8s::ApiClient& api, const Kind& object) {
  return Update<Kind>(ctx, api, object.key(), object);
}

// `subresource` is "" or "status". Returns the object as stored.
template <typename Kind>
absl::StatusOr<Kind> Apply(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& key,
                           const Patch& patch, absl::string_view subresource = "") {
  return As<Kind>(api.Patch(ctx, key, k8s::PatchKind::kMerge, patch.json(), subresource));
}
inline absl::Status Apply(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& key,
                          const Patch& patch, absl::string_view subresource = "") {
  return api.Patch(ctx, key, k8s::PatchKind::kMerge, patch.json(), subresource).status();
}

// Removes a label where it has that value. OK where it has not, and where there is no such object.
absl::Status RemoveLabelIf(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& key,
                           absl::string_view label, absl::string_view value);

// An object as a cache had it a moment ago.
template <typename Kind>
struct Cached {
  k8s::ObjectCache::Presence presence = k8s::ObjectCache::Presence::kUnknown;
  std::optional<Kind> object = {};  // when found
};

// `cache` null: nothing is cached.
template <typename Kind>
Cached<Kind> FindCached(const k8s::ObjectCache* cache, const k8s::ObjectKey& key) {
  if (cache == nullptr) {
    return {};
  }
  k8s::ObjectCache::Answer answer = cache->Find(key);
  if (answer.presence != k8s::ObjectCache::Presence::kFound) {
    return {.presence = answer.presence};
  }
  absl::StatusOr<Kind> object = As<Kind>(std::move(answer.object));
  return object.ok() ? Cached<Kind>{.presence = answer.presence, .object = *std::move(object)}
                     : Cached<Kind>{};
}

// For a cache of one kind: what is of another is not worth its memory.
template <typename Kind>
k8s::ObjectCache::Filter FilterOf(std::function<bool(const Kind& object)> is_worth) {
  return [is_worth = std::move(is_worth)](const Json& json) {
    const absl::StatusOr<Kind> object = As<Kind>(json);
    return object.ok() && is_worth(*object);
  };
}

// Decides if a wait is over, by the object as it is now; nullptr while it does not exist.
template <typename Kind>
using Predicate = absl::FunctionRef<absl::StatusOr<bool>(const Kind* object)>;

// `done` for an object as it is read. Borrows `done`.
template <typename Kind>
auto OfJson(const Predicate<Kind>& done) {
  return [&done](const Json* json) -> absl::StatusOr<bool> {
    if (json == nullptr) {
      return done(nullptr);
    }
    ASSIGN_OR_RETURN(const Kind object, As<Kind>(*json));
    return done(&object);
  };
}

// As those of k8s/wait.h.
template <typename Kind>
absl::Status WaitFor(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& key,
                     Predicate<Kind> done, const Kind* known = nullptr) {
  return k8s::WaitFor(ctx, api, key, OfJson<Kind>(done),
                      known == nullptr ? nullptr : &known->json());
}
template <typename Kind>
absl::Status WaitForExisting(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& key,
                             Predicate<Kind> done) {
  return k8s::WaitForExisting(ctx, api, key, OfJson<Kind>(done));
}
template <typename Kind>
absl::Status WaitForAmong(const CallContext& ctx, k8s::ApiClient& api,
                          absl::string_view namespace_name, Predicate<Kind> done) {
  return k8s::WaitForAmong(ctx, api, Kind::Type(), namespace_name, OfJson<Kind>(done));
}

// The object of that name among `objects`, which it borrows; null if there is none.
template <typename Kind>
const Kind* OfName(const std::vector<Kind>& objects, absl::string_view name) {
  const auto found = std::find_if(objects.begin(), objects.end(),
                                  [name](const Kind& one) { return one.name() == name; });
  return found == objects.end() ? nullptr : &*found;
}

// k8s::ReadPages() and k8s::ReadWanted() in the types of objects/. What is of another kind is left
// out.

template <typename Kind>
using PageSink = absl::FunctionRef<void(std::vector<Kind> page, bool is_first)>;

// `sink` for a page as it is read, whose objects it takes. Borrows `sink`.
template <typename Kind>
auto OfJsonPage(const PageSink<Kind>& sink) {
  return [&sink](std::vector<Json>& page, bool is_first) {
    std::vector<Kind> all;
    all.reserve(page.size());
    for (Json& json : page) {
      if (absl::StatusOr<Kind> one = As<Kind>(std::move(json)); one.ok()) {
        all.push_back(*std::move(one));
      }
    }
    sink(std::move(all), is_first);
  };
}

// A sink that calls `begin` where the list begins, also again, and `take` for each object.
template <typename Kind, typename Begin, typename Take>
auto ForEach(Begin begin, Take take) {
  return [begin = std::move(begin), take = std::move(take)](std::vector<Kind> page, bool is_first) {
    if (is_first) {
      begin();
    }
    for (Kind& object : page) {
      take(std::move(object));
    }
  };
}

template <typename Kind>
absl::Status ReadPages(const CallContext& ctx, k8s::ApiClient& api, const k8s::ResourceType& type,
                       absl::string_view namespace_name, const k8s::ListOptions& options,
                       PageSink<Kind> sink) {
  return k8s::ReadPages(ctx, api, type, namespace_name, options, OfJsonPage<Kind>(sink));
}

template <typename Kind>
absl::Status ReadWanted(const CallContext& ctx, k8s::ApiClient& api, const k8s::ResourceType& type,
                        absl::string_view namespace_name, k8s::NameFilter is_wanted,
                        PageSink<Kind> sink) {
  return k8s::ReadWanted(ctx, api, type, namespace_name, is_wanted, OfJsonPage<Kind>(sink));
}

}  // namespace csidelta::objects
