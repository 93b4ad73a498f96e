#pragma once

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/call_context.h"
#include "base/json.h"
#include "k8s/api_client.h"
#include "k8s/list_watch.h"

namespace csidelta::k8s {

// One LIST and WATCH of objects for several event handlers, which are called one after the other in
// the order in which they were added.
class Informer : private ObjectEventHandler {
 public:
  explicit Informer(WatchedObjects objects) : objects_(std::move(objects)) {}

  const WatchedObjects& objects() const { return objects_; }

  // Borrows `handler`. Before Run().
  void Add(ObjectEventHandler& handler) { handlers_.push_back(&handler); }

  // Until `ctx` ends, and returns why it ended.
  absl::Status Run(const CallContext& ctx, ApiClient& api) {
    return ListAndWatch(ctx, api, objects_, *this);
  }

 private:
  void OnPage(const std::vector<Json>& objects, bool is_first) override {
    for (ObjectEventHandler* const handler : handlers_) {
      handler->OnPage(objects, is_first);
    }
  }
  void OnListed() override {
    for (ObjectEventHandler* const handler : handlers_) {
      handler->OnListed();
    }
  }
  void OnEvent(const WatchEvent& event) override {
    for (ObjectEventHandler* const handler : handlers_) {
      handler->OnEvent(event);
    }
  }

  const WatchedObjects objects_;
  std::vector<ObjectEventHandler*> handlers_;
};

}  // namespace csidelta::k8s
