#include "csi/group_deletion.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/backup_contents.h"
#include "csi/content_deletion.h"
#include "csi/deletion_proof.h"
#include "csi/group_types.h"
#include "csi/moved_group.h"
#include "csi/snapshot_types.h"
#include "csi/static_content.h"
#include "csi/static_group.h"
#include "k8s/find.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "velero/labels.h"

namespace csidelta::csi {
namespace {

constexpr char kNamePrefix[] = "csi-delta-delete-group-";
// What a backup waits for each deletion of an earlier backup that it goes on with.
constexpr absl::Duration kFinishGroupTimeMax = absl::Seconds(2);

// One group of the driver's that has to go.
struct Group {
  std::string version;  // of the kinds
  std::string driver;
  std::string handle;
  std::set<std::string> member_handles;
  std::string group_name;  // of the original VolumeGroupSnapshot
  std::string backup_label;
};

std::string Describe(const Group& group) {
  return absl::StrCat("group ", group.handle, " of driver ", group.driver);
}

k8s::ObjectKey ContentKey(const Group& group, std::string name) {
  return {.type = VolumeGroupSnapshotContentType(group.version),
          .namespace_name = "",
          .name = std::move(name)};
}

std::string TemporaryName(const Group& group) {
  return GroupDeletionContentName(group.driver, group.handle);
}

std::set<std::string> HandlesOf(const std::vector<GroupMember>& members) {
  std::set<std::string> handles;
  std::transform(members.begin(), members.end(), std::inserter(handles, handles.end()),
                 [](const GroupMember& member) { return member.snapshot_handle; });
  return handles;
}

// An original of the group, or what a restore of the backup made.
bool BelongsToBackup(const Json& object, const Group& group) {
  const std::string name_of_group = k8s::Label(object, objects::kGroupNameLabel);
  return (!group.group_name.empty() && name_of_group == group.group_name) ||
         (k8s::Label(object, objects::kBackupNameLabel) == group.backup_label &&
          (IsRestored(object) || !k8s::Label(object, objects::kRestoreUidLabel).empty()));
}

// Objects that may belong to the backup, by either label: all of a cluster may be very many.
absl::StatusOr<std::vector<Json>> ListByLabels(const CallContext& ctx, const Environment& env,
                                               const k8s::ResourceType& type, const Group& group) {
  std::vector<Json> objects;
  std::set<std::string> uids;
  for (const auto& [key, value] : {std::pair(objects::kGroupNameLabel, group.group_name),
                                   std::pair(objects::kBackupNameLabel, group.backup_label)}) {
    if (value.empty()) {
      continue;
    }
    ASSIGN_OR_RETURN(
        k8s::ObjectList found,
        env.api.List(ctx, type, "",
                     {.label_selector = absl::StrCat(key, "=", value), .field_selector = ""}));
    for (Json& object : found.items) {
      if (uids.insert(k8s::Uid(object)).second) {
        objects.push_back(std::move(object));
      }
    }
  }
  return objects;
}

absl::StatusOr<std::vector<Json>> ListOwnedGroupContents(const CallContext& ctx,
                                                         const Environment& env,
                                                         const Group& group) {
  ASSIGN_OR_RETURN(const std::vector<Json> contents,
                   ListByLabels(ctx, env, VolumeGroupSnapshotContentType(group.version), group));
  std::vector<Json> owned;
  for (const Json& content : contents) {
    if (GetString(content, {"spec", "driver"}) == group.driver &&
        GroupHandleOf(content) == group.handle && k8s::Name(content) != TemporaryName(group) &&
        BelongsToBackup(content, group)) {
      owned.push_back(content);
    }
  }
  return owned;
}

absl::StatusOr<std::vector<BackupContent>> LookAtMembers(const CallContext& ctx,
                                                         const Environment& env,
                                                         const Group& group) {
  ASSIGN_OR_RETURN(const std::vector<Json> contents,
                   ListByLabels(ctx, env, VolumeSnapshotContentType(), group));
  std::vector<Json> owned;
  for (const Json& content : contents) {
    if (GetString(content, {"spec", "driver"}) == group.driver &&
        group.member_handles.contains(HandleOf(content)) && BelongsToBackup(content, group)) {
      owned.push_back(content);
    }
  }
  return LookAtContents(ctx, env, owned);
}

bool OneIsNeeded(const std::vector<BackupContent>& members) {
  return std::any_of(members.begin(), members.end(),
                     [](const BackupContent& member) { return member.needed; });
}

// The VolumeGroupSnapshot that the content is bound to, or that waits to be bound to it.
absl::StatusOr<std::optional<Json>> FindGroupSnapshot(const CallContext& ctx,
                                                      const Environment& env, const Group& group,
                                                      const Json& content) {
  const std::string uid = GetString(content, {"spec", "volumeGroupSnapshotRef", "uid"});
  const std::string name = GetString(content, {"spec", "volumeGroupSnapshotRef", "name"});
  const std::string space = GetString(content, {"spec", "volumeGroupSnapshotRef", "namespace"});
  if (name.empty() || space.empty()) {
    return std::optional<Json>();
  }
  ASSIGN_OR_RETURN(
      std::optional<Json> snapshot,
      k8s::Find(
          ctx, env.api,
          {.type = VolumeGroupSnapshotType(group.version), .namespace_name = space, .name = name}));
  const bool names_it =
      snapshot.has_value() &&
      (uid.empty() ? GetString(*snapshot, {"spec", "source", "volumeGroupSnapshotContentName"}) ==
                         k8s::Name(content)
                   : k8s::Uid(*snapshot) == uid);
  if (!names_it) {
    snapshot.reset();
  }
  return snapshot;
}

// Removes a content and its VolumeGroupSnapshot; the driver keeps the group.
absl::Status RemoveGroupContent(const CallContext& ctx, const Environment& env, const Group& group,
                                const Json& content) {
  ASSIGN_OR_RETURN(const std::optional<Json> snapshot, FindGroupSnapshot(ctx, env, group, content));
  const k8s::ObjectKey key = ContentKey(group, k8s::Name(content));
  const auto patch = [&](const Json& change) {
    return k8s::IgnoreNotFound(
        env.api.Patch(ctx, key, k8s::PatchKind::kMerge, change, "").status());
  };
  RETURN_IF_ERROR(patch({{"spec", {{"deletionPolicy", "Retain"}}}}));
  if (snapshot.has_value()) {
    RETURN_IF_ERROR(
        k8s::IgnoreNotFound(env.api.Delete(ctx,
                                           {.type = VolumeGroupSnapshotType(group.version),
                                            .namespace_name = k8s::Namespace(*snapshot),
                                            .name = k8s::Name(*snapshot)},
                                           {.uid = k8s::Uid(*snapshot), .resource_version = ""})));
  }
  // Only now: a content that is being deleted already goes with the mark at once, and for a
  // VolumeGroupSnapshot that still lives the controller would have another one taken.
  Json mark;
  SetJson(mark, {"metadata", "annotations", objects::kGroupBeingDeletedAnnotation}, "yes");
  RETURN_IF_ERROR(patch(mark));
  return k8s::IgnoreNotFound(
      env.api.Delete(ctx, key, {.uid = k8s::Uid(content), .resource_version = ""}));
}

// The group before its members: while it lives they cannot go.
absl::Status RemoveOwned(const CallContext& ctx, const Environment& env, const Group& group,
                         const std::vector<BackupContent>& members) {
  ASSIGN_OR_RETURN(const std::vector<Json> contents, ListOwnedGroupContents(ctx, env, group));
  for (const Json& content : contents) {
    RETURN_IF_ERROR(RemoveGroupContent(ctx, env, group, content));
  }
  for (const BackupContent& member : members) {
    RETURN_IF_ERROR(RemoveContent(ctx, env, member, "Retain"));
  }
  return absl::OkStatus();
}

// Makes the temporary content, or gives the one that is there the Secret that is right now. False
// where one that an older version of us made does not go.
absl::StatusOr<bool> EnsureTemporaryContent(const CallContext& ctx, const Environment& env,
                                            const Group& group, const Json& archived_content,
                                            const std::vector<Json>& classes, absl::Duration wait) {
  const Json* const group_class = GroupClassOf(
      classes, group.driver, GetString(archived_content, {"spec", "volumeGroupSnapshotClassName"}));
  const StaticGroup content = {
      .version = group.version,
      .name = TemporaryName(group),
      .driver = group.driver,
      .handle = group.handle,
      .member_handles = {group.member_handles.begin(), group.member_handles.end()},
      .group_namespace = env.velero_namespace,
      .group_name = TemporaryName(group),
      .deletion_policy = "Delete",
      .class_name = group_class == nullptr ? "" : k8s::Name(*group_class),
      .labels = {{objects::kCsiDeltaLabel, env.velero_namespace},
                 {objects::kBackupNameLabel, group.backup_label},
                 {objects::kGroupNameLabel, group.group_name}},
      .annotations = GroupDeletionSecret(archived_content, group_class),
      // Nothing is bound to it, so the snapshot controller would not protect it.
      .finalizers = {objects::kGroupContentBoundProtectionFinalizer, objects::kDeletionFinalizer}};
  const k8s::ObjectKey key = ContentKey(group, content.name);
  ASSIGN_OR_RETURN(const bool made,
                   EnsurePendingDeletion(ctx, env, key, MakeStaticGroup(content), wait));
  if (content.annotations.empty()) {
    return made;
  }
  Json patch;
  SetJson(patch, {"metadata", "annotations"}, content.annotations);
  RETURN_IF_ERROR(
      k8s::IgnoreNotFound(env.api.Patch(ctx, key, k8s::PatchKind::kMerge, patch, "").status()));
  return made;
}

absl::StatusOr<DeletionState> DeleteTemporaryContent(const CallContext& ctx, const Environment& env,
                                                     const Group& group, absl::Duration wait) {
  const k8s::ObjectKey key = ContentKey(group, TemporaryName(group));
  RETURN_IF_ERROR(WriteHandle(ctx, env, key, "volumeGroupSnapshotHandle", group.handle, wait));
  return ProveDeletion(ctx, env, {.key = key, .handle = group.handle}, wait);
}

// What the archive says; nothing when the backup did not make the group.
std::optional<Group> ReadArchived(const Json& content, const velero::Backup& backup) {
  Group group = {.version = "",
                 .driver = GetString(content, {"spec", "driver"}),
                 .handle = ArchivedGroupHandle(content),
                 .member_handles = HandlesOf(ArchivedMembers(content)),
                 .group_name = k8s::Label(content, objects::kGroupNameLabel),
                 .backup_label = velero::ValidLabelValue(backup.name)};
  if (group.group_name.empty() || IsRestored(content) ||
      k8s::Label(content, objects::kBackupNameLabel) != group.backup_label ||
      group.driver.empty() || group.handle.empty()) {
    return std::nullopt;
  }
  if (group.member_handles.empty()) {
    CSIDELTA_LOG(kWarn, "the archive names no member of the group: the driver cannot be asked",
                 {"driver", group.driver}, {"group_snapshot_handle", group.handle},
                 {"backup", backup.name});
    return std::nullopt;
  }
  return group;
}

// Finishes what one temporary content stands for. Returns whether it was time.
absl::StatusOr<bool> Finish(const CallContext& ctx, const Environment& env, const Group& group) {
  ASSIGN_OR_RETURN(const std::vector<BackupContent> members, LookAtMembers(ctx, env, group));
  if (OneIsNeeded(members)) {
    return false;
  }
  RETURN_IF_ERROR(RemoveOwned(ctx, env, group, members));
  RETURN_IF_ERROR(DeleteTemporaryContent(ctx, env, group, kFinishGroupTimeMax).status());
  return true;
}

// Goes on with one that was asked to go before.
absl::StatusOr<bool> FinishDeleted(const CallContext& ctx, const Environment& env,
                                   const Json& content, const char* version) {
  const PendingDeletion pending =
      PendingDeletionOf(VolumeGroupSnapshotContentType(version), content);
  ASSIGN_OR_RETURN(const DeletionState state,
                   ProveDeletion(ctx, env, pending, kFinishGroupTimeMax));
  if (state == DeletionState::kPending) {
    CSIDELTA_LOG(kWarn, "the driver has not deleted the group of a deleted backup yet",
                 {"driver", GetString(content, {"spec", "driver"})},
                 {"group_snapshot_handle", pending.handle},
                 {"volume_group_snapshot_content", k8s::Name(content)},
                 {"last_error", ErrorMessage(content)});
  }
  return state == DeletionState::kProven;
}

// The same for any content of ours, of whatever kind.
absl::StatusOr<bool> FinishOne(const CallContext& ctx, const Environment& env, const Json& content,
                               const char* version) {
  if (!MovedGroupOf(content).empty()) {
    return DeleteRecordInVain(ctx, env, content);
  }
  if (!absl::StartsWith(k8s::Name(content), kNamePrefix)) {
    return false;
  }
  if (k8s::BeingDeleted(content)) {
    return IsPendingDeletion(content) ? FinishDeleted(ctx, env, content, version) : false;
  }
  const Group group = {.version = version,
                       .driver = GetString(content, {"spec", "driver"}),
                       .handle = GroupHandleOf(content),
                       .member_handles = HandlesOf(GroupMembers(content)),
                       .group_name = k8s::Label(content, objects::kGroupNameLabel),
                       .backup_label = k8s::Label(content, objects::kBackupNameLabel)};
  return k8s::Name(content) == TemporaryName(group) ? Finish(ctx, env, group) : false;
}

}  // namespace

std::string GroupDeletionContentName(absl::string_view driver, absl::string_view handle) {
  return absl::StrCat(kNamePrefix, DigestOfHandle(driver, handle));
}

bool IsMemberOfOurs(const Json& content) {
  return !k8s::Label(content, objects::kGroupNameLabel).empty() && !IsRestored(content);
}

absl::StatusOr<DeletionResult> DeleteGroupOfBackup(const CallContext& ctx, const Environment& env,
                                                   const Json& archived_content,
                                                   const velero::Backup& backup,
                                                   absl::Duration wait) {
  std::optional<Group> group = ReadArchived(archived_content, backup);
  if (!group.has_value()) {
    return DeletionResult::kNothing;
  }
  const auto failed = [&group](const absl::Status& status) {
    return Annotate(status, absl::StrCat("delete ", Describe(*group)));
  };
  const absl::StatusOr<GroupKinds> kinds = FindGroupKinds(ctx, env.api);
  RETURN_IF_ERROR(failed(kinds.status()));
  group->version = kinds->version;
  const absl::StatusOr<std::vector<BackupContent>> members = LookAtMembers(ctx, env, *group);
  RETURN_IF_ERROR(failed(members.status()));
  const absl::StatusOr<bool> made =
      EnsureTemporaryContent(ctx, env, *group, archived_content, kinds->classes, wait);
  RETURN_IF_ERROR(failed(made.status()));
  if (OneIsNeeded(*members)) {
    CSIDELTA_LOG(kInfo, "a claim is still being filled from the group: deleted later",
                 {"driver", group->driver}, {"group_snapshot_handle", group->handle});
    return DeletionResult::kDeferred;
  }
  RETURN_IF_ERROR(failed(RemoveOwned(ctx, env, *group, *members)));
  absl::StatusOr<DeletionState> state = DeletionState::kPending;
  if (*made) {
    state = DeleteTemporaryContent(ctx, env, *group, wait);
    RETURN_IF_ERROR(failed(state.status()));
  }
  const k8s::ObjectKey key = ContentKey(*group, TemporaryName(*group));
  if (*state != DeletionState::kProven) {
    CSIDELTA_LOG(kWarn, "the driver has not deleted the group yet and will be asked again",
                 {"driver", group->driver}, {"group_snapshot_handle", group->handle},
                 {"volume_group_snapshot_content", key.name},
                 {"last_error", LastError(ctx, env, key)});
    return DeletionResult::kInProgress;
  }
  return DeletionResult::kGone;
}

absl::StatusOr<int> FinishGroupDeletions(const CallContext& ctx, const Environment& env) {
  for (const char* const version : {"v1", "v1beta2", "v1beta1"}) {
    const absl::StatusOr<k8s::ObjectList> contents = env.api.List(
        ctx, VolumeGroupSnapshotContentType(version), "",
        {.label_selector = absl::StrCat(objects::kCsiDeltaLabel, "=", env.velero_namespace),
         .field_selector = ""});
    if (absl::IsNotFound(contents.status())) {
      continue;
    }
    RETURN_IF_ERROR(contents.status());
    int finished = 0;
    for (const Json& content : contents->items) {
      const absl::StatusOr<bool> done = FinishOne(ctx, env, content, version);
      if (!done.ok()) {
        RETURN_IF_ERROR(ctx.Check());
        CSIDELTA_LOG(kWarn, "the deletion of a group could not be finished",
                     {"driver", GetString(content, {"spec", "driver"})},
                     {"group_snapshot_handle", GroupHandleOf(content)},
                     {"error", done.status().ToString()});
      }
      finished += done.ok() && *done ? 1 : 0;
    }
    return finished;
  }
  return 0;
}

}  // namespace csidelta::csi
