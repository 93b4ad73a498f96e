#include "csi/group_removal.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "csi/retry.h"
#include "k8s/api_client.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/volume_snapshot.h"

namespace csidelta::csi {
namespace {

using objects::VolumeGroupSnapshot;
using objects::VolumeGroupSnapshotContent;
using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

absl::StatusOr<std::vector<VolumeSnapshot>> ListMembers(const CallContext& ctx, k8s::ApiClient& api,
                                                        const VolumeGroupSnapshot& group) {
  ASSIGN_OR_RETURN(std::vector<VolumeSnapshot> members,
                   objects::List<VolumeSnapshot>(ctx, api, group.namespace_name()));
  std::erase_if(members, [&](const VolumeSnapshot& one) { return !one.IsMemberOf(group.uid()); });
  return members;
}

absl::Status SetPolicy(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& content,
                       absl::string_view policy) {
  return objects::Apply(ctx, api, content, objects::Patch().SetDeletionPolicy(policy));
}

absl::Status DeleteObject(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& key,
                          const std::string& uid) {
  return k8s::IgnoreGone(api.Delete(ctx, key, {.uid = uid}));
}

// The content of `group`; nothing where none exists that refers to it.
absl::StatusOr<std::optional<VolumeGroupSnapshotContent>> FindContent(
    const CallContext& ctx, k8s::ApiClient& api, const VolumeGroupSnapshot& group) {
  ASSIGN_OR_RETURN(auto content, objects::Find<VolumeGroupSnapshotContent>(
                                     ctx, api,
                                     VolumeGroupSnapshotContent::Key(group.version(), "",
                                                                     GroupContentNameOf(group))));
  if (content.has_value() && content->snapshot_uid() != group.uid()) {
    content.reset();
  }
  return content;
}

// A member that the controller does not know as one yet would keep this finalizer for ever.
absl::Status ReleaseUnknownMember(const CallContext& ctx, k8s::ApiClient& api,
                                  VolumeSnapshot snapshot) {
  if (!snapshot.group_snapshot().empty() ||
      !snapshot.RemoveFinalizer(objects::kSnapshotInGroupFinalizer)) {
    return absl::OkStatus();
  }
  return k8s::IgnoreGone(objects::Apply(ctx, api, snapshot.key(),
                                        objects::Patch()
                                            .SetFinalizers(snapshot.finalizers())
                                            .IfVersion(snapshot.resource_version())));
}

// Has everything deleted along with the VolumeGroupSnapshot, whatever its class says.
absl::Status MarkForDeletion(const CallContext& ctx, k8s::ApiClient& api,
                             const VolumeGroupSnapshot& group,
                             const std::optional<VolumeGroupSnapshotContent>& content) {
  ASSIGN_OR_RETURN(const std::vector<VolumeSnapshot> members, ListMembers(ctx, api, group));
  for (const VolumeSnapshot& member : members) {
    // Some may have been retained before the rest could be.
    if (!member.bound_content().empty()) {
      RETURN_IF_ERROR(k8s::IgnoreGone(
          SetPolicy(ctx, api, VolumeSnapshotContent::Key("", member.bound_content()), "Delete")));
    }
    RETURN_IF_ERROR(ReleaseUnknownMember(ctx, api, member));
  }
  const bool is_kept = content.has_value() && content->deletion_policy() != "Delete";
  return is_kept ? k8s::IgnoreGone(SetPolicy(ctx, api, content->key(), "Delete"))
                 : absl::OkStatus();
}

// The controller gives a VolumeGroupSnapshot its finalizer a moment after it is bound. One that was
// deleted before left its content and its members to us.
absl::Status RemoveOrphans(const CallContext& ctx, k8s::ApiClient& api,
                           const VolumeGroupSnapshot& group) {
  ASSIGN_OR_RETURN(const auto content, FindContent(ctx, api, group));
  RETURN_IF_ERROR(MarkForDeletion(ctx, api, group, content));
  if (content.has_value()) {
    const k8s::ObjectKey key = content->key();
    RETURN_IF_ERROR(k8s::IgnoreGone(objects::Apply(
        ctx, api, key,
        objects::Patch().SetAnnotation(objects::kGroupBeingDeletedAnnotation, "yes"))));
    RETURN_IF_ERROR(DeleteObject(ctx, api, key, content->uid()));
  }
  ASSIGN_OR_RETURN(const std::vector<VolumeSnapshot> members, ListMembers(ctx, api, group));
  for (const VolumeSnapshot& member : members) {
    RETURN_IF_ERROR(DeleteObject(ctx, api, member.key(), member.uid()));
  }
  return absl::OkStatus();
}

absl::Status TryRemoveGroup(const CallContext& ctx, k8s::ApiClient& api,
                            const VolumeGroupSnapshot& group) {
  ASSIGN_OR_RETURN(const auto content, FindContent(ctx, api, group));
  RETURN_IF_ERROR(MarkForDeletion(ctx, api, group, content));
  RETURN_IF_ERROR(DeleteObject(ctx, api, group.key(), group.uid()));
  ASSIGN_OR_RETURN(const auto now, objects::Find<VolumeGroupSnapshot>(ctx, api, group.key()));
  const bool is_there = now.has_value() && now->uid() == group.uid();
  // While it is, the controller takes the rest along.
  return is_there ? absl::OkStatus() : RemoveOrphans(ctx, api, group);
}

// Sets contents to Retain, and collects those that are there with the uids they have.
class Retainer {
 public:
  Retainer(const CallContext& ctx, k8s::ApiClient& api) : ctx_(ctx), api_(api) {}

  // `owner_uid`: of the owner that the content gets, as the API server answers.
  template <typename Content>
  absl::Status Retain(const k8s::ObjectKey& key, const std::string& owner_uid) {
    const auto content =
        objects::Apply<Content>(ctx_, api_, key, objects::Patch().SetDeletionPolicy("Retain"));
    if (absl::IsNotFound(content.status())) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(content.status());
    if (content->deletion_policy() != "Retain" || content->snapshot_uid() != owner_uid) {
      return absl::FailedPreconditionError(
          absl::StrCat(content->kind(), " ", content->name(), " cannot be retained"));
    }
    retained_.emplace_back(key, content->uid());
    return absl::OkStatus();
  }

  absl::Status DeleteAll() {
    for (const auto& [key, uid] : retained_) {
      RETURN_IF_ERROR(DeleteObject(ctx_, api_, key, uid));
    }
    return absl::OkStatus();
  }

 private:
  const CallContext& ctx_;
  k8s::ApiClient& api_;
  std::vector<std::pair<k8s::ObjectKey, std::string>> retained_;
};

absl::Status TryRetainAndForgetGroup(const CallContext& ctx, k8s::ApiClient& api,
                                     const VolumeGroupSnapshot& group) {
  const std::string content = group.bound_content();
  if (content.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "VolumeGroupSnapshot ", group.namespace_name(), "/", group.name(), " is not bound"));
  }
  ASSIGN_OR_RETURN(const std::vector<VolumeSnapshot> members, ListMembers(ctx, api, group));
  Retainer retainer(ctx, api);
  for (const VolumeSnapshot& member : members) {
    if (!member.bound_content().empty()) {
      RETURN_IF_ERROR(retainer.Retain<VolumeSnapshotContent>(
          VolumeSnapshotContent::Key("", member.bound_content()), member.uid()));
    }
  }
  RETURN_IF_ERROR(retainer.Retain<VolumeGroupSnapshotContent>(
      VolumeGroupSnapshotContent::Key(group.version(), "", content), group.uid()));
  RETURN_IF_ERROR(retainer.DeleteAll());
  RETURN_IF_ERROR(DeleteObject(ctx, api, group.key(), group.uid()));
  // Those that a controller of another version made are recognized as members only here.
  for (const VolumeSnapshot& member : members) {
    const std::optional<objects::OwnerReference> owner = member.group_owner();
    if (!owner.has_value() || owner->api_version != group.api_version()) {
      RETURN_IF_ERROR(DeleteObject(ctx, api, member.key(), member.uid()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string GroupContentNameOf(const VolumeGroupSnapshot& group) {
  const std::string bound = group.bound_content();
  // The snapshot controller calls so what it makes.
  return bound.empty() ? absl::StrCat("groupsnapcontent-", group.uid()) : bound;
}

absl::Status RemoveGroup(const CallContext& ctx, k8s::ApiClient& api,
                         const VolumeGroupSnapshot& group) {
  return RetryTransient(ctx, [&] { return TryRemoveGroup(ctx, api, group); });
}

absl::Status RetainAndForget(const CallContext& ctx, k8s::ApiClient& api,
                             const VolumeGroupSnapshot& group) {
  return RetryTransient(ctx, [&] { return TryRetainAndForgetGroup(ctx, api, group); });
}

}  // namespace csidelta::csi
