#include "csi/drop.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "csi/retry.h"
#include "objects/client.h"
#include "objects/keys.h"

namespace csidelta::csi {
namespace {

using objects::VolumeGroupSnapshot;
using objects::VolumeGroupSnapshotContent;
using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;
using GroupContent = std::optional<VolumeGroupSnapshotContent>;

objects::Patch BeingDeletedMark(const k8s::ObjectKey& content) {
  return objects::Patch().SetAnnotation(objects::IsGroupKind(content.type)
                                            ? objects::kGroupBeingDeletedAnnotation
                                            : objects::kContentBeingDeletedAnnotation,
                                        "yes");
}

// --- A VolumeSnapshot, with its data

// The snapshot controller calls the content so that it makes for a VolumeSnapshot of a claim.
std::string MadeContentName(const VolumeSnapshot& snapshot) {
  return absl::StrCat("snapcontent-", snapshot.uid());
}

// "" while it has none.
std::string KnownContentName(const VolumeSnapshot& snapshot) {
  const std::string bound = snapshot.bound_content();
  return bound.empty() ? snapshot.source_content() : bound;
}

// Sets the content to Delete. False if there is no content, or if it refers to another
// VolumeSnapshot. A content that the controller made is not read first.
absl::StatusOr<bool> MarkForDeletion(const CallContext& ctx, k8s::ApiClient& api,
                                     const k8s::ObjectKey& content,
                                     const VolumeSnapshot& snapshot) {
  if (content.name != MadeContentName(snapshot)) {
    ASSIGN_OR_RETURN(const auto found, objects::Find<VolumeSnapshotContent>(ctx, api, content));
    if (!found.has_value() || !found->Names(snapshot)) {
      return false;
    }
    if (!found->Label(objects::kMovedGroupLabel).empty()) {
      RETURN_IF_ERROR(GiveUpMember(ctx, api, *found));
      return true;
    }
  }
  ASSIGN_OR_RETURN(const auto marked, SetPolicy(ctx, api, content, Data::kDelete));
  return marked.has_value();
}

absl::Status TryDelete(const CallContext& ctx, k8s::ApiClient& api,
                       const VolumeSnapshot& snapshot) {
  const bool knows_content = !KnownContentName(snapshot).empty();
  const k8s::ObjectKey content = ContentKeyOf(snapshot);
  ASSIGN_OR_RETURN(const bool marked, MarkForDeletion(ctx, api, content, snapshot));
  RETURN_IF_ERROR(DeleteObject(ctx, api, IdOf(snapshot)));
  if (marked || knows_content) {
    return absl::OkStatus();
  }
  // A content that came between the last read and the deletion would not be deleted by any
  // controller.
  ASSIGN_OR_RETURN(const bool came_late, MarkForDeletion(ctx, api, content, snapshot));
  return came_late ? k8s::IgnoreGone(api.Delete(ctx, content, {})) : absl::OkStatus();
}

// --- A group, with its data

absl::StatusOr<std::vector<VolumeSnapshot>> ListMembers(const CallContext& ctx, k8s::ApiClient& api,
                                                        const VolumeGroupSnapshot& group) {
  ASSIGN_OR_RETURN(auto members, objects::List<VolumeSnapshot>(ctx, api, group.namespace_name()));
  std::erase_if(members, [&](const VolumeSnapshot& one) { return !one.IsMemberOf(group.uid()); });
  return members;
}

// The content of a member, to be changed with the group; without a name if the member has none.
// `of_group`: the group's content. Writers of a VolumeSnapshot write its owners, which prove
// nothing: by an owner they would have the policy of any of their contents changed. The controller
// writes the group's name, and drivers tell contents the group's handle.
absl::StatusOr<k8s::ObjectKey> MemberContentKey(const CallContext& ctx, k8s::ApiClient& api,
                                                const VolumeGroupSnapshot& group,
                                                const GroupContent& of_group,
                                                const VolumeSnapshot& member) {
  k8s::ObjectKey key = VolumeSnapshotContent::Key("", member.bound_content());
  if (key.name.empty() || member.group_snapshot() == group.name()) {
    return key;
  }
  ASSIGN_OR_RETURN(const auto content, objects::Find<VolumeSnapshotContent>(ctx, api, key));
  const bool is_of_group = content.has_value() && content->Names(member) && of_group.has_value() &&
                           !content->group_handle().empty() &&
                           content->group_handle() == of_group->handle_or_source();
  return is_of_group ? key : VolumeSnapshotContent::Key("", "");
}

// Removes the finalizer of a member that the controller does not know yet: the controller would
// never remove it.
absl::Status UnprotectUnknownMember(const CallContext& ctx, k8s::ApiClient& api,
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

// Sets all contents of the group to Delete, whatever its class says.
absl::Status MarkForDeletion(const CallContext& ctx, k8s::ApiClient& api,
                             const VolumeGroupSnapshot& group, const GroupContent& content) {
  ASSIGN_OR_RETURN(const std::vector<VolumeSnapshot> members, ListMembers(ctx, api, group));
  for (const VolumeSnapshot& member : members) {
    ASSIGN_OR_RETURN(const k8s::ObjectKey key, MemberContentKey(ctx, api, group, content, member));
    // Some may have been retained before the rest could be.
    if (!key.name.empty()) {
      RETURN_IF_ERROR(SetPolicy(ctx, api, key, Data::kDelete).status());
    }
    RETURN_IF_ERROR(UnprotectUnknownMember(ctx, api, member));
  }
  const bool is_kept = content.has_value() && content->deletion_policy() != "Delete";
  return is_kept ? SetPolicy(ctx, api, content->key(), Data::kDelete).status() : absl::OkStatus();
}

// The controller adds its finalizer to a VolumeGroupSnapshot a moment after it is bound. If the
// group is deleted before that, its content and members stay.
absl::Status DeleteOrphans(const CallContext& ctx, k8s::ApiClient& api,
                           const VolumeGroupSnapshot& group) {
  ASSIGN_OR_RETURN(const auto content, FindContentOf(ctx, api, group));
  RETURN_IF_ERROR(MarkForDeletion(ctx, api, group, content));
  if (content.has_value()) {
    RETURN_IF_ERROR(k8s::IgnoreGone(
        objects::Apply(ctx, api, content->key(), BeingDeletedMark(content->key()))));
    RETURN_IF_ERROR(DeleteObject(ctx, api, IdOf(*content)));
  }
  ASSIGN_OR_RETURN(const std::vector<VolumeSnapshot> members, ListMembers(ctx, api, group));
  for (const VolumeSnapshot& member : members) {
    RETURN_IF_ERROR(DeleteObject(ctx, api, IdOf(member)));
  }
  return absl::OkStatus();
}

absl::Status TryDelete(const CallContext& ctx, k8s::ApiClient& api,
                       const VolumeGroupSnapshot& group) {
  ASSIGN_OR_RETURN(const auto content, FindContentOf(ctx, api, group));
  RETURN_IF_ERROR(MarkForDeletion(ctx, api, group, content));
  RETURN_IF_ERROR(DeleteObject(ctx, api, IdOf(group)));
  ASSIGN_OR_RETURN(const auto now, objects::Find<VolumeGroupSnapshot>(ctx, api, group.key()));
  const bool is_there = now.has_value() && now->uid() == group.uid();
  return is_there ? absl::OkStatus() : DeleteOrphans(ctx, api, group);
}

// --- Either, without its data

// A VolumeSnapshot, or a group, and the content that it is bound to.
struct Bound {
  ObjectId snapshot;
  k8s::ObjectKey content;       // no name while it is not bound
  bool is_taken_along = false;  // by the controller, with its group
};

// The last of `all` is the one that goes, the others are its members. No content is deleted before
// all are retained.
absl::Status Retain(const CallContext& ctx, k8s::ApiClient& api, const std::vector<Bound>& all) {
  CSIDELTA_CHECK(!all.empty() && !all.back().is_taken_along);
  if (all.back().content.name.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(NameText(all.back().snapshot.key), " is not bound"));
  }
  std::vector<ObjectId> retained;
  for (const Bound& one : all) {
    if (one.content.name.empty()) {
      continue;
    }
    ASSIGN_OR_RETURN(const auto content, SetPolicy(ctx, api, one.content, Data::kRetain));
    if (!content.has_value()) {
      continue;
    }
    if (objects::SnapshotUidOf(one.content.type, *content) != one.snapshot.uid) {
      return absl::FailedPreconditionError(
          absl::StrCat(NameText(one.content), " does not belong to ", NameText(one.snapshot.key)));
    }
    retained.push_back({.key = one.content, .uid = content->uid()});
  }
  for (const ObjectId& content : retained) {
    RETURN_IF_ERROR(DeleteObject(ctx, api, content));
  }
  for (auto one = all.rbegin(); one != all.rend(); ++one) {
    if (!one->is_taken_along) {
      RETURN_IF_ERROR(DeleteObject(ctx, api, one->snapshot));
    }
  }
  return absl::OkStatus();
}

absl::Status TryRetain(const CallContext& ctx, k8s::ApiClient& api,
                       const VolumeSnapshot& snapshot) {
  return Retain(ctx, api,
                {{.snapshot = IdOf(snapshot),
                  .content = VolumeSnapshotContent::Key("", snapshot.bound_content())}});
}

absl::Status TryRetain(const CallContext& ctx, k8s::ApiClient& api,
                       const VolumeGroupSnapshot& group) {
  std::vector<Bound> all;
  if (!group.bound_content().empty()) {
    ASSIGN_OR_RETURN(const std::vector<VolumeSnapshot> members, ListMembers(ctx, api, group));
    ASSIGN_OR_RETURN(const GroupContent of_group, FindContentOf(ctx, api, group));
    for (const VolumeSnapshot& member : members) {
      ASSIGN_OR_RETURN(k8s::ObjectKey content, MemberContentKey(ctx, api, group, of_group, member));
      // Members that a controller of another version made are recognized as members only here.
      const std::optional<objects::OwnerReference> owner = member.group_owner();
      all.push_back(
          {.snapshot = IdOf(member),
           .content = std::move(content),
           .is_taken_along = owner.has_value() && owner->api_version == group.api_version()});
    }
  }
  all.push_back(
      {.snapshot = IdOf(group),
       .content = VolumeGroupSnapshotContent::Key(group.version(), "", group.bound_content())});
  return Retain(ctx, api, all);
}

template <typename Snapshot>
absl::Status DropEither(const CallContext& ctx, k8s::ApiClient& api, const Snapshot& snapshot,
                        Data data) {
  return RetryTransient(ctx, [&] {
    return data == Data::kDelete ? TryDelete(ctx, api, snapshot) : TryRetain(ctx, api, snapshot);
  });
}

}  // namespace

k8s::ObjectKey ContentKeyOf(const VolumeSnapshot& snapshot) {
  // The content may be there before the VolumeSnapshot knows it.
  const std::string known = KnownContentName(snapshot);
  return VolumeSnapshotContent::Key("", known.empty() ? MadeContentName(snapshot) : known);
}

k8s::ObjectKey ContentKeyOf(const VolumeGroupSnapshot& group) {
  const std::string bound = group.bound_content();
  // The snapshot controller names the contents that it makes like this.
  return VolumeGroupSnapshotContent::Key(
      group.version(), "", bound.empty() ? absl::StrCat("groupsnapcontent-", group.uid()) : bound);
}

absl::StatusOr<std::optional<VolumeGroupSnapshotContent>> FindContentOf(
    const CallContext& ctx, k8s::ApiClient& api, const VolumeGroupSnapshot& group) {
  ASSIGN_OR_RETURN(auto content,
                   objects::Find<VolumeGroupSnapshotContent>(ctx, api, ContentKeyOf(group)));
  if (content.has_value() && content->snapshot_uid() != group.uid()) {
    content.reset();
  }
  return content;
}

absl::Status DeleteObject(const CallContext& ctx, k8s::ApiClient& api, const ObjectId& object) {
  return k8s::IgnoreGone(api.Delete(ctx, object.key, {.uid = object.uid}));
}

absl::Status DropSnapshot(const CallContext& ctx, k8s::ApiClient& api,
                          const VolumeSnapshot& snapshot, Data data) {
  return DropEither(ctx, api, snapshot, data);
}

absl::Status DropSnapshot(const CallContext& ctx, k8s::ApiClient& api,
                          const VolumeGroupSnapshot& group, Data data) {
  return DropEither(ctx, api, group, data);
}

absl::Status DeleteSnapshot(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& key,
                            absl::string_view uid) {
  return RetryTransient(ctx, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const auto found, objects::Find<VolumeSnapshot>(ctx, api, key));
    return found.has_value() && found->uid() == uid ? TryDelete(ctx, api, *found)
                                                    : absl::OkStatus();
  });
}

absl::Status DropContent(const CallContext& ctx, k8s::ApiClient& api, const ObjectId& content,
                         const std::optional<ObjectId>& snapshot, Data data) {
  const objects::Patch mark = BeingDeletedMark(content.key).IfUid(content.uid);
  RETURN_IF_ERROR(SetPolicy(ctx, api, content.key, data,
                            snapshot.has_value() ? objects::Patch().IfUid(content.uid) : mark)
                      .status());
  if (snapshot.has_value()) {
    RETURN_IF_ERROR(DeleteObject(ctx, api, *snapshot));
    RETURN_IF_ERROR(k8s::IgnoreNotFound(objects::Apply(ctx, api, content.key, mark)));
  }
  return DeleteObject(ctx, api, content);
}

absl::Status DeleteContentBehind(const CallContext& ctx, k8s::ApiClient& api,
                                 const ObjectId& content, const ObjectId& snapshot) {
  ASSIGN_OR_RETURN(const auto now, objects::Find<VolumeSnapshot>(ctx, api, snapshot.key));
  if (!now.has_value() || now->uid() != snapshot.uid) {
    RETURN_IF_ERROR(k8s::IgnoreNotFound(
        objects::Apply(ctx, api, content.key, BeingDeletedMark(content.key).IfUid(content.uid))));
  }
  return DeleteObject(ctx, api, content);
}

absl::Status DeleteContent(const CallContext& ctx, k8s::ApiClient& api,
                           const VolumeSnapshotContent& content) {
  if (!content.Label(objects::kMovedGroupLabel).empty()) {
    return GiveUpMember(ctx, api, content);
  }
  if (content.handle().empty()) {
    RETURN_IF_ERROR(k8s::IgnoreNotFound(objects::Apply(
        ctx, api, content.key(),
        objects::Patch().SetTaken(content.handle_or_source(), std::nullopt, std::nullopt),
        "status")));
  }
  return DropContent(ctx, api, IdOf(content), std::nullopt, Data::kDelete);
}

absl::StatusOr<std::optional<objects::Object>> SetPolicy(const CallContext& ctx,
                                                         k8s::ApiClient& api,
                                                         const k8s::ObjectKey& content, Data data,
                                                         objects::Patch more) {
  CSIDELTA_CHECK(content.namespace_name.empty());  // The key of a content, not of its snapshot.
  const absl::string_view policy = data == Data::kDelete ? "Delete" : "Retain";
  auto stored = objects::Apply<objects::Object>(ctx, api, content, more.SetDeletionPolicy(policy));
  if (absl::IsNotFound(stored.status())) {
    return std::optional<objects::Object>();
  }
  RETURN_IF_ERROR(stored.status());
  if (objects::DeletionPolicyOf(*stored) != policy) {
    return absl::FailedPreconditionError(absl::StrCat("the policy of ", NameText(content),
                                                      " stays ", objects::DeletionPolicyOf(*stored),
                                                      ": nothing was deleted"));
  }
  return std::optional(*std::move(stored));
}

absl::Status GiveUpMember(const CallContext& ctx, k8s::ApiClient& api,
                          const VolumeSnapshotContent& content) {
  return k8s::IgnoreNotFound(objects::Apply(
      ctx, api, content.key(),
      objects::Patch().SetLabel(objects::kReleasedLabel, "true").RemoveLabel(objects::kBaseLabel)));
}

}  // namespace csidelta::csi
