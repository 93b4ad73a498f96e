#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "k8s/api_client.h"
#include "k8s/list_watch.h"
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

  void OnPage(const std::vector<Json>& objects, bool is_first) override {
    if (is_first) {
      listed_.clear();
    }
    for (const Json& object : objects) {
      listed_.insert(k8s::Name(object));
      Put(object);
    }
  }
  void OnListed() override {
    std::set<std::string> gone;
    {
      std::scoped_lock lock(mutex_);
      for (const auto& [name, record] : records_) {
        if (!listed_.contains(name)) {
          gone.insert(name);
        }
      }
      is_synced_ = true;
    }
    listed_.clear();
    for (const std::string& name : gone) {
      Drop(name);
    }
  }
  void OnEvent(const k8s::WatchEvent& event) override {
    if (event.kind == k8s::WatchEvent::Kind::kDeleted) {
      Drop(k8s::Name(event.object));
    } else {
      Put(event.object);
    }
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
  std::set<std::string> listed_;           // Of the list that is being read; its follower's own.
};

}  // namespace csidelta::longhorn_stand_in
