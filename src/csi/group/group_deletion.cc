#include "csi/group/group_deletion.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/deletion_proof.h"
#include "csi/drop.h"
#include "csi/group/moved_group.h"
#include "csi/snapshot_need.h"
#include "csi/static_content.h"
#include "k8s/api_client.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "velero/labels.h"

namespace csidelta::csi {
namespace {

using objects::VolumeGroupSnapshot;
using objects::VolumeGroupSnapshotContent;
using objects::VolumeSnapshotContent;

constexpr char kNamePrefix[] = "csi-delta-delete-group-";
// How long a backup waits for each deletion of an earlier backup that it resumes.
constexpr absl::Duration kFinishGroupTimeMax = absl::Seconds(2);

// One group of the driver's that has to go.
struct Group {
  std::string version = {};  // of the kinds; an archive does not tell
  std::string driver;
  std::string handle;
  std::set<std::string> member_handles;
  std::string group_name;  // of the original VolumeGroupSnapshot
  std::string backup_label;
};

std::string TemporaryName(const Group& group) {
  return GroupDeletionContentName(group.driver, group.handle);
}

k8s::ObjectKey TemporaryKey(const Group& group) {
  CSIDELTA_CHECK(!group.version.empty());  // An archive's is not the cluster's: FindGroupKinds().
  return VolumeGroupSnapshotContent::Key(group.version, "", TemporaryName(group));
}

std::set<std::string> HandlesOf(const std::vector<objects::GroupMember>& members) {
  std::set<std::string> handles;
  std::transform(members.begin(), members.end(), std::inserter(handles, handles.end()),
                 [](const objects::GroupMember& member) { return member.snapshot_handle; });
  return handles;
}

// An original of the group, or what a restore of the backup made.
bool BelongsToBackup(const objects::Object& object, const Group& group) {
  const std::string name_of_group = object.Label(objects::kGroupNameLabel);
  return (!group.group_name.empty() && name_of_group == group.group_name) ||
         (object.Label(objects::kBackupNameLabel) == group.backup_label &&
          (IsRestored(object) || !object.Label(objects::kRestoreUidLabel).empty()));
}

// Objects that may belong to the backup, by either label: all of a cluster may be very many.
template <typename Kind>
absl::StatusOr<std::vector<Kind>> ListByLabels(const CallContext& ctx, const Environment& env,
                                               const k8s::ResourceType& type, const Group& group) {
  std::vector<Kind> all;
  std::set<std::string> uids;
  for (const auto& [key, value] : {std::pair(objects::kGroupNameLabel, group.group_name),
                                   std::pair(objects::kBackupNameLabel, group.backup_label)}) {
    if (value.empty()) {
      continue;
    }
    ASSIGN_OR_RETURN(auto found,
                     objects::List<Kind>(ctx, env.api, type, "",
                                         {.label_selector = absl::StrCat(key, "=", value)}));
    for (Kind& one : found) {
      if (uids.insert(one.uid()).second) {
        all.push_back(std::move(one));
      }
    }
  }
  return all;
}

absl::StatusOr<std::vector<VolumeGroupSnapshotContent>> ListOwnedGroupContents(
    const CallContext& ctx, const Environment& env, const Group& group) {
  ASSIGN_OR_RETURN(std::vector<VolumeGroupSnapshotContent> contents,
                   ListByLabels<VolumeGroupSnapshotContent>(
                       ctx, env, VolumeGroupSnapshotContent::kKind.TypeOf(group.version), group));
  std::erase_if(contents, [&](const VolumeGroupSnapshotContent& content) {
    return content.driver() != group.driver || content.handle_or_source() != group.handle ||
           content.name() == TemporaryName(group) || !BelongsToBackup(content, group);
  });
  return contents;
}

absl::StatusOr<std::vector<BackupContent>> InspectMembers(const CallContext& ctx,
                                                          const Environment& env,
                                                          const Group& group) {
  ASSIGN_OR_RETURN(
      std::vector<VolumeSnapshotContent> contents,
      ListByLabels<VolumeSnapshotContent>(ctx, env, VolumeSnapshotContent::Type(), group));
  std::erase_if(contents, [&](const VolumeSnapshotContent& content) {
    return content.driver() != group.driver ||
           !group.member_handles.contains(content.handle_or_source()) ||
           !BelongsToBackup(content, group);
  });
  return ReadBackupContents(ctx, env, contents);
}

bool OneIsNeeded(const std::vector<BackupContent>& members) {
  return std::any_of(members.begin(), members.end(),
                     [](const BackupContent& member) { return member.needed; });
}

// The VolumeGroupSnapshot that the content is bound to, or that waits to be bound to it.
absl::StatusOr<std::optional<VolumeGroupSnapshot>> FindGroupSnapshot(
    const CallContext& ctx, const Environment& env, const Group& group,
    const VolumeGroupSnapshotContent& content) {
  if (content.snapshot_name().empty() || content.snapshot_namespace().empty()) {
    return std::optional<VolumeGroupSnapshot>();
  }
  ASSIGN_OR_RETURN(auto snapshot,
                   objects::Find<VolumeGroupSnapshot>(
                       ctx, env.api,
                       VolumeGroupSnapshot::Key(group.version, content.snapshot_namespace(),
                                                content.snapshot_name())));
  const std::string uid = content.snapshot_uid();
  const bool names_it =
      snapshot.has_value() &&
      (uid.empty() ? snapshot->source_content() == content.name() : snapshot->uid() == uid);
  if (!names_it) {
    snapshot.reset();
  }
  return snapshot;
}

// The group before its members: while it lives they cannot go.
absl::Status RemoveOwned(const CallContext& ctx, const Environment& env, const Group& group,
                         const std::vector<BackupContent>& members) {
  ASSIGN_OR_RETURN(const auto contents, ListOwnedGroupContents(ctx, env, group));
  for (const VolumeGroupSnapshotContent& content : contents) {
    ASSIGN_OR_RETURN(const auto snapshot, FindGroupSnapshot(ctx, env, group, content));
    RETURN_IF_ERROR(DropContent(ctx, env.api, IdOf(content), IdOf(snapshot), Data::kRetain));
  }
  for (const BackupContent& member : members) {
    RETURN_IF_ERROR(
        DropContent(ctx, env.api, IdOf(member.content), IdOf(member.snapshot), Data::kRetain));
  }
  return absl::OkStatus();
}

// Makes the temporary content, or gives the one that is there the Secret that is right now.
absl::Status EnsureTemporaryContent(const CallContext& ctx, const Environment& env,
                                    const Group& group,
                                    const VolumeGroupSnapshotContent& archived_content,
                                    const std::vector<objects::VolumeGroupSnapshotClass>& classes) {
  const objects::VolumeGroupSnapshotClass* const group_class =
      GroupClassOf(classes, group.driver, archived_content.class_name());
  const StaticContent content = {
      .version = group.version,
      .name = TemporaryName(group),
      .driver = group.driver,
      .handle = group.handle,
      .member_handles = {group.member_handles.begin(), group.member_handles.end()},
      .snapshot_namespace = env.velero_namespace,
      .snapshot_name = TemporaryName(group),
      .deletion_policy = "Delete",
      .class_name = group_class == nullptr ? "" : group_class->name(),
      .labels = {{objects::kCsiDeltaLabel, env.velero_namespace},
                 {objects::kBackupNameLabel, group.backup_label},
                 {objects::kGroupNameLabel, group.group_name}},
      .annotations = archived_content.DeletionSecret(group_class),
      // Nothing is bound to it, so the snapshot controller would not protect it.
      .finalizers = {objects::kGroupContentBoundProtectionFinalizer, objects::kDeletionFinalizer}};
  RETURN_IF_ERROR(EnsureStaticContent(ctx, env.api, content));
  return content.annotations.empty() ? absl::OkStatus()
                                     : k8s::IgnoreNotFound(objects::Apply(
                                           ctx, env.api, TemporaryKey(group),
                                           objects::Patch().SetAnnotations(content.annotations)));
}

absl::StatusOr<DeletionResult> DeleteTemporaryContent(const CallContext& ctx,
                                                      const Environment& env, const Group& group,
                                                      absl::Duration wait) {
  const k8s::ObjectKey key = TemporaryKey(group);
  RETURN_IF_ERROR(WriteHandle(ctx, env, key, group.handle, wait));
  return ProveDeletion(ctx, env, {.key = key, .handle = group.handle}, wait);
}

// Reads the archive; nothing if the backup did not make the group. It may name no member.
std::optional<Group> ReadArchived(const VolumeGroupSnapshotContent& content,
                                  const objects::Backup& backup) {
  Group group = {.driver = content.driver(),
                 .handle = content.archived_handle(),
                 .member_handles = HandlesOf(content.archived_members()),
                 .group_name = content.Label(objects::kGroupNameLabel),
                 .backup_label = velero::ValidLabelValue(backup.name())};
  if (group.group_name.empty() || IsRestored(content) ||
      content.Label(objects::kBackupNameLabel) != group.backup_label || group.driver.empty() ||
      group.handle.empty()) {
    return std::nullopt;
  }
  return group;
}

absl::StatusOr<DeletionResult> DeleteGroup(const CallContext& ctx, const Environment& env,
                                           Group& group,
                                           const VolumeGroupSnapshotContent& archived_content,
                                           absl::Duration wait) {
  ASSIGN_OR_RETURN(const objects::GroupKinds kinds, objects::FindGroupKinds(ctx, env.api));
  group.version = kinds.version;
  ASSIGN_OR_RETURN(const bool has_driver, HasDriver(ctx, env, kinds.classes, group.driver));
  if (!has_driver) {
    return DeletionResult::kNoDriver;
  }
  ASSIGN_OR_RETURN(const std::vector<BackupContent> members, InspectMembers(ctx, env, group));
  RETURN_IF_ERROR(EnsureTemporaryContent(ctx, env, group, archived_content, kinds.classes));
  if (OneIsNeeded(members)) {
    CSIDELTA_LOG(kInfo, "a claim is still being filled from the group: deleted later",
                 {"driver", group.driver}, {"group_snapshot_handle", group.handle});
    return DeletionResult::kDeferred;
  }
  RETURN_IF_ERROR(RemoveOwned(ctx, env, group, members));
  return DeleteTemporaryContent(ctx, env, group, wait);
}

// Finishes what one temporary content stands for. Returns whether it was time.
absl::StatusOr<bool> Finish(const CallContext& ctx, const Environment& env, const Group& group) {
  ASSIGN_OR_RETURN(const std::vector<BackupContent> members, InspectMembers(ctx, env, group));
  if (OneIsNeeded(members)) {
    return false;
  }
  RETURN_IF_ERROR(RemoveOwned(ctx, env, group, members));
  RETURN_IF_ERROR(DeleteTemporaryContent(ctx, env, group, kFinishGroupTimeMax).status());
  return true;
}

// Finishes what any managed content of a group stands for.
absl::StatusOr<bool> FinishOne(const CallContext& ctx, const Environment& env,
                               const VolumeGroupSnapshotContent& content) {
  if (!MovedGroupOf(content).empty()) {
    return DeleteOrphanedRecord(ctx, env, content);
  }
  if (!absl::StartsWith(content.name(), kNamePrefix)) {
    return false;
  }
  if (content.is_being_deleted()) {
    if (!IsPendingDeletion(content)) {
      return false;
    }
    const PendingDeletion pending = PendingDeletionOf(content.key().type, content);
    ASSIGN_OR_RETURN(const DeletionResult state,
                     ProveDeletion(ctx, env, pending, kFinishGroupTimeMax));
    return state == DeletionResult::kGone;
  }
  const Group group = {.version = content.version(),
                       .driver = content.driver(),
                       .handle = content.handle_or_source(),
                       .member_handles = HandlesOf(content.members()),
                       .group_name = content.Label(objects::kGroupNameLabel),
                       .backup_label = content.Label(objects::kBackupNameLabel)};
  return content.name() == TemporaryName(group) ? Finish(ctx, env, group) : false;
}

}  // namespace

std::string GroupDeletionContentName(absl::string_view driver, absl::string_view handle) {
  return absl::StrCat(kNamePrefix, DigestOfHandle(driver, handle));
}

bool IsManagedMember(const VolumeSnapshotContent& content) {
  return !content.Label(objects::kGroupNameLabel).empty() && !IsRestored(content);
}

absl::StatusOr<DeletionResult> DeleteGroupOfBackup(
    const CallContext& ctx, const Environment& env,
    const VolumeGroupSnapshotContent& archived_content, const objects::Backup& backup,
    absl::Duration wait) {
  std::optional<Group> group = ReadArchived(archived_content, backup);
  if (!group.has_value()) {
    return DeletionResult::kNothing;
  }
  absl::StatusOr<DeletionResult> result =
      group->member_handles.empty()
          ? absl::InvalidArgumentError("the archive names no member: the driver cannot be asked")
          : DeleteGroup(ctx, env, *group, archived_content, wait);
  RETURN_IF_ERROR(Annotate(
      result.status(), absl::StrCat("delete group ", group->handle, " of driver ", group->driver)));
  return result;
}

absl::StatusOr<int> FinishGroupDeletions(const CallContext& ctx, const Environment& env) {
  ASSIGN_OR_RETURN(
      const auto contents,
      objects::ListGroupKind<VolumeGroupSnapshotContent>(
          ctx, env.api, "",
          {.label_selector = absl::StrCat(objects::kCsiDeltaLabel, "=", env.velero_namespace)}));
  int finished = 0;
  for (const VolumeGroupSnapshotContent& content : contents) {
    const absl::StatusOr<bool> done = FinishOne(ctx, env, content);
    if (!done.ok()) {
      RETURN_IF_ERROR(ctx.Check());
      CSIDELTA_LOG(kWarn, "the deletion of a group could not be finished",
                   {"driver", content.driver()},
                   {"group_snapshot_handle", content.handle_or_source()},
                   {"error", done.status().ToString()});
    }
    finished += done.ok() && *done ? 1 : 0;
  }
  return finished;
}

}  // namespace csidelta::csi
