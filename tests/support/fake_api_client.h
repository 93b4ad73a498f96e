#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/json.h"
#include "k8s/api_client.h"

namespace csidelta::support {

// One request as the server saw it. `verb` is get, list, watch, create, update, patch or delete.
struct ApiCall {
  std::string verb;
  std::string plural;
  std::string namespace_name;
  std::string name;  // "" for list, watch and create by generateName
  std::string subresource;
  bool dry_run = false;

  bool operator==(const ApiCall&) const = default;
};
std::ostream& operator<<(std::ostream& out, const ApiCall& call);

// On a Pod: its kubelet has not ended it yet. A deletion by force does not wait for that.
inline constexpr char kKubeletFinalizer[] = "test/kubelet";

// Whether a failing call did its work: a refused one did nothing, a lost answer hides a success.
enum class Fault { kRefused, kAnswerLost };

// An API server in memory: the fake behind the ApiClient seam; passes the same contract suite as
// RestClient. Has resourceVersions, uids, generateName, creationTimestamp, generation, selectors,
// merge and JSON patches, preconditions, finalizers with deletionTimestamp, the status subresource,
// and watches that wake at once. Checks names, labels and the like as a real server does. Does not
// collect garbage and does not run controllers: tests play them with the hooks.
//
// Reviews are answered and not stored; a service account's tokens are "token-1", "token-2", ...
//
// Every kind exists until RemoveType(). Thread-safe; hooks run without any lock held, in the thread
// of the call that caused them, before that call returns.
class FakeApiClient : public k8s::ApiClient {
 public:
  // Stamps objects with `clock`'s time.
  explicit FakeApiClient(const Clock& clock = Clock::Real());

  absl::StatusOr<Json> Get(const CallContext& ctx, const k8s::ObjectKey& key) override;
  absl::StatusOr<k8s::ObjectList> List(const CallContext& ctx, const k8s::ResourceType& type,
                                       absl::string_view namespace_name,
                                       const k8s::ListOptions& options) override;
  absl::StatusOr<Json> Create(const CallContext& ctx, const k8s::ResourceType& type,
                              absl::string_view namespace_name, const Json& object) override;
  absl::StatusOr<Json> DryRunCreate(const CallContext& ctx, const k8s::ResourceType& type,
                                    absl::string_view namespace_name, const Json& object) override;
  absl::StatusOr<Json> CreateSubresource(const CallContext& ctx, const k8s::ObjectKey& key,
                                         absl::string_view subresource,
                                         const Json& object) override;
  absl::StatusOr<Json> Update(const CallContext& ctx, const k8s::ObjectKey& key,
                              const Json& object) override;
  absl::StatusOr<Json> Patch(const CallContext& ctx, const k8s::ObjectKey& key, k8s::PatchKind kind,
                             const Json& patch, absl::string_view subresource) override;
  absl::Status Delete(const CallContext& ctx, const k8s::ObjectKey& key,
                      const k8s::DeleteOptions& options) override;
  absl::Status Watch(const CallContext& ctx, const k8s::ResourceType& type,
                     absl::string_view namespace_name, const k8s::WatchOptions& options,
                     absl::FunctionRef<bool(const k8s::WatchEvent&)> sink) override;

  // --- What tests do beside the API. None of it counts as a call, fails by injection or runs
  // hooks.

  // Stores `object` as given, status included, over an older one. Fills in what is missing of
  // apiVersion, kind, uid, creationTimestamp; returns it as stored.
  Json Seed(const k8s::ResourceType& type, Json object);
  std::optional<Json> Find(const k8s::ObjectKey& key) const;
  std::vector<Json> All(const k8s::ResourceType& type) const;
  std::vector<std::string> Names(const k8s::ResourceType& type) const;
  // Whether `wanted` holds for an object; it is asked with a lock held and must not call back.
  bool Any(const k8s::ResourceType& type, const std::function<bool(const Json&)>& wanted) const;
  // Changes a stored object in place, status included, as a controller with all rights; watchers
  // see it. Removing the last finalizer of a deleted object removes it. False when it does not
  // exist.
  bool Mutate(const k8s::ObjectKey& key, const std::function<void(Json&)>& change);
  // Mutate() of one field.
  bool SetField(const k8s::ObjectKey& key, JsonPath path, const Json& value) {
    return Mutate(key, [&](Json& object) { SetJson(object, path, value); });
  }
  // Removes an object whatever its finalizers say.
  bool Remove(const k8s::ObjectKey& key);

  // The kind is not served any more, as if its CRD were missing: NOT_FOUND.
  void RemoveType(const std::string& plural);
  // The kind is known in this version alone, as to a server whose CRD has no other.
  void ServeVersion(const std::string& plural, const std::string& version);
  // Whether the kind has a status subresource (persistentvolumeclaims, volumesnapshots and the like
  // have by default): then writes to the object leave the status alone, and the other way round.
  void SetStatusSubresource(const std::string& plural, bool on);
  // Creating in a namespace that is not there (as object of kind Namespace) is NOT_FOUND.
  void RequireNamespaces();
  // The namespace is being deleted: what is created there is refused with the words of a real
  // server. What is in it stays until the test deletes it.
  void TerminateNamespace(const std::string& name);
  // A ResourceQuota of this name allows so many objects of the kind in the namespace, which counts
  // until they are gone: what is created beyond it is refused with the words of a real server.
  // Lists have the object, with what is used now.
  void SetQuota(const std::string& name, const k8s::ResourceType& type,
                const std::string& namespace_name, int limit);
  // Watches from a resourceVersion before now get OUT_OF_RANGE, as after a compaction.
  void CompactHistory();
  // From now on it remembers so many changes, and forgets the oldest, as a server does that
  // compacts: watches from before them get OUT_OF_RANGE.
  void LimitHistory(std::size_t changes_max);
  // Ends every watch that runs now with OK, as the server's timeout does.
  void EndWatches();
  // Sends every watcher a bookmark with the newest resourceVersion.
  void SendBookmarks();
  // Blocks until at least `count` watches are running.
  void AwaitWatches(int count);
  // Blocks until each watch that is open has delivered all that happened before.
  void AwaitEvents();
  // How many there are now.
  int watches() const;
  // Who asks, as a SelfSubjectReview says.
  void SetUsername(const std::string& username);
  // The Pod that the caller's token is bound to; none at first.
  void SetPod(const std::string& name, const std::string& uid);
  // Objects held; what a test of clean-up compares.
  int object_count() const;

  // --- Hooks

  // Runs after every successful create of `plural`, with the object as stored.
  using ObjectHook = std::function<void(FakeApiClient& api, const Json& object)>;
  void OnCreate(const std::string& plural, ObjectHook hook);
  // Runs after every change of `plural` through the API: created, modified, deleted.
  using EventHook = std::function<void(FakeApiClient& api, const k8s::WatchEvent& event)>;
  void OnEvent(const std::string& plural, EventHook hook);

  // A write as the admission webhooks of a server see it: after its checks, before it is stored.
  struct AdmissionRequest {
    std::string operation = {};  // CREATE, UPDATE, DELETE
    k8s::ResourceType type = {};
    std::string namespace_name = {};
    std::string name = {};
    Json object = {};      // null for DELETE
    Json old_object = {};  // null for CREATE
  };
  // Returns the object as it is to be stored, or the error of the request. Asked without a lock
  // held, for each write through the API but those of a status; perhaps again, when the object
  // changed meanwhile.
  using AdmissionHook = std::function<absl::StatusOr<Json>(const AdmissionRequest& request)>;
  void SetAdmission(AdmissionHook hook);

  // --- Failing. Verb and plural may be "*".

  // The next `times` matching calls fail with `status`; several injections are used up in order.
  void FailNext(const std::string& verb, const std::string& plural, const absl::Status& status,
                int times = 1, Fault fault = Fault::kRefused);
  // The `n`th call of any kind from now on (1 is the next) fails once. For sweeps: raise n until
  // sweep_hit() stays false.
  void FailCall(int n, const absl::Status& status, Fault fault = Fault::kRefused);
  bool sweep_hit() const;
  // All matching calls fail with PERMISSION_DENIED, as without the RBAC rule, and a
  // SelfSubjectAccessReview says so. In all namespaces, or in one.
  void Forbid(const std::string& verb, const std::string& plural,
              const std::string& namespace_name = "*");
  // Asked before every call, without a lock held; an error is the call's answer. `body` is the
  // object or patch sent, or null.
  using Interceptor = std::function<absl::Status(const ApiCall& call, const Json* body)>;
  void SetInterceptor(Interceptor interceptor);
  void ClearFaults();

  // --- The log of calls, in order of arrival.

  std::vector<ApiCall> calls() const;
  int CallCount(const std::string& verb, const std::string& plural) const;
  void ClearCalls();

 private:
  using TypeKey = std::pair<std::string, std::string>;     // group, plural
  using ObjectName = std::pair<std::string, std::string>;  // namespace, name
  struct Change {
    int64_t revision;
    TypeKey type;
    std::optional<Json> before;  // absent: created
    std::optional<Json> after;   // absent: deleted; both absent: bookmark
  };
  struct Injection {
    std::string verb, plural;
    absl::Status status;
    int times;
    Fault fault;
  };
  struct Quota {
    std::string name;
    TypeKey type;
    std::string namespace_name;
    int limit;
  };
  struct ForbiddenCalls {
    std::string verb, plural, namespace_name;
  };
  // What Begin() decided about one call.
  struct Admission {
    absl::Status refused;      // not OK: the answer
    absl::Status lost_answer;  // not OK: do the work, then answer with this
  };
  struct Hooks {
    std::vector<ObjectHook> on_create;
    std::vector<EventHook> on_event;
  };

  Admission Begin(const CallContext& ctx, const ApiCall& call, const Json* body);
  bool IsForbidden(const std::string& verb, const std::string& plural,
                   const std::string& namespace_name) const;
  // The answer to a SelfSubjectReview or a SelfSubjectAccessReview; nothing for other kinds.
  std::optional<absl::StatusOr<Json>> AnswerReview(const k8s::ResourceType& type,
                                                   const Json& review) const;
  void RunHooks(const k8s::ResourceType& type, k8s::WatchEvent::Kind kind, const Json& object);
  int64_t UseOf(const Quota& quota) const;
  // The ResourceQuotas, as they are now.
  void StoreQuotas();
  absl::Status CheckQuotas(const k8s::ResourceType& type, absl::string_view namespace_name,
                           const std::string& name) const;
  // What Create() stores, and whether it may; called with the lock held, which is released while
  // admission is asked.
  absl::StatusOr<Json> Admit(std::unique_lock<std::mutex>& lock, const k8s::ResourceType& type,
                             absl::string_view namespace_name, const Json& object);
  absl::StatusOr<Json> PrepareNew(const k8s::ResourceType& type, absl::string_view namespace_name,
                                  const Json& object);
  // What the admission hook makes of a write. Releases the lock meanwhile.
  absl::StatusOr<Json> AskAdmission(std::unique_lock<std::mutex>& lock,
                                    const AdmissionRequest& request) const;
  using Edit = std::function<absl::StatusOr<Json>(const Json& stored)>;
  absl::StatusOr<k8s::WatchEvent> Modify(const k8s::ObjectKey& key, absl::string_view subresource,
                                         const Edit& edit);
  // What `edit` makes of the object; called with the lock held.
  absl::StatusOr<Json> EditStored(const k8s::ObjectKey& key, absl::string_view subresource,
                                  const Edit& edit) const;
  absl::StatusOr<Json> FindForDelete(const k8s::ObjectKey& key,
                                     const k8s::DeleteOptions& options) const;
  absl::StatusOr<k8s::WatchEvent> Save(const k8s::ObjectKey& key, Json object);
  Json Store(const TypeKey& type, const ObjectName& name, Json object);
  Json Drop(const TypeKey& type, const ObjectName& name);
  void Remember(Change change);
  const Json* FindLocked(const TypeKey& type, const ObjectName& name) const;
  bool HasStatusSubresource(const std::string& plural) const;
  bool Serves(const k8s::ResourceType& type) const;
  std::string NextUid();
  std::optional<k8s::WatchEvent> EventFor(const Change& change, const k8s::ResourceType& type,
                                          absl::string_view namespace_name,
                                          const k8s::WatchOptions& options) const;

  using NamedObjects = std::map<ObjectName, Json>;
  // As they were at this resourceVersion.
  absl::StatusOr<NamedObjects> ObjectsAt(const TypeKey& type, const std::string& exactly_at) const;
  absl::StatusOr<int64_t> KnownRevision(const std::string& text) const;
  absl::StatusOr<int64_t> StartOfWatch(const k8s::WatchOptions& options) const;
  absl::Status AwaitNews(const CallContext& ctx, std::unique_lock<std::mutex>& lock,
                         const std::function<bool()>& news);

  const Clock& clock_;
  mutable std::mutex mutex_;
  mutable std::condition_variable_any changed_;
  std::map<TypeKey, std::map<ObjectName, Json>> objects_;
  std::deque<Change> history_;
  std::size_t history_max_ = std::numeric_limits<std::size_t>::max();
  int64_t forgotten_revision_ = 0;  // of the newest change that is not in history_ any more
  int64_t revision_ = 1000;
  int64_t compacted_revision_ = 0;
  int64_t uids_ = 0;
  int64_t watch_epoch_ = 0;
  int watches_ = 0;
  std::list<int64_t> delivered_;  // up to which revision, by each watch that is open
  bool require_namespaces_ = false;
  std::set<std::string> terminating_namespaces_;
  std::string username_ = "system:serviceaccount:velero:mover";
  Json user_extra_ = Json::object();
  int tokens_ = 0;
  std::set<std::string> removed_types_;
  std::map<std::string, std::string> served_versions_;
  std::map<std::string, bool> status_subresource_;
  std::map<std::string, Hooks> hooks_;
  std::vector<Injection> injections_;
  std::vector<ForbiddenCalls> forbidden_;
  std::vector<Quota> quotas_;
  std::optional<std::pair<int, Injection>> sweep_;
  bool sweep_hit_ = false;
  Interceptor interceptor_;
  AdmissionHook admission_;
  std::vector<ApiCall> calls_;
};

}  // namespace csidelta::support
