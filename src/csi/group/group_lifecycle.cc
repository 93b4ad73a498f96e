#include "csi/group/group_lifecycle.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/crypto.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/lock.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "velero/labels.h"

namespace csidelta::csi {
namespace {

using objects::PlannedGroupMember;
using objects::VolumeGroupSnapshot;
using objects::VolumeSnapshotContent;

constexpr char kGroupNamePrefix[] = "velero-";
constexpr size_t kNameValueBytesMax = 35;
constexpr size_t kMarkHashBytes = 8;

// A backup may make two groups of one label: one is kept, the other is moved.
std::string Purpose(bool to_be_moved) { return to_be_moved ? "/moved" : ""; }

// `group_of`: "<label key>=<label value>".
std::string NameFor(const std::string& backup_uid, const std::string& namespace_name,
                    const std::string& group_of, bool to_be_moved) {
  const std::pair<std::string, std::string> label =
      absl::StrSplit(group_of, absl::MaxSplits('=', 1));
  std::string value = absl::AsciiStrToLower(label.second);
  value = absl::StrReplaceAll(value, {{".", "-"}, {"_", "-"}});
  value.resize(std::min(value.size(), kNameValueBytesMax));
  const std::string hash = Sha256Hex(absl::StrCat(backup_uid, "/", namespace_name, "/", label.first,
                                                  "/", label.second, Purpose(to_be_moved)));
  return absl::StrCat(kGroupNamePrefix, value, "-", hash.substr(0, kNameHashBytes));
}

std::string GroupOf(const GroupRequest& request) {
  return absl::StrCat(request.label_key, "=", request.label_value);
}

std::string HashOfGroup(const GroupRequest& request) {
  return Sha256Hex(absl::StrCat(request.namespace_name, "/", request.label_key, "/",
                                request.label_value, Purpose(request.to_be_moved)));
}

VolumeGroupSnapshot MakeGroup(const Environment& env, const GroupRequest& request) {
  auto group =
      VolumeGroupSnapshot::Make(request.version, request.namespace_name, GroupName(request));
  group.SetLabels(LabelsOf(env, request.backup));
  group.SetAnnotation(objects::kGroupOfAnnotation, GroupOf(request));
  group.SetAnnotation(objects::kGroupMembersAnnotation, objects::FormatGroupPlan(request.members));
  if (request.to_be_moved) {
    group.SetAnnotation(objects::kGroupToBeMovedAnnotation, "true");
  }
  group.SetClassName(request.class_name);
  group.SetSelector(objects::kGroupMarkLabel, GroupMark(request));
  return group;
}

// True if `name` has the form of GroupName().
bool IsGroupName(absl::string_view name) {
  const std::size_t dash = name.rfind('-');
  return absl::StartsWith(name, kGroupNamePrefix) && dash != absl::string_view::npos &&
         name.size() - dash - 1 == kNameHashBytes &&
         name.find_first_not_of("0123456789abcdef", dash + 1) == absl::string_view::npos;
}

}  // namespace

std::string GroupLabelKey(const objects::Backup& backup) {
  return backup.volume_group_label_key().empty() ? objects::kVolumeGroupLabel
                                                 : backup.volume_group_label_key();
}

std::string GroupName(const GroupRequest& request) {
  return NameFor(request.backup.uid(), request.namespace_name, GroupOf(request),
                 request.to_be_moved);
}

std::string GroupMark(const GroupRequest& request) {
  return absl::StrCat(request.backup.uid(), ".", HashOfGroup(request).substr(0, kMarkHashBytes));
}

bool IsOfAnotherBackup(const objects::Object& archived, absl::string_view backup_name) {
  if (!archived.Label(objects::kRestoreNameLabel).empty() ||
      !archived.Label(objects::kRestoreUidLabel).empty()) {
    return false;
  }
  std::string backup = archived.Label(objects::kMemberOfBackupLabel);
  backup = backup.empty() ? archived.Label(objects::kBackupNameLabel) : backup;
  if (backup.empty()) {
    const std::vector<objects::OwnerReference> owners = archived.owners();
    const auto group = std::find_if(owners.begin(), owners.end(), objects::IsGroupSnapshot);
    return group != owners.end() && IsGroupName(group->name);
  }
  const bool is_content = archived.kind() == VolumeSnapshotContent::kKind.kind;
  const bool is_managed = is_content || !archived.Label(objects::kCsiDeltaLabel).empty() ||
                          !archived.Label(objects::kGroupNameLabel).empty();
  return is_managed && backup != velero::ValidLabelValue(backup_name);
}

bool IsMadeByUs(const VolumeGroupSnapshot& group) {
  return !group.Label(objects::kCsiDeltaLabel).empty() &&
         group.name() == NameFor(group.Label(objects::kBackupUidLabel), group.namespace_name(),
                                 group.Annotation(objects::kGroupOfAnnotation),
                                 group.Annotation(objects::kGroupToBeMovedAnnotation) == "true");
}

bool EnteredArchive(const VolumeGroupSnapshot& group) {
  return !group.Annotation(objects::kGroupSnapshotHandleAnnotation).empty();
}

bool IsManaged(const VolumeGroupSnapshot& group, const objects::Backup& backup) {
  return !backup.uid().empty() && group.Label(objects::kBackupUidLabel) == backup.uid() &&
         IsMadeByUs(group);
}

std::vector<PlannedGroupMember> PlannedMembers(const objects::Object& group) {
  return objects::ParseGroupPlan(group.Annotation(objects::kGroupMembersAnnotation));
}

std::optional<absl::Duration> FreezeWindow(const VolumeGroupSnapshot& group) {
  const auto asked_at = ParseRfc3339(group.Annotation(objects::kAskedAtAnnotation));
  const auto answered_at = ParseRfc3339(group.Annotation(objects::kAnsweredAtAnnotation));
  if (!asked_at.has_value() || !answered_at.has_value() || *answered_at < *asked_at) {
    return std::nullopt;
  }
  return *answered_at - *asked_at;
}

absl::StatusOr<TakenGroup> TakeGroup(const CallContext& ctx, const Environment& env,
                                     const GroupRequest& request) {
  const std::string name = GroupName(request);
  std::vector<std::string> pvc_uids;
  for (const PlannedGroupMember& member : request.members) {
    pvc_uids.push_back(member.pvc_uid);
  }
  TakeGroupRequest take{
      .rules = BackupRules(ctx, env, request.backup, pvc_uids),
      .lock = {.leases = {LeaseRequestOf(
                   env, request.backup, request.namespace_name, request.label_value,
                   absl::StrCat("group-", HashOfGroup(request).substr(0, kNameHashBytes)))},
               .namespace_name = request.namespace_name,
               .pvcs = {},
               .subject = "claim",
               .name = name,
               .wait_max = LockWaitMax(request.backup),
               .counts_backups = true},  // Those of single claims have Leases of their own.
      .object = MakeGroup(env, request),
      .what = absl::StrCat("volume group ", request.namespace_name, "/", request.label_value),
      .mark_label = objects::kGroupMarkLabel,
      .mark = GroupMark(request),
      .members = request.members,
      .member_labels = LabelsOf(env, request.backup),
      .member_annotations = {{objects::kGroupNameLabel, name}},
      .pvc_uid_label = objects::kPvcUidLabel,
      .content_labels = {{objects::kGroupNameLabel, name},
                         {objects::kBackupNameLabel,
                          velero::ValidLabelValue(request.backup.name())}},
      .answered_at_annotation = objects::kAnsweredAtAnnotation};
  take.lock.leases.front().subject = "volume group";
  for (const PlannedGroupMember& member : request.members) {
    take.lock.pvcs[member.pvc] = {};
  }
  take.rules.referred_annotation = objects::kGroupSnapshotHandleAnnotation;
  return TakeGroup(ctx, env.api, take);
}

}  // namespace csidelta::csi
