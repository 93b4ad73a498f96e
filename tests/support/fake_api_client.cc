#include "tests/support/fake_api_client.h"

#include <algorithm>
#include <chrono>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "k8s/object.h"
#include "tests/support/fake_clock.h"
#include "tests/support/selectors.h"

namespace csidelta::support {
namespace {

using k8s::ObjectKey;
using k8s::ResourceType;
using k8s::WatchEvent;

// A deadline on a clock of the test's own cannot wake a condition variable: looked at this often.
constexpr std::chrono::milliseconds kDeadlineLookInterval{2};

std::string ApiVersion(const ResourceType& type) {
  return type.group.empty() ? type.version : absl::StrCat(type.group, "/", type.version);
}

bool Matches(absl::string_view pattern, absl::string_view text) {
  return pattern == "*" || pattern == text;
}

absl::Status CheckFieldSelector(const ResourceType& type, absl::string_view selector) {
  // Custom resources select by name and namespace only.
  if (absl::StrContains(type.group, ".") && !absl::EndsWith(type.group, ".k8s.io") &&
      !selector.empty() && !absl::StartsWith(selector, "metadata.")) {
    return absl::InvalidArgumentError(absl::StrCat("field label not supported: ", selector));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> MatchesOptions(const Json& object, absl::string_view label_selector,
                                    absl::string_view field_selector) {
  ASSIGN_OR_RETURN(const bool labels_match, MatchesLabels(object, label_selector));
  ASSIGN_OR_RETURN(const bool fields_match, MatchesFields(object, field_selector));
  return labels_match && fields_match;
}

// RFC 7386.
void ApplyMergePatch(Json& target, const Json& patch) { target.merge_patch(patch); }

absl::StatusOr<Json> ApplyPatch(const Json& stored, k8s::PatchKind kind, const Json& patch) {
  if (kind == k8s::PatchKind::kMerge) {
    if (!patch.is_object()) {
      return absl::InvalidArgumentError("a merge patch must be an object");
    }
    Json patched = stored;
    ApplyMergePatch(patched, patch);
    return patched;
  }
  try {
    return stored.patch(patch);
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("JSON patch: ", error.what()));
  }
}

void CopyMember(Json& object, const Json& from, JsonPath path) {
  if (const Json* value = FindJson(from, path); value != nullptr) {
    SetJson(object, path, *value);
  } else {
    EraseJson(object, path);
  }
}

Json WithoutBookkeeping(Json object) {
  EraseJson(object, {"metadata"});
  EraseJson(object, {"status"});
  return object;
}

bool HasFinalizers(const Json& object) {
  const Json* finalizers = FindJson(object, {"metadata", "finalizers"});
  return finalizers != nullptr && finalizers->is_array() && !finalizers->empty();
}

bool IsBeingDeleted(const Json& object) {
  return !GetString(object, {"metadata", "deletionTimestamp"}).empty();
}

bool AddsFinalizer(const Json& before, const Json& after) {
  const Json* old_ones = FindJson(before, {"metadata", "finalizers"});
  const Json* new_ones = FindJson(after, {"metadata", "finalizers"});
  if (new_ones == nullptr || !new_ones->is_array()) {
    return false;
  }
  return std::any_of(new_ones->begin(), new_ones->end(), [&](const Json& finalizer) {
    return old_ones == nullptr ||
           std::find(old_ones->begin(), old_ones->end(), finalizer) == old_ones->end();
  });
}

// 409 when `object` carries another resourceVersion or uid than `stored`.
absl::Status CheckPreconditions(const Json& stored, absl::string_view resource_version,
                                absl::string_view uid) {
  if (!resource_version.empty() && resource_version != k8s::ResourceVersion(stored)) {
    return absl::AbortedError("the object has been modified; apply your changes to the latest");
  }
  if (!uid.empty() && uid != k8s::Uid(stored)) {
    return absl::AbortedError(absl::StrCat("Precondition failed: UID in precondition: ", uid));
  }
  return absl::OkStatus();
}

// What a write through `subresource` makes of `stored`: clients cannot edit the server's own
// fields, and the status and the rest are written apart.
Json Blend(const Json& stored, Json edited, bool has_status, absl::string_view subresource) {
  if (subresource == "status") {
    Json blended = stored;
    CopyMember(blended, edited, {"status"});
    return blended;
  }
  if (has_status) {
    CopyMember(edited, stored, {"status"});
  }
  for (const char* field : {"name", "namespace", "uid", "creationTimestamp", "deletionTimestamp",
                            "deletionGracePeriodSeconds", "generation", "resourceVersion"}) {
    CopyMember(edited, stored, {"metadata", field});
  }
  edited["apiVersion"] = stored["apiVersion"];
  edited["kind"] = stored["kind"];
  return edited;
}

WatchEvent::Kind KindOf(bool before, bool after) {
  if (!before) {
    return WatchEvent::Kind::kAdded;
  }
  return after ? WatchEvent::Kind::kModified : WatchEvent::Kind::kDeleted;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const ApiCall& call) {
  return out << call.verb << " " << call.plural << " " << call.namespace_name << "/" << call.name
             << (call.subresource.empty() ? "" : "/") << call.subresource
             << (call.dry_run ? " (dry run)" : "");
}

FakeApiClient::FakeApiClient(const Clock& clock) : clock_(clock) {
  for (const char* plural : {"persistentvolumeclaims", "persistentvolumes", "pods", "namespaces",
                             "volumesnapshots", "volumesnapshotcontents", "volumegroupsnapshots",
                             "volumegroupsnapshotcontents", "deployments"}) {
    status_subresource_[plural] = true;
  }
}

FakeApiClient::Admission FakeApiClient::Begin(const CallContext& ctx, const ApiCall& call,
                                              const Json* body) {
  Interceptor interceptor;
  {
    std::scoped_lock lock(mutex_);
    calls_.push_back(call);
    interceptor = interceptor_;
  }
  const std::string what = absl::StrCat(call.verb, " ", call.plural, " ", call.namespace_name,
                                        call.namespace_name.empty() ? "" : "/", call.name);
  const auto refuse = [&](const absl::Status& status) {
    return Admission{.refused = Annotate(status, what), .lost_answer = {}};
  };
  if (absl::Status status = ctx.Check(); !status.ok()) {
    return refuse(status);
  }
  if (absl::Status status = interceptor ? interceptor(call, body) : absl::OkStatus();
      !status.ok()) {
    return refuse(status);
  }
  std::scoped_lock lock(mutex_);
  if (removed_types_.contains(call.plural)) {
    return refuse(absl::NotFoundError("the server could not find the requested resource"));
  }
  if (IsForbidden(call.verb, call.plural, call.namespace_name)) {
    return refuse(absl::PermissionDeniedError("forbidden"));
  }
  const auto answer = [&](const Injection& injection) {
    const absl::Status status = Annotate(injection.status, what);
    return injection.fault == Fault::kRefused ? Admission{status, {}} : Admission{{}, status};
  };
  if (sweep_.has_value() && --sweep_->first == 0) {
    sweep_hit_ = true;
    const Injection injection = std::exchange(sweep_, std::nullopt)->second;
    return answer(injection);
  }
  for (auto it = injections_.begin(); it != injections_.end(); ++it) {
    if (Matches(it->verb, call.verb) && Matches(it->plural, call.plural)) {
      const Injection injection = *it;
      if (--it->times == 0) {
        injections_.erase(it);
      }
      return answer(injection);
    }
  }
  return {};
}

bool FakeApiClient::IsForbidden(const std::string& verb, const std::string& plural,
                                const std::string& namespace_name) const {
  return std::any_of(forbidden_.begin(), forbidden_.end(), [&](const ForbiddenCalls& calls) {
    return Matches(calls.verb, verb) && Matches(calls.plural, plural) &&
           Matches(calls.namespace_name, namespace_name);
  });
}

std::optional<absl::StatusOr<Json>> FakeApiClient::AnswerReview(const ResourceType& type,
                                                                const Json& review) const {
  std::scoped_lock lock(mutex_);
  Json answer = review;
  if (type.plural == "selfsubjectreviews") {
    SetJson(answer, {"status", "userInfo", "username"}, username_);
    SetJson(answer, {"status", "userInfo", "extra"}, user_extra_);
    return absl::StatusOr<Json>(std::move(answer));
  }
  if (type.plural != "selfsubjectaccessreviews") {
    return std::nullopt;
  }
  const Json* const asked = FindJson(review, {"spec", "resourceAttributes"});
  if ((asked == nullptr) == (FindJson(review, {"spec", "nonResourceAttributes"}) == nullptr)) {
    return absl::StatusOr<Json>(absl::InvalidArgumentError(
        "spec.resourceAttributes: exactly one of nonResourceAttributes or resourceAttributes must "
        "be specified"));
  }
  const bool is_forbidden =
      asked != nullptr && IsForbidden(GetString(*asked, {"verb"}), GetString(*asked, {"resource"}),
                                      GetString(*asked, {"namespace"}));
  SetJson(answer, {"status", "allowed"}, !is_forbidden);
  return absl::StatusOr<Json>(std::move(answer));
}

const Json* FakeApiClient::FindLocked(const TypeKey& type, const ObjectName& name) const {
  const auto objects = objects_.find(type);
  if (objects == objects_.end()) {
    return nullptr;
  }
  const auto found = objects->second.find(name);
  return found == objects->second.end() ? nullptr : &found->second;
}

bool FakeApiClient::HasStatusSubresource(const std::string& plural) const {
  const auto found = status_subresource_.find(plural);
  return found != status_subresource_.end() && found->second;
}

bool FakeApiClient::Serves(const ResourceType& type) const {
  const auto version = served_versions_.find(type.plural);
  return version == served_versions_.end() || version->second == type.version;
}

std::string FakeApiClient::NextUid() {
  return absl::StrFormat("00000000-0000-4000-8000-%012d", ++uids_);
}

Json FakeApiClient::Store(const TypeKey& type, const ObjectName& name, Json object) {
  Json& slot = objects_[type][name];
  Change change{.revision = ++revision_, .type = type, .before = {}, .after = {}};
  if (!slot.is_null()) {
    change.before = slot;
  }
  SetJson(object, {"metadata", "resourceVersion"}, std::to_string(revision_));
  slot = object;
  change.after = object;
  Remember(std::move(change));
  return object;
}

Json FakeApiClient::Drop(const TypeKey& type, const ObjectName& name) {
  Json object = objects_[type][name];
  objects_[type].erase(name);
  Remember({.revision = ++revision_, .type = type, .before = object, .after = std::nullopt});
  SetJson(object, {"metadata", "resourceVersion"}, std::to_string(revision_));
  return object;
}

void FakeApiClient::Remember(Change change) {
  history_.push_back(std::move(change));
  while (history_.size() > history_max_) {
    forgotten_revision_ = history_.front().revision;
    history_.pop_front();
  }
  changed_.notify_all();
}

void FakeApiClient::RunHooks(const ResourceType& type, WatchEvent::Kind kind, const Json& object) {
  Hooks hooks;
  {
    std::scoped_lock lock(mutex_);
    const auto found = hooks_.find(type.plural);
    if (found == hooks_.end()) {
      return;
    }
    hooks = found->second;
  }
  if (kind == WatchEvent::Kind::kAdded) {
    for (const ObjectHook& hook : hooks.on_create) {
      hook(*this, object);
    }
  }
  for (const EventHook& hook : hooks.on_event) {
    hook(*this, WatchEvent{kind, object});
  }
}

absl::StatusOr<Json> FakeApiClient::Get(const CallContext& ctx, const ObjectKey& key) {
  const Admission admission =
      Begin(ctx, {"get", key.type.plural, key.namespace_name, key.name, ""}, nullptr);
  RETURN_IF_ERROR(admission.refused);
  RETURN_IF_ERROR(admission.lost_answer);
  std::scoped_lock lock(mutex_);
  const Json* found = FindLocked({key.type.group, key.type.plural}, {key.namespace_name, key.name});
  if (found == nullptr || !Serves(key.type)) {
    return absl::NotFoundError(absl::StrCat("get ", ToString(key), ": not found"));
  }
  Json object = *found;
  object["apiVersion"] = ApiVersion(key.type);
  return object;
}

absl::StatusOr<k8s::ObjectList> FakeApiClient::List(const CallContext& ctx,
                                                    const ResourceType& type,
                                                    absl::string_view namespace_name,
                                                    const k8s::ListOptions& options) {
  const Admission admission =
      Begin(ctx, {"list", type.plural, std::string(namespace_name), "", ""}, nullptr);
  RETURN_IF_ERROR(admission.refused);
  RETURN_IF_ERROR(admission.lost_answer);
  const std::string what = absl::StrCat("list ", ToString(type));
  RETURN_IF_ERROR(Annotate(CheckFieldSelector(type, options.field_selector), what));
  std::scoped_lock lock(mutex_);
  if (!Serves(type)) {
    return absl::NotFoundError(what);
  }
  k8s::ObjectList list{.items = {}, .resource_version = std::to_string(revision_)};
  // Also with nothing stored a malformed selector is an error.
  RETURN_IF_ERROR(Annotate(
      MatchesOptions(Json::object(), options.label_selector, options.field_selector).status(),
      what));
  StoreQuotas();
  const NamedObjects* objects = &objects_[{type.group, type.plural}];
  NamedObjects past;
  if (!options.exactly_at.empty()) {
    ASSIGN_OR_RETURN(past, ObjectsAt({type.group, type.plural}, options.exactly_at));
    objects = &past;
    list.resource_version = options.exactly_at;
  }
  for (const auto& [name, stored] : *objects) {
    if (!namespace_name.empty() && name.first != namespace_name) {
      continue;
    }
    ASSIGN_OR_RETURN(const bool matches,
                     MatchesOptions(stored, options.label_selector, options.field_selector));
    if (matches) {
      list.items.push_back(stored);
      list.items.back()["apiVersion"] = ApiVersion(type);
    }
  }
  return list;
}

absl::StatusOr<Json> FakeApiClient::PrepareNew(const ResourceType& type,
                                               absl::string_view namespace_name,
                                               const Json& object) {
  if (!object.is_object()) {
    return absl::InvalidArgumentError("the object is not a JSON object");
  }
  Json prepared = object;
  if (GetString(prepared, {"apiVersion"}) != ApiVersion(type) ||
      GetString(prepared, {"kind"}) != type.kind) {
    return absl::InvalidArgumentError(
        absl::StrCat("apiVersion and kind must be ", ApiVersion(type), " ", type.kind));
  }
  if (!k8s::ResourceVersion(prepared).empty()) {
    return absl::InvalidArgumentError("resourceVersion should not be set on objects to be created");
  }
  const std::string own_namespace = k8s::Namespace(prepared);
  if (!own_namespace.empty() && own_namespace != namespace_name) {
    return absl::InvalidArgumentError(
        "the namespace of the provided object does not match the namespace sent on the request");
  }
  if (type.namespaced) {
    SetJson(prepared, {"metadata", "namespace"}, std::string(namespace_name));
  }
  const std::string prefix = GetString(prepared, {"metadata", "generateName"});
  if (k8s::Name(prepared).empty() && !prefix.empty()) {
    SetJson(
        prepared, {"metadata", "name"},
        absl::StrCat(prefix.substr(0, 58), absl::StrFormat("%05x", revision_ * 7919 % 0xfffff)));
  }
  RETURN_IF_ERROR(ValidateMetadata(prepared));
  if (type.group.empty() && type.plural == "events") {
    RETURN_IF_ERROR(ValidateEvent(prepared));
  }
  if (HasStatusSubresource(type.plural)) {
    prepared.erase("status");
    if (type.plural == "persistentvolumeclaims" || type.plural == "pods") {
      SetJson(prepared, {"status", "phase"}, "Pending");
    }
  }
  EraseJson(prepared, {"metadata", "deletionTimestamp"});
  SetJson(prepared, {"metadata", "uid"}, NextUid());
  SetJson(prepared, {"metadata", "creationTimestamp"},
          absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", clock_.Now(), absl::UTCTimeZone()));
  SetJson(prepared, {"metadata", "generation"}, 1);
  return prepared;
}

void FakeApiClient::SetQuota(const std::string& name, const k8s::ResourceType& type,
                             const std::string& namespace_name, int limit) {
  std::scoped_lock lock(mutex_);
  quotas_.push_back({name, {type.group, type.plural}, namespace_name, limit});
}

int64_t FakeApiClient::UseOf(const Quota& quota) const {
  const auto objects = objects_.find(quota.type);
  return objects == objects_.end()
             ? 0
             : std::count_if(objects->second.begin(), objects->second.end(), [&](const auto& one) {
                 return one.first.first == quota.namespace_name;
               });
}

void FakeApiClient::StoreQuotas() {
  for (const Quota& quota : quotas_) {
    const auto& [group, plural] = quota.type;
    const std::string counted = absl::StrCat("count/", plural, group.empty() ? "" : ".", group);
    const Json hard = {{counted, std::to_string(quota.limit)}};
    const Json used = {{counted, std::to_string(UseOf(quota))}};
    objects_[{"", "resourcequotas"}][{quota.namespace_name, quota.name}] = {
        {"apiVersion", "v1"},
        {"kind", "ResourceQuota"},
        {"metadata", {{"name", quota.name}, {"namespace", quota.namespace_name}}},
        {"spec", {{"hard", hard}}},
        {"status", {{"hard", hard}, {"used", used}}}};
  }
}

absl::Status FakeApiClient::CheckQuotas(const ResourceType& type, absl::string_view namespace_name,
                                        const std::string& name) const {
  for (const Quota& quota : quotas_) {
    if (quota.type != TypeKey{type.group, type.plural} || quota.namespace_name != namespace_name) {
      continue;
    }
    const int64_t used = UseOf(quota);
    if (used >= quota.limit) {
      const std::string counted = absl::StrCat("count/", ToString(type), "=");
      return absl::PermissionDeniedError(
          absl::StrCat(ToString(type), " \"", name, "\" is forbidden: exceeded quota: ", quota.name,
                       ", requested: ", counted, 1, ", used: ", counted, used,
                       ", limited: ", counted, quota.limit));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Json> FakeApiClient::Admit(std::unique_lock<std::mutex>& lock,
                                          const ResourceType& type,
                                          absl::string_view namespace_name, const Json& object) {
  if (!Serves(type)) {
    return absl::NotFoundError("the server could not find the requested resource");
  }
  if (require_namespaces_ && type.namespaced &&
      FindLocked({"", "namespaces"}, {"", std::string(namespace_name)}) == nullptr) {
    return absl::NotFoundError(absl::StrCat("namespaces \"", namespace_name, "\" not found"));
  }
  ASSIGN_OR_RETURN(Json prepared, PrepareNew(type, namespace_name, object));
  const std::string name = k8s::Name(prepared);
  if (type.namespaced && terminating_namespaces_.contains(std::string(namespace_name))) {
    return absl::PermissionDeniedError(
        absl::StrCat(type.plural, type.group.empty() ? "" : ".", type.group, " \"", name,
                     "\" is forbidden: unable to create new content in namespace ", namespace_name,
                     " because it is being terminated"));
  }
  if (admission_) {
    ASSIGN_OR_RETURN(prepared, AskAdmission(lock, {.operation = "CREATE",
                                                   .type = type,
                                                   .namespace_name = std::string(namespace_name),
                                                   .name = name,
                                                   .object = prepared,
                                                   .old_object = Json()}));
  }
  RETURN_IF_ERROR(CheckQuotas(type, namespace_name, name));
  if (FindLocked({type.group, type.plural}, {std::string(namespace_name), name}) != nullptr) {
    return absl::AlreadyExistsError("already exists");
  }
  return prepared;
}

absl::StatusOr<Json> FakeApiClient::AskAdmission(std::unique_lock<std::mutex>& lock,
                                                 const AdmissionRequest& request) const {
  const AdmissionHook hook = admission_;
  lock.unlock();
  absl::StatusOr<Json> answer = hook(request);
  lock.lock();
  return answer;
}

absl::StatusOr<Json> FakeApiClient::Create(const CallContext& ctx, const ResourceType& type,
                                           absl::string_view namespace_name, const Json& object) {
  const std::string asked_name = k8s::Name(object);
  const Admission admission =
      Begin(ctx, {"create", type.plural, std::string(namespace_name), asked_name, ""}, &object);
  RETURN_IF_ERROR(admission.refused);
  if (const std::optional<absl::StatusOr<Json>> answer = AnswerReview(type, object)) {
    RETURN_IF_ERROR(Annotate(answer->status(), absl::StrCat("create ", ToString(type))));
    return *answer;
  }
  Json created;
  {
    std::unique_lock lock(mutex_);
    absl::StatusOr<Json> admitted = Admit(lock, type, namespace_name, object);
    RETURN_IF_ERROR(
        Annotate(admitted.status(), absl::StrCat("create ", ToString(type), " ", namespace_name,
                                                 namespace_name.empty() ? "" : "/", asked_name)));
    const ObjectName name{std::string(namespace_name), k8s::Name(*admitted)};
    created = Store({type.group, type.plural}, name, *std::move(admitted));
  }
  RunHooks(type, WatchEvent::Kind::kAdded, created);
  RETURN_IF_ERROR(admission.lost_answer);
  return created;
}

absl::StatusOr<Json> FakeApiClient::DryRunCreate(const CallContext& ctx, const ResourceType& type,
                                                 absl::string_view namespace_name,
                                                 const Json& object) {
  const std::string name = k8s::Name(object);
  const Admission admission =
      Begin(ctx, {"create", type.plural, std::string(namespace_name), name, "", /*dry_run=*/true},
            &object);
  RETURN_IF_ERROR(admission.refused);
  RETURN_IF_ERROR(admission.lost_answer);
  std::unique_lock lock(mutex_);
  absl::StatusOr<Json> admitted = Admit(lock, type, namespace_name, object);
  RETURN_IF_ERROR(Annotate(admitted.status(),
                           absl::StrCat("create (dry run) ", ToString(type), " ", namespace_name,
                                        namespace_name.empty() ? "" : "/", name)));
  return admitted;
}

absl::StatusOr<Json> FakeApiClient::CreateSubresource(const CallContext& ctx, const ObjectKey& key,
                                                      absl::string_view subresource,
                                                      const Json& object) {
  const Admission admission = Begin(
      ctx, {"create", key.type.plural, key.namespace_name, key.name, std::string(subresource)},
      &object);
  RETURN_IF_ERROR(admission.refused);
  std::scoped_lock lock(mutex_);
  const Json* owner = FindLocked({key.type.group, key.type.plural}, {key.namespace_name, key.name});
  if (owner == nullptr || key.type.plural != "serviceaccounts" || subresource != "token") {
    return absl::NotFoundError(absl::StrCat("create ", subresource, " of ", ToString(key)));
  }
  const int64_t seconds = GetInt(object, {"spec", "expirationSeconds"}, 3600);
  if (seconds < 600) {
    return absl::InvalidArgumentError("spec.expirationSeconds: may not be less than 10 minutes");
  }
  Json answer = object;
  SetJson(answer, {"status", "token"}, absl::StrCat("token-", ++tokens_));
  SetJson(answer, {"status", "expirationTimestamp"},
          absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", clock_.Now() + absl::Seconds(seconds),
                           absl::UTCTimeZone()));
  return answer;
}

void FakeApiClient::SetUsername(const std::string& username) {
  std::scoped_lock lock(mutex_);
  username_ = username;
}

void FakeApiClient::SetPod(const std::string& name, const std::string& uid) {
  std::scoped_lock lock(mutex_);
  user_extra_ = {{"authentication.kubernetes.io/pod-name", Json::array({name})},
                 {"authentication.kubernetes.io/pod-uid", Json::array({uid})}};
}

// Writes `object`, the new state of what is stored under `key`, if it differs. REQUIRES mutex_.
absl::StatusOr<WatchEvent> FakeApiClient::Save(const ObjectKey& key, Json object) {
  const TypeKey type{key.type.group, key.type.plural};
  const ObjectName name{key.namespace_name, key.name};
  const Json stored = *FindLocked(type, name);
  if (IsBeingDeleted(object) && !HasFinalizers(object)) {
    Store(type, name, std::move(object));
    return WatchEvent{WatchEvent::Kind::kDeleted, Drop(type, name)};
  }
  if (object == stored) {
    return WatchEvent{WatchEvent::Kind::kBookmark, stored};  // Nothing changed: no event.
  }
  if (WithoutBookkeeping(object) != WithoutBookkeeping(stored)) {
    SetJson(object, {"metadata", "generation"}, GetInt(stored, {"metadata", "generation"}) + 1);
  }
  return WatchEvent{WatchEvent::Kind::kModified, Store(type, name, std::move(object))};
}

absl::StatusOr<Json> FakeApiClient::EditStored(const ObjectKey& key, absl::string_view subresource,
                                               const Edit& edit) const {
  const Json* found = FindLocked({key.type.group, key.type.plural}, {key.namespace_name, key.name});
  const bool has_status = HasStatusSubresource(key.type.plural);
  if (found == nullptr || (!subresource.empty() && !has_status) || !Serves(key.type)) {
    return absl::NotFoundError("not found");
  }
  Json presented = *found;
  presented["apiVersion"] = ApiVersion(key.type);
  ASSIGN_OR_RETURN(Json edited, edit(presented));
  if (!edited.is_object()) {
    return absl::InvalidArgumentError("the result is not an object");
  }
  RETURN_IF_ERROR(CheckPreconditions(*found, k8s::ResourceVersion(edited), k8s::Uid(edited)));
  if (k8s::Name(edited) != key.name) {
    return absl::InvalidArgumentError("metadata.name: field is immutable");
  }
  edited = Blend(*found, std::move(edited), has_status, subresource);
  RETURN_IF_ERROR(ValidateMetadata(edited));
  if (IsBeingDeleted(*found) && AddsFinalizer(*found, edited)) {
    return absl::InvalidArgumentError(
        "metadata.finalizers: no new finalizers can be added if the object is being deleted");
  }
  return edited;
}

absl::StatusOr<WatchEvent> FakeApiClient::Modify(const ObjectKey& key,
                                                 absl::string_view subresource, const Edit& edit) {
  std::unique_lock lock(mutex_);
  ASSIGN_OR_RETURN(Json edited, EditStored(key, subresource, edit));
  while (admission_ && subresource.empty()) {
    const TypeKey type{key.type.group, key.type.plural};
    const ObjectName name{key.namespace_name, key.name};
    const Json before = *FindLocked(type, name);
    ASSIGN_OR_RETURN(edited, AskAdmission(lock, {.operation = "UPDATE",
                                                 .type = key.type,
                                                 .namespace_name = key.namespace_name,
                                                 .name = key.name,
                                                 .object = edited,
                                                 .old_object = before}));
    const Json* const now = FindLocked(type, name);
    if (now != nullptr && k8s::ResourceVersion(*now) == k8s::ResourceVersion(before)) {
      break;
    }
    ASSIGN_OR_RETURN(edited, EditStored(key, subresource, edit));  // It changed meanwhile.
  }
  ASSIGN_OR_RETURN(WatchEvent event, Save(key, std::move(edited)));
  event.object["apiVersion"] = ApiVersion(key.type);
  return event;
}

absl::StatusOr<Json> FakeApiClient::Update(const CallContext& ctx, const ObjectKey& key,
                                           const Json& object) {
  const Admission admission =
      Begin(ctx, {"update", key.type.plural, key.namespace_name, key.name, ""}, &object);
  RETURN_IF_ERROR(admission.refused);
  const absl::StatusOr<WatchEvent> event =
      Modify(key, "", [&](const Json&) -> absl::StatusOr<Json> {
        if (k8s::ResourceVersion(object).empty()) {
          return absl::InvalidArgumentError(
              "metadata.resourceVersion: must be specified for an update");
        }
        return object;
      });
  RETURN_IF_ERROR(Annotate(event.status(), absl::StrCat("update ", ToString(key))));
  if (event->kind != WatchEvent::Kind::kBookmark) {
    RunHooks(key.type, event->kind, event->object);
  }
  RETURN_IF_ERROR(admission.lost_answer);
  return event->object;
}

absl::StatusOr<Json> FakeApiClient::Patch(const CallContext& ctx, const ObjectKey& key,
                                          k8s::PatchKind kind, const Json& patch,
                                          absl::string_view subresource) {
  const Admission admission =
      Begin(ctx, {"patch", key.type.plural, key.namespace_name, key.name, std::string(subresource)},
            &patch);
  RETURN_IF_ERROR(admission.refused);
  const absl::StatusOr<WatchEvent> event =
      Modify(key, subresource, [&](const Json& stored) { return ApplyPatch(stored, kind, patch); });
  RETURN_IF_ERROR(Annotate(event.status(), absl::StrCat("patch ", ToString(key))));
  if (event->kind != WatchEvent::Kind::kBookmark) {
    RunHooks(key.type, event->kind, event->object);
  }
  RETURN_IF_ERROR(admission.lost_answer);
  return event->object;
}

absl::StatusOr<Json> FakeApiClient::FindForDelete(const ObjectKey& key,
                                                  const k8s::DeleteOptions& options) const {
  const Json* stored =
      FindLocked({key.type.group, key.type.plural}, {key.namespace_name, key.name});
  const std::string what = absl::StrCat("delete ", ToString(key));
  if (stored == nullptr || !Serves(key.type)) {
    return absl::NotFoundError(absl::StrCat(what, ": not found"));
  }
  RETURN_IF_ERROR(
      Annotate(CheckPreconditions(*stored, options.resource_version, options.uid), what));
  return *stored;
}

absl::Status FakeApiClient::Delete(const CallContext& ctx, const ObjectKey& key,
                                   const k8s::DeleteOptions& options) {
  const Admission admission =
      Begin(ctx, {"delete", key.type.plural, key.namespace_name, key.name, ""}, nullptr);
  RETURN_IF_ERROR(admission.refused);
  WatchEvent event{WatchEvent::Kind::kBookmark, {}};
  {
    std::unique_lock lock(mutex_);
    ASSIGN_OR_RETURN(Json stored, FindForDelete(key, options));
    if (admission_) {
      RETURN_IF_ERROR(AskAdmission(lock, {.operation = "DELETE",
                                          .type = key.type,
                                          .namespace_name = key.namespace_name,
                                          .name = key.name,
                                          .object = Json(),
                                          .old_object = stored})
                          .status());
      ASSIGN_OR_RETURN(stored, FindForDelete(key, options));
    }
    const TypeKey type{key.type.group, key.type.plural};
    const ObjectName name{key.namespace_name, key.name};
    const bool waits_for_kubelet_alone =
        options.at_once &&
        stored["metadata"].value("finalizers", Json()) == Json::array({kKubeletFinalizer});
    if (!HasFinalizers(stored) || waits_for_kubelet_alone) {
      event = {WatchEvent::Kind::kDeleted, Drop(type, name)};
    } else if (!IsBeingDeleted(stored)) {
      Json object = stored;
      SetJson(object, {"metadata", "deletionTimestamp"},
              absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", clock_.Now(), absl::UTCTimeZone()));
      SetJson(object, {"metadata", "deletionGracePeriodSeconds"}, 0);
      event = {WatchEvent::Kind::kModified, Store(type, name, std::move(object))};
    }
  }
  if (event.kind != WatchEvent::Kind::kBookmark) {
    RunHooks(key.type, event.kind, event.object);
  }
  return admission.lost_answer;
}

// What a watcher with these options sees of `change`; nothing when it does not concern him. An
// object that stops matching a selector is gone for him.
std::optional<WatchEvent> FakeApiClient::EventFor(const Change& change, const ResourceType& type,
                                                  absl::string_view namespace_name,
                                                  const k8s::WatchOptions& options) const {
  if (!change.before.has_value() && !change.after.has_value()) {
    Json bookmark = Json::object();
    bookmark["apiVersion"] = ApiVersion(type);
    bookmark["kind"] = type.kind;
    SetJson(bookmark, {"metadata", "resourceVersion"}, std::to_string(change.revision));
    return WatchEvent{WatchEvent::Kind::kBookmark, bookmark};
  }
  if (change.type != TypeKey{type.group, type.plural}) {
    return std::nullopt;
  }
  const auto concerns = [&](const std::optional<Json>& object) {
    if (!object.has_value()) {
      return false;
    }
    if (!namespace_name.empty() && k8s::Namespace(*object) != namespace_name) {
      return false;
    }
    return MatchesOptions(*object, options.label_selector, options.field_selector).value_or(false);
  };
  const bool before = concerns(change.before);
  const bool after = concerns(change.after);
  if (!before && !after) {
    return std::nullopt;
  }
  Json object = change.after.has_value() ? *change.after : *change.before;
  object["apiVersion"] = ApiVersion(type);
  SetJson(object, {"metadata", "resourceVersion"}, std::to_string(change.revision));
  return WatchEvent{KindOf(before, after), std::move(object)};
}

absl::StatusOr<int64_t> FakeApiClient::KnownRevision(const std::string& text) const {
  int64_t revision = 0;
  if (!absl::SimpleAtoi(text, &revision)) {
    return absl::InvalidArgumentError("invalid resource version");
  }
  if (revision < std::max(compacted_revision_, forgotten_revision_)) {
    return absl::OutOfRangeError("too old resource version");
  }
  return revision;
}

absl::StatusOr<FakeApiClient::NamedObjects> FakeApiClient::ObjectsAt(
    const TypeKey& type, const std::string& exactly_at) const {
  const auto found = objects_.find(type);
  NamedObjects objects = found == objects_.end() ? NamedObjects() : found->second;
  ASSIGN_OR_RETURN(const int64_t revision, KnownRevision(exactly_at));
  for (auto change = history_.rbegin(); change != history_.rend() && change->revision > revision;
       ++change) {
    if (change->type != type) {
      continue;
    }
    const Json& object = change->before.has_value() ? *change->before : *change->after;
    const ObjectName name = {k8s::Namespace(object), k8s::Name(object)};
    if (change->before.has_value()) {
      objects[name] = object;
    } else {
      objects.erase(name);
    }
  }
  return objects;
}

absl::StatusOr<int64_t> FakeApiClient::StartOfWatch(const k8s::WatchOptions& options) const {
  RETURN_IF_ERROR(
      MatchesOptions(Json::object(), options.label_selector, options.field_selector).status());
  if (options.resource_version.empty() || options.resource_version == "0") {
    return revision_;
  }
  return KnownRevision(options.resource_version);
}

// Blocks until `news` or until ctx is over. A clock that advances by itself jumps to the deadline.
absl::Status FakeApiClient::AwaitNews(const CallContext& ctx, std::unique_lock<std::mutex>& lock,
                                      const std::function<bool()>& news) {
  while (!news()) {
    RETURN_IF_ERROR(ctx.Check());
    const auto* fake_clock = dynamic_cast<const FakeClock*>(ctx.clock);
    if (fake_clock != nullptr && fake_clock->auto_advance() &&
        ctx.deadline != absl::InfiniteDuration()) {
      fake_clock->SleepFor(ctx.TimeLeft(), ctx.stop);
    } else if (fake_clock != nullptr) {
      changed_.wait_for(lock, ctx.stop, kDeadlineLookInterval, news);
    } else {
      const absl::Duration left = std::min(ctx.TimeLeft(), absl::Seconds(1));
      changed_.wait_for(lock, ctx.stop, absl::ToChronoNanoseconds(left), news);
    }
  }
  return absl::OkStatus();
}

absl::Status FakeApiClient::Watch(const CallContext& ctx, const ResourceType& type,
                                  absl::string_view namespace_name,
                                  const k8s::WatchOptions& options,
                                  absl::FunctionRef<bool(const WatchEvent&)> sink) {
  const Admission admission =
      Begin(ctx, {"watch", type.plural, std::string(namespace_name), "", ""}, nullptr);
  RETURN_IF_ERROR(admission.refused);
  const std::string what = absl::StrCat("watch ", ToString(type));
  std::unique_lock lock(mutex_);
  const absl::StatusOr<int64_t> start = StartOfWatch(options);
  RETURN_IF_ERROR(Annotate(start.status(), what));
  int64_t seen_revision = *start;
  std::vector<WatchEvent> pending;
  const auto consider = [&](const Change& change) {
    if (std::optional<WatchEvent> event = EventFor(change, type, namespace_name, options)) {
      pending.push_back(*std::move(event));
    }
  };
  if (options.resource_version.empty() || options.resource_version == "0") {
    for (const auto& [name, stored] : objects_[{type.group, type.plural}]) {
      consider(Change{revision_, {type.group, type.plural}, std::nullopt, stored});
    }
  }
  const int64_t epoch = watch_epoch_;
  ++watches_;
  const auto delivered = delivered_.insert(delivered_.end(), -1);
  changed_.notify_all();
  const absl::Cleanup leave = [this, delivered] {
    --watches_;
    delivered_.erase(delivered);
    changed_.notify_all();
  };
  while (true) {
    if (seen_revision < forgotten_revision_) {  // Too slow.
      return Annotate(absl::OutOfRangeError("too old resource version"), what);
    }
    const auto news = std::partition_point(
        history_.begin(), history_.end(),
        [&](const Change& change) { return change.revision <= seen_revision; });
    std::for_each(news, history_.end(), consider);
    seen_revision = std::max(seen_revision, history_.empty() ? 0 : history_.back().revision);
    lock.unlock();
    bool more = true;
    for (auto event = pending.begin(); more && event != pending.end(); ++event) {
      more = sink(*event);
    }
    pending.clear();
    lock.lock();
    *delivered = seen_revision;
    changed_.notify_all();
    if (!more || watch_epoch_ != epoch) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(admission.lost_answer);  // A stream that breaks off after its first events.
    const absl::Status status = AwaitNews(ctx, lock, [&] {
      return watch_epoch_ != epoch ||
             (!history_.empty() && history_.back().revision > seen_revision);
    });
    RETURN_IF_ERROR(Annotate(status, what));
  }
}

Json FakeApiClient::Seed(const ResourceType& type, Json object) {
  std::scoped_lock lock(mutex_);
  object["apiVersion"] = ApiVersion(type);
  object["kind"] = type.kind;
  if (k8s::Uid(object).empty()) {
    SetJson(object, {"metadata", "uid"}, NextUid());
  }
  if (GetString(object, {"metadata", "creationTimestamp"}).empty()) {
    SetJson(object, {"metadata", "creationTimestamp"},
            absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", clock_.Now(), absl::UTCTimeZone()));
  }
  const ObjectName name{k8s::Namespace(object), k8s::Name(object)};
  return Store({type.group, type.plural}, name, std::move(object));
}

std::optional<Json> FakeApiClient::Find(const ObjectKey& key) const {
  std::scoped_lock lock(mutex_);
  const Json* found = FindLocked({key.type.group, key.type.plural}, {key.namespace_name, key.name});
  return found == nullptr ? std::nullopt : std::optional<Json>(*found);
}

std::vector<Json> FakeApiClient::All(const ResourceType& type) const {
  std::scoped_lock lock(mutex_);
  std::vector<Json> all;
  if (const auto objects = objects_.find({type.group, type.plural}); objects != objects_.end()) {
    for (const auto& [name, object] : objects->second) {
      all.push_back(object);
    }
  }
  return all;
}

std::vector<std::string> FakeApiClient::Names(const ResourceType& type) const {
  std::vector<std::string> names;
  for (const Json& object : All(type)) {
    names.push_back(k8s::Name(object));
  }
  return names;
}

bool FakeApiClient::Any(const ResourceType& type,
                        const std::function<bool(const Json&)>& wanted) const {
  std::scoped_lock lock(mutex_);
  const auto objects = objects_.find({type.group, type.plural});
  return objects != objects_.end() &&
         std::any_of(objects->second.begin(), objects->second.end(),
                     [&](const auto& object) { return wanted(object.second); });
}

bool FakeApiClient::Mutate(const ObjectKey& key, const std::function<void(Json&)>& change) {
  std::scoped_lock lock(mutex_);
  const Json* found = FindLocked({key.type.group, key.type.plural}, {key.namespace_name, key.name});
  if (found == nullptr) {
    return false;
  }
  Json object = *found;
  change(object);
  return Save(key, std::move(object)).ok();
}

bool FakeApiClient::Remove(const ObjectKey& key) {
  std::scoped_lock lock(mutex_);
  const TypeKey type{key.type.group, key.type.plural};
  const ObjectName name{key.namespace_name, key.name};
  if (FindLocked(type, name) == nullptr) {
    return false;
  }
  Drop(type, name);
  return true;
}

void FakeApiClient::RemoveType(const std::string& plural) {
  std::scoped_lock lock(mutex_);
  removed_types_.insert(plural);
}

void FakeApiClient::ServeVersion(const std::string& plural, const std::string& version) {
  std::scoped_lock lock(mutex_);
  served_versions_[plural] = version;
}

void FakeApiClient::SetStatusSubresource(const std::string& plural, bool on) {
  std::scoped_lock lock(mutex_);
  status_subresource_[plural] = on;
}

void FakeApiClient::RequireNamespaces() {
  std::scoped_lock lock(mutex_);
  require_namespaces_ = true;
}

void FakeApiClient::TerminateNamespace(const std::string& name) {
  std::scoped_lock lock(mutex_);
  terminating_namespaces_.insert(name);
}

void FakeApiClient::CompactHistory() {
  std::scoped_lock lock(mutex_);
  compacted_revision_ = ++revision_;
}

void FakeApiClient::LimitHistory(std::size_t changes_max) {
  std::scoped_lock lock(mutex_);
  history_max_ = std::max<std::size_t>(changes_max, 1);
}

void FakeApiClient::EndWatches() {
  std::scoped_lock lock(mutex_);
  ++watch_epoch_;
  changed_.notify_all();
}

void FakeApiClient::SendBookmarks() {
  std::scoped_lock lock(mutex_);
  Remember({.revision = ++revision_, .type = {}, .before = {}, .after = {}});
}

void FakeApiClient::AwaitWatches(int count) {
  std::unique_lock lock(mutex_);
  AwaitOn(changed_, lock, absl::StrCat(count, " watches to be open"),
          [&] { return watches_ >= count; });
}

void FakeApiClient::AwaitEvents() {
  std::unique_lock lock(mutex_);
  const int64_t until = history_.empty() ? 0 : history_.back().revision;
  AwaitOn(changed_, lock, "all watches to deliver what happened", [&] {
    return std::all_of(delivered_.begin(), delivered_.end(),
                       [&](int64_t revision) { return revision >= until; });
  });
}

int FakeApiClient::watches() const {
  std::scoped_lock lock(mutex_);
  return watches_;
}

int FakeApiClient::object_count() const {
  std::scoped_lock lock(mutex_);
  std::size_t count = 0;
  for (const auto& [type, objects] : objects_) {
    count += objects.size();
  }
  return static_cast<int>(count);
}

void FakeApiClient::OnCreate(const std::string& plural, ObjectHook hook) {
  std::scoped_lock lock(mutex_);
  hooks_[plural].on_create.push_back(std::move(hook));
}

void FakeApiClient::OnEvent(const std::string& plural, EventHook hook) {
  std::scoped_lock lock(mutex_);
  hooks_[plural].on_event.push_back(std::move(hook));
}

void FakeApiClient::SetAdmission(AdmissionHook hook) {
  std::scoped_lock lock(mutex_);
  admission_ = std::move(hook);
}

void FakeApiClient::FailNext(const std::string& verb, const std::string& plural,
                             const absl::Status& status, int times, Fault fault) {
  std::scoped_lock lock(mutex_);
  injections_.push_back(Injection{verb, plural, status, times, fault});
}

void FakeApiClient::FailCall(int n, const absl::Status& status, Fault fault) {
  std::scoped_lock lock(mutex_);
  sweep_ = std::pair(n, Injection{"*", "*", status, 1, fault});
  sweep_hit_ = false;
}

bool FakeApiClient::sweep_hit() const {
  std::scoped_lock lock(mutex_);
  return sweep_hit_;
}

void FakeApiClient::Forbid(const std::string& verb, const std::string& plural,
                           const std::string& namespace_name) {
  std::scoped_lock lock(mutex_);
  forbidden_.push_back({verb, plural, namespace_name});
}

void FakeApiClient::SetInterceptor(Interceptor interceptor) {
  std::scoped_lock lock(mutex_);
  interceptor_ = std::move(interceptor);
}

void FakeApiClient::ClearFaults() {
  std::scoped_lock lock(mutex_);
  injections_.clear();
  forbidden_.clear();
  sweep_.reset();
  sweep_hit_ = false;
  interceptor_ = nullptr;
}

std::vector<ApiCall> FakeApiClient::calls() const {
  std::scoped_lock lock(mutex_);
  return calls_;
}

int FakeApiClient::CallCount(const std::string& verb, const std::string& plural) const {
  std::scoped_lock lock(mutex_);
  return static_cast<int>(std::count_if(calls_.begin(), calls_.end(), [&](const ApiCall& call) {
    return Matches(verb, call.verb) && Matches(plural, call.plural);
  }));
}

void FakeApiClient::ClearCalls() {
  std::scoped_lock lock(mutex_);
  calls_.clear();
}

}  // namespace csidelta::support
