#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/json.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "k8s/informer.h"
#include "k8s/reconcile_loop.h"
#include "objects/client.h"
#include "objects/object.h"

namespace csidelta::objects {

// As k8s::ObjectEventHandler, for the objects of one kind; others are ignored.
template <typename Kind>
class EventHandler : public k8s::ObjectEventHandler {
 public:
  void OnObjectChanged(const Json& object) final {
    if (const absl::StatusOr<Kind> one = As<Kind>(object); one.ok()) {
      OnChanged(*one);
    }
  }
  void OnObjectDeleted(const k8s::ObjectId& id, const Json* last) final {
    const absl::StatusOr<Kind> one = As<Kind>(last == nullptr ? Json() : *last);
    OnDeleted(id, last != nullptr && one.ok() ? &*one : nullptr);
  }

 private:
  virtual void OnChanged(const Kind& object) = 0;
  virtual void OnDeleted(const k8s::ObjectId& id, const Kind* last) = 0;
};

// One entry for each object of a kind while the object exists, found by keys of the caller's
// choice. A moment behind the API server. Thread-safe.
template <typename Kind, typename Entry>
class Index : public EventHandler<Kind> {
 public:
  // Nothing: the object has no entry. Called with the lock held, as is `Keys`.
  using Read = std::function<std::optional<Entry>(const Kind& object)>;
  using Keys = std::function<std::set<std::string>(const Entry& entry)>;

  // Objects above `entries_max` have no entry until a later list finds fewer.
  explicit Index(
      Read read, Keys keys = [](const Entry&) { return std::set<std::string>(); },
      std::size_t entries_max = std::numeric_limits<std::size_t>::max())
      : read_(std::move(read)), keys_(std::move(keys)), entries_max_(entries_max) {}

  // Whether a list was whole.
  bool is_synced() const {
    const MutexLock lock(mutex_);
    return is_synced_;
  }
  // Whether `entries_max` left no object out.
  bool is_complete() const {
    const MutexLock lock(mutex_);
    return !is_over_max_ && !was_over_max_;
  }

  // In the order of namespaces and names, as Find().
  std::vector<Entry> All() const {
    std::vector<Entry> all;
    const MutexLock lock(mutex_);
    for (const auto& [name, entry] : entries_) {
      all.push_back(entry);
    }
    return all;
  }
  std::vector<Entry> Find(const std::string& key) const {
    std::vector<Entry> found;
    const MutexLock lock(mutex_);
    for (auto at = names_.lower_bound({key, {}}); at != names_.end() && at->first == key; ++at) {
      found.push_back(entries_.at(at->second));
    }
    return found;
  }

  bool Holds(const k8s::ObjectId& id) const override {
    const MutexLock lock(mutex_);
    return entries_.contains({id.namespace_name, id.name});
  }
  void OnListed() override {
    const MutexLock lock(mutex_);
    is_synced_ = true;
    was_over_max_ = std::exchange(is_over_max_, false);
  }

 private:
  using Name = std::pair<std::string, std::string>;  // namespace, name

  void OnChanged(const Kind& object) override {
    const Name name(object.namespace_name(), object.name());
    const MutexLock lock(mutex_);
    Drop(name);
    std::optional<Entry> entry = read_(object);
    if (entry.has_value() && entries_.size() >= entries_max_) {
      is_over_max_ = true;
    } else if (entry.has_value()) {
      for (const std::string& key : keys_(*entry)) {
        names_.emplace(key, name);
      }
      entries_.emplace(name, *std::move(entry));
    }
  }
  void OnDeleted(const k8s::ObjectId& id, const Kind* /*last*/) override {
    const MutexLock lock(mutex_);
    Drop({id.namespace_name, id.name});
  }
  void Drop(const Name& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (const auto found = entries_.find(name); found != entries_.end()) {
      for (const std::string& key : keys_(found->second)) {
        names_.erase({key, name});
      }
      entries_.erase(found);
    }
  }

  const Read read_;
  const Keys keys_;
  const std::size_t entries_max_;
  mutable Mutex mutex_;
  bool is_synced_ ABSL_GUARDED_BY(mutex_) = false;
  // Whether an object was omitted since the last list, and between the two lists before.
  bool is_over_max_ ABSL_GUARDED_BY(mutex_) = false;
  bool was_over_max_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<Name, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<std::string, Name>> names_ ABSL_GUARDED_BY(mutex_);  // by key
};

// k8s::Reconciler for the objects of one kind.
template <typename Kind>
class Reconciler : public k8s::Reconciler {
 public:
  absl::StatusOr<absl::Time> Reconcile(const CallContext& ctx, const Json& object) final {
    ASSIGN_OR_RETURN(const Kind kind, As<Kind>(object));
    return ReconcileOne(ctx, kind);
  }
  bool Concerns(const Json& object) const final {
    const absl::StatusOr<Kind> kind = As<Kind>(object);
    return !kind.ok() || IsConcerned(*kind);
  }
  void Reduce(Json& object) const final {
    if (absl::StatusOr<Kind> kind = As<Kind>(object); kind.ok()) {
      ReduceOne(*kind);
      object = kind->json();
    }
  }

 private:
  // As those of k8s::Reconciler.
  virtual absl::StatusOr<absl::Time> ReconcileOne(const CallContext& ctx, const Kind& object) = 0;
  virtual bool IsConcerned(const Kind& /*object*/) const { return true; }
  virtual void ReduceOne(Kind& /*object*/) const {}
};

}  // namespace csidelta::objects
