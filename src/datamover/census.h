#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/mutex.h"
#include "k8s/follow.h"
#include "k8s/object.h"

namespace csidelta::datamover {

// What is worth knowing of each object of a kind, as long as it is there; all is passed on to the
// next who follows them. Thread-safe.
template <typename Entry>
class Census : public k8s::ObjectFollower {
 public:
  using Reader = std::function<Entry(const Json& object)>;

  // Borrows `next`.
  Census(Reader read, k8s::ObjectFollower& next) : read_(std::move(read)), next_(next) {}

  void OnPage(const std::vector<Json>& objects, bool is_first) override {
    {
      const MutexLock lock(mutex_);
      if (is_first) {
        listed_.clear();
      }
      for (const Json& object : objects) {
        listed_.insert_or_assign(k8s::Uid(object), read_(object));
      }
    }
    next_.OnPage(objects, is_first);
  }

  void OnListed() override {
    {
      const MutexLock lock(mutex_);
      entries_ = std::exchange(listed_, {});
    }
    next_.OnListed();
  }

  void OnEvent(const k8s::WatchEvent& event) override {
    {
      const MutexLock lock(mutex_);
      if (event.kind == k8s::WatchEvent::Kind::kDeleted) {
        entries_.erase(k8s::Uid(event.object));
      } else {
        entries_.insert_or_assign(k8s::Uid(event.object), read_(event.object));
      }
    }
    next_.OnEvent(event);
  }

  std::vector<Entry> All() const {
    std::vector<Entry> all;
    const MutexLock lock(mutex_);
    for (const auto& [uid, entry] : entries_) {
      all.push_back(entry);
    }
    return all;
  }

 private:
  const Reader read_;
  k8s::ObjectFollower& next_;
  mutable Mutex mutex_;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);  // By uid.
  std::map<std::string, Entry> listed_;  // The same, of a list that is not whole yet.
};

}  // namespace csidelta::datamover
