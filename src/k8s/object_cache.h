#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "base/json.h"
#include "k8s/api_client.h"
#include "k8s/informer.h"

namespace csidelta::k8s {

// The objects of some kinds, as informers deliver them and as this process has written them since.
// An answer is never older than the last write of this process. It may be a moment older than the
// API server's state.
//
// Versions are compared as numbers: etcd counts them, and Kubernetes promises the order of any two
// versions of a kind (KEP-5504). If a version is not a number, that object is not cached, and a
// missing object is unknown rather than absent. Objects are held as text, without
// metadata.managedFields. Thread-safe.
class ObjectCache {
 public:
  enum class Presence {
    kFound,
    kAbsent,   // among the objects that the informer delivers, as of a moment ago
    kUnknown,  // not cached, or the result of a write is not known yet: read the API server
  };
  struct Answer {
    Presence presence = Presence::kUnknown;
    Json object = {};  // when found
  };
  // Whether an object is worth its memory.
  using Filter = std::function<bool(const Json& object)>;

  ObjectCache();
  ~ObjectCache();
  ObjectCache(const ObjectCache&) = delete;
  ObjectCache& operator=(const ObjectCache&) = delete;

  // Caches the objects of `informer`, which is borrowed, as its next handler: those that read the
  // cache are added to it later. The label selector is a list of "key" and "key=value". To be
  // called before the cache is used by several threads.
  void Add(Informer& informer, Filter filter = {});

  Answer Find(const ObjectKey& key) const;
  // The state that was delivered or written last, even if a write of this process is not answered
  // yet.
  std::optional<Json> Last(const ObjectKey& key) const;
  bool Has(const ObjectKey& key) const;
  // Whether this process wrote that state, and no other has changed it since.
  bool IsOwnWrite(const ObjectKey& key) const;
  // All that Add() cached with these very arguments; those that are being deleted too. Nothing
  // until they were listed once, or if there is a filter.
  std::optional<std::vector<Json>> List(const ResourceType& type, absl::string_view namespace_name,
                                        absl::string_view label_selector) const;

  // --- From the client that reads and writes (k8s/cached_client.h)

  // Before a request is sent; to be passed with what was answered.
  uint64_t Begin();
  // A write of the object begins, or its result is not known.
  void MarkUncertain(const ObjectKey& key);
  // The API server does not find it.
  void RecordMissing(const ObjectKey& key);
  // Perhaps because of an object that was not delivered yet.
  void RecordFailedCreate(const ObjectKey& key);
  void RecordWritten(uint64_t begun, const ObjectKey& key, const Json& object);
  void RecordRead(uint64_t begun, const ObjectKey& key, const Json& object);

 private:
  class Kept;

  void ForEachKeptOf(const ObjectKey& key, absl::FunctionRef<void(Kept&)> note);

  std::atomic<uint64_t> calls_ = 0;
  std::vector<std::unique_ptr<Kept>> kept_;
};

}  // namespace csidelta::k8s
