#include "csi/group_removal.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "csi/group_types.h"
#include "csi/retry.h"
#include "csi/snapshot_types.h"
#include "k8s/find.h"
#include "k8s/object.h"
#include "objects/keys.h"

namespace csidelta::csi {
namespace {

bool RefersToGroup(const Json& content, const Json& group) {
  return GetString(content, {"spec", "volumeGroupSnapshotRef", "uid"}) == k8s::Uid(group);
}

absl::StatusOr<std::vector<Json>> ListMembers(const CallContext& ctx, k8s::ApiClient& api,
                                              const Json& group) {
  ASSIGN_OR_RETURN(const k8s::ObjectList all,
                   api.List(ctx, VolumeSnapshotType(), k8s::Namespace(group), {}));
  std::vector<Json> members;
  for (const Json& snapshot : all.items) {
    if (IsMemberOf(snapshot, k8s::Uid(group))) {
      members.push_back(snapshot);
    }
  }
  return members;
}

absl::StatusOr<Json> SetPolicy(const CallContext& ctx, k8s::ApiClient& api,
                               const k8s::ObjectKey& content, absl::string_view policy) {
  return api.Patch(ctx, content, k8s::PatchKind::kMerge,
                   {{"spec", {{"deletionPolicy", std::string(policy)}}}}, "");
}

// The content of `group`, or null where there is none that refers to it.
absl::StatusOr<Json> FindContent(const CallContext& ctx, k8s::ApiClient& api, const Json& group) {
  const absl::StatusOr<Json> content =
      api.Get(ctx, GroupContentKey(GroupVersionOf(group), GroupContentNameOf(group)));
  if (absl::IsNotFound(content.status()) || (content.ok() && !RefersToGroup(*content, group))) {
    return Json();
  }
  return content;
}

// A member that the controller does not know as one yet would keep this finalizer for ever.
absl::Status ReleaseUnknownMember(const CallContext& ctx, k8s::ApiClient& api,
                                  const Json& snapshot) {
  const Json* finalizers = FindJson(snapshot, {"metadata", "finalizers"});
  if (!StatusGroupName(snapshot).empty() || finalizers == nullptr || !finalizers->is_array()) {
    return absl::OkStatus();
  }
  Json kept = Json::array();
  for (const Json& finalizer : *finalizers) {
    if (finalizer != objects::kSnapshotInGroupFinalizer) {
      kept.push_back(finalizer);
    }
  }
  if (kept.size() == finalizers->size()) {
    return absl::OkStatus();
  }
  const Json patch = {
      {"metadata", {{"finalizers", kept}, {"resourceVersion", k8s::ResourceVersion(snapshot)}}}};
  return k8s::IgnoreGone(api.Patch(ctx,
                                   VolumeSnapshotKey(k8s::Namespace(snapshot), k8s::Name(snapshot)),
                                   k8s::PatchKind::kMerge, patch, "")
                             .status());
}

// Has everything deleted along with the VolumeGroupSnapshot, whatever its class says.
absl::Status MarkForDeletion(const CallContext& ctx, k8s::ApiClient& api, const Json& group,
                             const Json& content) {
  const bool is_kept =
      !content.is_null() && GetString(content, {"spec", "deletionPolicy"}) != "Delete";
  ASSIGN_OR_RETURN(const std::vector<Json> members, ListMembers(ctx, api, group));
  for (const Json& member : members) {
    // Some may have been retained before the rest could be.
    if (!BoundContentName(member).empty()) {
      RETURN_IF_ERROR(k8s::IgnoreGone(
          SetPolicy(ctx, api, VolumeSnapshotContentKey(BoundContentName(member)), "Delete")
              .status()));
    }
    RETURN_IF_ERROR(ReleaseUnknownMember(ctx, api, member));
  }
  if (!is_kept) {
    return absl::OkStatus();
  }
  return k8s::IgnoreGone(
      SetPolicy(ctx, api, GroupContentKey(GroupVersionOf(group), k8s::Name(content)), "Delete")
          .status());
}

// The controller gives a VolumeGroupSnapshot its finalizer a moment after it is bound. One that was
// deleted before left its content and its members to us.
absl::Status RemoveOrphans(const CallContext& ctx, k8s::ApiClient& api, const Json& group) {
  ASSIGN_OR_RETURN(const Json content, FindContent(ctx, api, group));
  RETURN_IF_ERROR(MarkForDeletion(ctx, api, group, content));
  if (!content.is_null()) {
    const k8s::ObjectKey key = GroupContentKey(GroupVersionOf(group), k8s::Name(content));
    Json patch;
    SetJson(patch, {"metadata", "annotations", objects::kGroupBeingDeletedAnnotation}, "yes");
    RETURN_IF_ERROR(
        k8s::IgnoreGone(api.Patch(ctx, key, k8s::PatchKind::kMerge, patch, "").status()));
    RETURN_IF_ERROR(
        k8s::IgnoreGone(api.Delete(ctx, key, {.uid = k8s::Uid(content), .resource_version = ""})));
  }
  ASSIGN_OR_RETURN(const std::vector<Json> members, ListMembers(ctx, api, group));
  for (const Json& member : members) {
    RETURN_IF_ERROR(k8s::IgnoreGone(
        api.Delete(ctx, VolumeSnapshotKey(k8s::Namespace(member), k8s::Name(member)),
                   {.uid = k8s::Uid(member), .resource_version = ""})));
  }
  return absl::OkStatus();
}

absl::Status TryRemoveGroup(const CallContext& ctx, k8s::ApiClient& api, const Json& group) {
  const k8s::ObjectKey key = GroupSnapshotKey(group);
  ASSIGN_OR_RETURN(const Json content, FindContent(ctx, api, group));
  RETURN_IF_ERROR(MarkForDeletion(ctx, api, group, content));
  RETURN_IF_ERROR(
      k8s::IgnoreGone(api.Delete(ctx, key, {.uid = k8s::Uid(group), .resource_version = ""})));
  const absl::StatusOr<Json> now = api.Get(ctx, key);
  if (now.ok() && k8s::Uid(*now) == k8s::Uid(group)) {
    return absl::OkStatus();  // The controller takes the rest along.
  }
  if (!now.ok() && !absl::IsNotFound(now.status())) {
    return now.status();
  }
  return RemoveOrphans(ctx, api, group);
}

absl::Status NotRetained(const Json& content) {
  return absl::FailedPreconditionError(
      absl::StrCat(GetString(content, {"kind"}), " ", k8s::Name(content), " cannot be retained"));
}

// Whether `content`, as the API server answered, stays with the driver's snapshot when `owner` is
// deleted.
bool IsRetained(const Json& content, absl::string_view ref, const Json& owner) {
  return GetString(content, {"spec", "deletionPolicy"}) == "Retain" &&
         GetString(content, {"spec", ref, "uid"}) == k8s::Uid(owner);
}

// Sets contents to Retain, and collects those that are there with the uids they have.
class Retainer {
 public:
  Retainer(const CallContext& ctx, k8s::ApiClient& api) : ctx_(ctx), api_(api) {}

  absl::Status Retain(const k8s::ObjectKey& key, absl::string_view ref, const Json& owner) {
    const absl::StatusOr<Json> content = SetPolicy(ctx_, api_, key, "Retain");
    if (absl::IsNotFound(content.status())) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(content.status());
    if (!IsRetained(*content, ref, owner)) {
      return NotRetained(*content);
    }
    retained_.emplace_back(key, k8s::Uid(*content));
    return absl::OkStatus();
  }

  absl::Status DeleteAll() {
    for (const auto& [key, uid] : retained_) {
      RETURN_IF_ERROR(
          k8s::IgnoreGone(api_.Delete(ctx_, key, {.uid = uid, .resource_version = ""})));
    }
    return absl::OkStatus();
  }

 private:
  const CallContext& ctx_;
  k8s::ApiClient& api_;
  std::vector<std::pair<k8s::ObjectKey, std::string>> retained_;
};

absl::Status TryRetainAndForgetGroup(const CallContext& ctx, k8s::ApiClient& api,
                                     const Json& group) {
  const k8s::ObjectKey key = GroupSnapshotKey(group);
  const std::string content = BoundGroupContentName(group);
  if (content.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("VolumeGroupSnapshot ", key.namespace_name, "/", key.name, " is not bound"));
  }
  ASSIGN_OR_RETURN(const std::vector<Json> members, ListMembers(ctx, api, group));
  Retainer retainer(ctx, api);
  for (const Json& member : members) {
    if (!BoundContentName(member).empty()) {
      RETURN_IF_ERROR(retainer.Retain(VolumeSnapshotContentKey(BoundContentName(member)),
                                      "volumeSnapshotRef", member));
    }
  }
  RETURN_IF_ERROR(
      retainer.Retain(GroupContentKey(key.type.version, content), "volumeGroupSnapshotRef", group));
  RETURN_IF_ERROR(retainer.DeleteAll());
  RETURN_IF_ERROR(
      k8s::IgnoreGone(api.Delete(ctx, key, {.uid = k8s::Uid(group), .resource_version = ""})));
  // Those that a controller of another version made are members to nobody but us.
  for (const Json& member : members) {
    if (GroupOwnerApiVersion(member) != GetString(group, {"apiVersion"})) {
      RETURN_IF_ERROR(k8s::IgnoreGone(
          api.Delete(ctx, VolumeSnapshotKey(k8s::Namespace(member), k8s::Name(member)),
                     {.uid = k8s::Uid(member), .resource_version = ""})));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string GroupContentNameOf(const Json& group) {
  const std::string bound = BoundGroupContentName(group);
  // The snapshot controller calls so what it makes.
  return bound.empty() ? absl::StrCat("groupsnapcontent-", k8s::Uid(group)) : bound;
}

absl::Status RemoveGroup(const CallContext& ctx, k8s::ApiClient& api, const Json& group) {
  return RetryTransient(ctx, [&] { return TryRemoveGroup(ctx, api, group); });
}

absl::Status RetainAndForgetGroup(const CallContext& ctx, k8s::ApiClient& api, const Json& group) {
  return RetryTransient(ctx, [&] { return TryRetainAndForgetGroup(ctx, api, group); });
}

}  // namespace csidelta::csi
