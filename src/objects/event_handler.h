#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "k8s/list_watch.h"
#include "objects/client.h"
#include "objects/object.h"

namespace csidelta::objects {

// An event handler of an informer, as k8s::ObjectEventHandler, for the objects of one kind. Objects
// of another kind are ignored.
template <typename Kind>
class EventHandler : public k8s::ObjectEventHandler {
 public:
  // Borrows `next`, which gets the same calls afterwards; null: there is no further handler.
  explicit EventHandler(k8s::ObjectEventHandler* next = nullptr) : next_(next) {}

  void OnPage(const std::vector<Json>& objects, bool is_first) final {
    // Few at a time: copies of a page would take as much memory as the page.
    bool is_begin = is_first;
    std::vector<Kind> few;
    few.reserve(kCopiedMax);
    for (const Json& json : objects) {
      if (few.size() >= kCopiedMax) {
        OnObjects(std::exchange(few, {}), std::exchange(is_begin, false));
      }
      if (absl::StatusOr<Kind> one = As<Kind>(json); one.ok()) {
        few.push_back(*std::move(one));
      }
    }
    OnObjects(std::move(few), is_begin);
    if (next_ != nullptr) {
      next_->OnPage(objects, is_first);
    }
  }
  void OnListed() final {
    OnListComplete();
    if (next_ != nullptr) {
      next_->OnListed();
    }
  }
  void OnEvent(const k8s::WatchEvent& event) final {
    const absl::StatusOr<Kind> object = As<Kind>(event.object);
    if (object.ok()) {
      event.kind == k8s::WatchEvent::Kind::kDeleted ? OnDeleted(*object) : OnChanged(*object);
    }
    if (next_ != nullptr) {
      next_->OnEvent(event);
    }
  }

 private:
  static constexpr std::size_t kCopiedMax = 10;

  // A part of a page of a list, and otherwise as OnPage() of k8s::ObjectEventHandler.
  virtual void OnObjects(std::vector<Kind> page, bool /*is_first*/) {
    for (const Kind& object : page) {
      OnChanged(object);
    }
  }
  virtual void OnListComplete() {}                 // as OnListed()
  virtual void OnChanged(const Kind& object) = 0;  // or new
  virtual void OnDeleted(const Kind& object) = 0;

  k8s::ObjectEventHandler* const next_;
};

// Calls a function with each object as it is, or was when it was deleted.
template <typename Kind>
class NotingEventHandler : public EventHandler<Kind> {
 public:
  using Note = std::function<void(const Kind& object)>;
  explicit NotingEventHandler(Note note) : note_(std::move(note)) {}

 private:
  void OnChanged(const Kind& object) override { note_(object); }
  void OnDeleted(const Kind& object) override { note_(object); }

  const Note note_;
};

}  // namespace csidelta::objects
