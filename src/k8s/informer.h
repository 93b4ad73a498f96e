#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/call_context.h"
#include "base/json.h"
#include "base/mutex.h"
#include "k8s/api_client.h"
#include "k8s/heartbeat.h"

namespace csidelta::k8s {

// An object of an informer's kind.
struct ObjectId {
  std::string namespace_name = {};
  std::string name = {};
  std::string uid = {};  // "": not known
};
ObjectId IdOf(const Json& object);

// Receives what an informer reports, in the informer's thread.
class ObjectEventHandler {
 public:
  virtual ~ObjectEventHandler() = default;

  // The object is new, or differs from what was reported last.
  virtual void OnObjectChanged(const Json& object) = 0;
  // It is gone. `last` is its last state; null when no watch saw the deletion.
  virtual void OnObjectDeleted(const ObjectId& id, const Json* last) = 0;
  // A list is whole, and all its differences were reported.
  virtual void OnListed() {}
  // Whether the handler needs a report when the object that was reported just now is deleted.
  virtual bool Holds(const ObjectId& /*id*/) const { return true; }
};

// Which objects are followed.
struct WatchedObjects {
  ResourceType type;
  std::string namespace_name = {};  // "": in all namespaces
  std::string label_selector = {};
};

// One LIST and WATCH of objects for several handlers, which are called one after the other in the
// order in which they were added.
//
// Handlers get differences only, also after a list that follows a gap (410 Gone, as of Replace() in
// client-go):
//
//   not known, or another resourceVersion  -> OnObjectChanged()
//   the same uid and resourceVersion       -> nothing
//   a known name with another uid          -> OnObjectDeleted() of the old one, OnObjectChanged()
//   known, but not on any page of a list   -> OnObjectDeleted(), when the list is whole
//
// For that it remembers namespace, name, uid and version, about 250 bytes, of each object that a
// handler holds, and nothing of the others: these are reported again after each list.
class Informer {
 public:
  // Borrows the handlers.
  explicit Informer(WatchedObjects objects, std::vector<ObjectEventHandler*> handlers = {})
      : objects_(std::move(objects)), handlers_(std::move(handlers)) {}

  const WatchedObjects& objects() const { return objects_; }
  // Of Run(): at each request, page and event.
  Heartbeat& heartbeat() { return heartbeat_; }
  const Heartbeat& heartbeat() const { return heartbeat_; }

  // Borrows `handler`. REQUIRES that nothing was reported yet: a later one would miss objects.
  void Add(ObjectEventHandler& handler);

  // Until `ctx` ends, and returns why it ended: lists, then watches, again and again. Errors of the
  // API server are logged as warnings when they are no outage, and tried again after a pause.
  // `after`: begins with what comes after this resourceVersion; "": with a list.
  absl::Status Run(const CallContext& ctx, ApiClient& api, const std::string& after = "");

  // A handler knows an object that was not reported, such as one that this process wrote. Its next
  // state is reported in any case, and so is its deletion. Thread-safe.
  void Expect(const ObjectId& id);

  // --- As the API server answers; called by Run()

  // Some objects of a list. The first page (`is_first`) may come again before the list is whole.
  void OnPage(const std::vector<Json>& objects, bool is_first);
  void OnListed();
  // REQUIRES no bookmark.
  void OnEvent(const WatchEvent& event);
  // A list of one page.
  void OnAll(const std::vector<Json>& objects) {
    OnPage(objects, true);
    OnListed();
  }

 private:
  using Name = std::pair<std::string, std::string>;  // namespace, name
  struct Known {
    std::string uid = {};
    uint64_t version = 0;  // that was reported; 0: none, or it is no number
    uint64_t list = 0;     // the last list that had it
  };

  void Report(const Json& object);
  void ReportDeleted(const ObjectId& id, const Json* last);

  const WatchedObjects objects_;
  std::vector<ObjectEventHandler*> handlers_;
  Heartbeat heartbeat_;
  Mutex mutex_;
  uint64_t list_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: not begun
  std::map<Name, Known> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace csidelta::k8s
