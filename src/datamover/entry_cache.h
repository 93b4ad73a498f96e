#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "objects/event_handler.h"

namespace csidelta::datamover {

// What is worth knowing of each object of a kind, as long as it is there; all is passed on to the
// next who follows them. Thread-safe.
template <typename Kind, typename Entry>
class EntryCache : public objects::EventHandler<Kind> {
 public:
  using Reader = std::function<Entry(const Kind& object)>;

  // Borrows `next`.
  EntryCache(Reader read, k8s::ObjectEventHandler& next)
      : objects::EventHandler<Kind>(&next), read_(std::move(read)) {}

  std::vector<Entry> All() const {
    std::vector<Entry> all;
    const MutexLock lock(mutex_);
    for (const auto& [uid, entry] : entries_) {
      all.push_back(entry);
    }
    return all;
  }

 private:
  void OnObjects(std::vector<Kind> page, bool is_first) override {
    const MutexLock lock(mutex_);
    if (is_first) {
      listed_.clear();
    }
    for (const Kind& object : page) {
      listed_.insert_or_assign(object.uid(), read_(object));
    }
  }
  void OnListComplete() override {
    const MutexLock lock(mutex_);
    entries_ = std::exchange(listed_, {});
  }
  void OnChanged(const Kind& object) override {
    const MutexLock lock(mutex_);
    entries_.insert_or_assign(object.uid(), read_(object));
  }
  void OnDeleted(const Kind& object) override {
    const MutexLock lock(mutex_);
    entries_.erase(object.uid());
  }

  const Reader read_;
  mutable Mutex mutex_;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);  // By uid.
  std::map<std::string, Entry> listed_;  // The same, of a list that is not whole yet.
};

}  // namespace csidelta::datamover
