#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "k8s/api_client.h"
#include "k8s/informer.h"
#include "k8s/object.h"

namespace csidelta::longhorn_stand_in {

// The objects of one kind and one namespace as records, as a follower gets them. Reports each
// change, in the thread that brought it and with no lock held. Thread-safe.
template <typename Record>
class RecordTable : public k8s::ObjectEventHandler {
 public:
  using Read = Record (*)(const Json& object);
  // Nothing before: it is new; nothing after: it is gone.
  using Changed = std::function<void(const std::string& name, const std::optional<Record>& before,
                                     const std::optional<Record>& after)>;

  RecordTable(std::string namespace_name, Read read, Changed changed)
      : namespace_(std::move(namespace_name)), read_(read), changed_(std::move(changed)) {}

  void OnObjectChanged(const Json& object) override { Put(object); }
  void OnObjectDeleted(const k8s::ObjectId& id, const Json* /*last*/) override { Drop(id.name); }
  void OnListed() override {
    std::scoped_lock lock(mutex_);
    is_synced_ = true;
  }

  std::optional<Record> Find(const std::string& name) const {
    std::scoped_lock lock(mutex_);
    const auto found = records_.find(name);
    return found == records_.end() ? std::nullopt : std::optional<Record>(found->second);
  }
  // The name of a record that `wanted` holds for; "" when none exists.
  std::string FindName(const std::function<bool(const Record&)>& wanted) const {
    std::scoped_lock lock(mutex_);
    for (const auto& [name, record] : records_) {
      if (wanted(record)) {
        return name;
      }
    }
    return "";
  }
  bool is_synced() const {
    std::scoped_lock lock(mutex_);
    return is_synced_;
  }

 private:
  void Put(const Json& object) {
    if (k8s::Namespace(object) != namespace_) {
      return;  // As Longhorn's controllers ignore it.
    }
    const std::string name = k8s::Name(object);
    const std::optional<Record> after = read_(object);
    std::optional<Record> before;
    {
      std::scoped_lock lock(mutex_);
      const auto found = records_.find(name);
      if (found != records_.end()) {
        before = std::move(found->second);
      }
      records_[name] = *after;
    }
    changed_(name, before, after);
  }
  void Drop(const std::string& name) {
    std::optional<Record> before;
    {
      std::scoped_lock lock(mutex_);
      const auto found = records_.find(name);
      if (found == records_.end()) {
        return;
      }
      before = std::move(found->second);
      records_.erase(found);
    }
    changed_(name, before, std::nullopt);
  }

  const std::string namespace_;
  const Read read_;
  const Changed changed_;
  mutable std::mutex mutex_;
  std::map<std::string, Record> records_;  // Guarded by mutex_.
  bool is_synced_ = false;                 // Guarded by mutex_.
};

}  // namespace csidelta::longhorn_stand_in
