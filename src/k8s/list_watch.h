#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/call_context.h"
#include "base/json.h"
#include "k8s/api_client.h"

namespace csidelta::k8s {

// Who is told which objects of a kind there are.
class ObjectEventHandler {
 public:
  virtual ~ObjectEventHandler() = default;

  // At the start, and when events may have been missed: what there is, in pages. With the first one
  // (`is_first`) the list begins, perhaps again, before it finished.
  virtual void OnPage(const std::vector<Json>& objects, bool is_first) = 0;
  // The list is whole: what was on none of its pages is gone.
  virtual void OnListed() = 0;
  // Never a bookmark.
  virtual void OnEvent(const WatchEvent& event) = 0;

  // A list of one page.
  void OnAll(const std::vector<Json>& objects) {
    OnPage(objects, true);
    OnListed();
  }
};

// Which objects are followed.
struct WatchedObjects {
  ResourceType type;
  std::string namespace_name = {};  // "": in all namespaces
  std::string label_selector = {};
  std::string after = {};  // begin with what comes after this resourceVersion; "": with a list
};

// Follows objects until `ctx` ends, and returns why it ended: lists, then watches, again and again.
// Whatever the API server says meanwhile is logged as a warning when it is no outage, and tried
// again after a pause.
absl::Status ListAndWatch(const CallContext& ctx, ApiClient& client, const WatchedObjects& objects,
                          ObjectEventHandler& handler);

}  // namespace csidelta::k8s
