#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "base/json.h"

namespace csidelta::k8s {

// One kind of object as the API server's paths name it.
struct ResourceType {
  std::string group;  // "" for the core group
  std::string version;
  std::string plural;
  std::string kind;
  bool namespaced = true;

  bool operator==(const ResourceType&) const = default;
};

struct ObjectKey {
  ResourceType type;
  std::string namespace_name;  // "" for cluster-scoped kinds
  std::string name;
};

// "volumesnapshots.snapshot.storage.k8s.io", for messages.
std::string ToString(const ResourceType& type);
// "volumesnapshots.snapshot.storage.k8s.io ns/name", for messages.
std::string ToString(const ObjectKey& key);
// "VolumeSnapshot shop/orders", for messages to people. Pure.
std::string NameText(const ObjectKey& key);

struct ListOptions {
  std::string label_selector = {};
  std::string field_selector = {};
  // As the API server remembers it, maybe a moment ago. Else it reads every object of the namespace
  // again, whatever the selectors leave of them.
  bool may_be_old = false;
  // As it was at this resourceVersion: what was made later is not in it, however soon it was made.
  // "" for now. OUT_OF_RANGE once the API server does not have that any more.
  std::string exactly_at = {};
  // Of ListPages(): how many objects a page may have, which are held at once. 0: few.
  int page_items_max = 0;
  // Of ListPages(): one answer of any length, read as it comes, and pages where that fails. From
  // 1.31 on an API server answers from its memory, with the current state. It reads each page from
  // its store, which takes three times as long. For what older ones may read from their store at
  // once: one namespace.
  bool in_one_answer = false;
};

struct ObjectList {
  std::vector<Json> items;
  std::string resource_version;
};

struct DeleteOptions {
  std::string uid = {};               // precondition when not ""
  std::string resource_version = {};  // precondition when not ""
  // The object is gone at once, whatever its node still does.
  bool at_once = false;
};

enum class PatchKind { kMerge, kJson };

// One event of a watch. Bookmarks carry only metadata.resourceVersion.
struct WatchEvent {
  enum class Kind { kAdded, kModified, kDeleted, kBookmark };
  Kind kind;
  Json object;
};

struct WatchOptions {
  std::string label_selector = {};
  std::string field_selector = {};
  std::string resource_version =
      {};  // where to start: that of the list before; "": what is there first
};

// Takes a page of a list; `is_first`: the list begins (again), and what came before does not count.
using PageSink = absl::FunctionRef<void(std::vector<Json>& page, bool is_first)>;
// Returns whether more events are wanted.
using WatchSink = absl::FunctionRef<bool(const WatchEvent&)>;
using NameFilter = absl::FunctionRef<bool(absl::string_view name)>;

// Answers: what does the API server hold, and change it. The seam to Kubernetes; RestClient is the
// real one, FakeApiClient (tests/support) the fake, and both pass
// tests/contract/api_client_contract.
//
// Objects are whole Kubernetes JSON objects with apiVersion and kind set (also those of a list).
// Thread-safe. Calls block until answered, at most until ctx.deadline. Errors:
//   NOT_FOUND            404: the object, or the kind, is not there
//   ALREADY_EXISTS       409 on create
//   ABORTED              409 on update, patch or delete: read again
//   INVALID_ARGUMENT     400, 422: the server refused the object
//   UNAUTHENTICATED      401
//   PERMISSION_DENIED    403
//   OUT_OF_RANGE         410: resourceVersion too old: list again
//   RESOURCE_EXHAUSTED   429
//   FAILED_PRECONDITION  5xx of an admission webhook that denied the request: its answer
//   UNAVAILABLE          any other 5xx, connection lost
//   DEADLINE_EXCEEDED · CANCELLED   from ctx
// After a 429 or an UNAVAILABLE 5xx the real client tries again, with backoff and Retry-After,
// while deadline and budget allow. Messages name verb, kind, namespace and name, and quote the
// server's.
class ApiClient {
 public:
  virtual ~ApiClient() = default;

  virtual absl::StatusOr<Json> Get(const CallContext& ctx, const ObjectKey& key) = 0;

  // `namespace_name` "" lists all namespaces. Large lists are fetched in pages.
  virtual absl::StatusOr<ObjectList> List(const CallContext& ctx, const ResourceType& type,
                                          absl::string_view namespace_name,
                                          const ListOptions& options) = 0;

  // The same for lists of any length. Each page is given to `sink` as it comes, which may take its
  // objects, and is not kept. Returns the list's resourceVersion. OUT_OF_RANGE: the list grew too
  // old between two pages.
  virtual absl::StatusOr<std::string> ListPages(const CallContext& ctx, const ResourceType& type,
                                                absl::string_view namespace_name,
                                                const ListOptions& options, PageSink sink) {
    absl::StatusOr<ObjectList> list = List(ctx, type, namespace_name, options);
    if (!list.ok()) {
      return list.status();
    }
    sink(list->items, true);
    return list->resource_version;
  }

  // `namespace_name` "" for cluster-scoped kinds. Returns the object as stored.
  virtual absl::StatusOr<Json> Create(const CallContext& ctx, const ResourceType& type,
                                      absl::string_view namespace_name, const Json& object) = 0;

  // The answer that Create() would have now, admission and quotas included: the object as it would
  // be stored. Stores nothing, and uses up nothing of a quota.
  virtual absl::StatusOr<Json> DryRunCreate(const CallContext& ctx, const ResourceType& type,
                                            absl::string_view namespace_name,
                                            const Json& object) = 0;

  // POST to `subresource` of an object, which answers with something new and stores nothing:
  // "token" of a service account. Returns the answer.
  virtual absl::StatusOr<Json> CreateSubresource(const CallContext& ctx, const ObjectKey& key,
                                                 absl::string_view subresource,
                                                 const Json& object) = 0;

  // PUT: `object` must carry the resourceVersion it was read with.
  virtual absl::StatusOr<Json> Update(const CallContext& ctx, const ObjectKey& key,
                                      const Json& object) = 0;

  // `subresource` is "" or "status".
  virtual absl::StatusOr<Json> Patch(const CallContext& ctx, const ObjectKey& key, PatchKind kind,
                                     const Json& patch, absl::string_view subresource) = 0;

  virtual absl::Status Delete(const CallContext& ctx, const ObjectKey& key,
                              const DeleteOptions& options) = 0;

  // Gives `sink` every event after options.resource_version. OK if `sink` returns false, or if the
  // server ends the stream: watch again from the last resourceVersion seen.
  virtual absl::Status Watch(const CallContext& ctx, const ResourceType& type,
                             absl::string_view namespace_name, const WatchOptions& options,
                             WatchSink sink) = 0;

  // As ListPages() with empty options, for a few of very many objects. It may omit objects whose
  // name `is_wanted` denies, and all may be a moment old. That costs it a tenth of reading its
  // store. One that is missing may have been made meanwhile. `is_wanted` is asked while the answer
  // comes, which waits as long as it does.
  virtual absl::StatusOr<std::string> ListWanted(const CallContext& ctx, const ResourceType& type,
                                                 absl::string_view namespace_name,
                                                 NameFilter is_wanted, PageSink sink) {
    static_cast<void>(is_wanted);
    return ListPages(ctx, type, namespace_name, {}, sink);
  }

  // The last 2,000 lines that a container of a Pod wrote, or its run before; 8 MiB at most.
  // INVALID_ARGUMENT if it has not run. Only the real client reads logs.
  virtual absl::StatusOr<std::string> ReadLog(const CallContext& /*ctx*/, const ObjectKey& pod,
                                              const std::string& /*container*/, bool /*previous*/) {
    return absl::UnimplementedError(absl::StrCat("no log of ", ToString(pod)));
  }
};

// The object, or nothing if it does not exist. Other errors are those of Get().
absl::StatusOr<std::optional<Json>> Find(const CallContext& ctx, ApiClient& api,
                                         const ObjectKey& key);

// OK for NOT_FOUND: for what is to go, or matters only while it is there. Pure.
absl::Status IgnoreNotFound(const absl::Status& status);

// OK for ABORTED as well: of what is to go, another one has taken the place. Pure.
absl::Status IgnoreGone(const absl::Status& status);

// What an API server's refusal says of admission. Both kinds of a webhook may come as HTTP 500, and
// only the text tells them apart (k8s.io/apiserver: ToStatusErr() in
// pkg/admission/plugin/webhook/errors/statuserror.go, the dispatchers beside it). `message` may
// have words before it, as a Status of ApiClient has. Pure.

// `admission webhook "NAME" denied the request: ...`: the webhook was asked, and this is its
// answer, whatever HTTP status it chose. The same request is denied again.
bool IsDeniedByWebhook(absl::string_view message);

// `failed calling webhook "NAME": ...`: it was not asked, and the request was not done. It may
// succeed once the webhook is there.
bool IsWebhookAway(absl::string_view message);

// `... because it is being terminated`: a namespace that is being deleted takes no new objects, and
// will take none (plugin/pkg/admission/namespace/lifecycle/admission.go).
bool IsNamespaceTerminating(absl::string_view message);

// Reads a list page by page, as ApiClient::ListPages() does. A list that grew too old between two
// pages is read again from its beginning, three times at most. The objects of a page are the sink's
// to take.
absl::Status ReadPages(const CallContext& ctx, ApiClient& api, const ResourceType& type,
                       absl::string_view namespace_name, const ListOptions& options, PageSink sink);

// The same by ApiClient::ListWanted().
absl::Status ReadWanted(const CallContext& ctx, ApiClient& api, const ResourceType& type,
                        absl::string_view namespace_name, NameFilter is_wanted, PageSink sink);

}  // namespace csidelta::k8s
