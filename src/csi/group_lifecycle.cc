#include "csi/group_lifecycle.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/drop.h"
#include "csi/driver_error.h"
#include "csi/lock.h"
#include "csi/retry.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/persistent_volume_claim.h"
#include "velero/labels.h"

namespace csidelta::csi {
namespace {

using objects::PersistentVolumeClaim;
using objects::PlannedGroupMember;
using objects::VolumeGroupSnapshot;
using objects::VolumeGroupSnapshotContent;
using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

constexpr char kGroupNamePrefix[] = "velero-";
constexpr size_t kNameValueBytesMax = 35;
constexpr size_t kMarkHashBytes = 8;

std::string ToString(const GroupRequest& request) {
  return absl::StrCat("volume group ", request.namespace_name, "/", request.label_value);
}

std::string ClaimText(const GroupRequest& request, const std::string& claim) {
  return absl::StrCat("claim ", request.namespace_name, "/", claim);
}

// Of one label there may be two groups in a backup: that which is kept, and that which is moved.
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

VolumeGroupSnapshot MakeGroup(const Environment& env, const GroupRequest& request,
                              absl::Time asked_at) {
  auto group =
      VolumeGroupSnapshot::Make(request.version, request.namespace_name, GroupName(request));
  group.SetLabels({{objects::kBackupNameLabel, velero::ValidLabelValue(request.backup.name)},
                   {objects::kBackupUidLabel, request.backup.uid},
                   {objects::kCsiDeltaLabel, env.velero_namespace}});
  group.SetAnnotation(objects::kAskedAtAnnotation, FormatRfc3339(asked_at));
  group.SetAnnotation(objects::kGroupOfAnnotation, GroupOf(request));
  group.SetAnnotation(objects::kGroupMembersAnnotation, objects::FormatGroupPlan(request.members));
  if (request.to_be_moved) {
    group.SetAnnotation(objects::kGroupToBeMovedAnnotation, "true");
  }
  group.SetClassName(request.class_name);
  group.SetSelector(objects::kGroupMarkLabel, GroupMark(request));
  return group;
}

k8s::ObjectKey KeyOf(const GroupRequest& request) {
  return VolumeGroupSnapshot::Key(request.version, request.namespace_name, GroupName(request));
}

// Of what the API server may say to a change of a claim, that which another try does not change.
bool IsRefused(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsInvalidArgument(status) ||
         absl::IsNotFound(status) || absl::IsAborted(status) || absl::IsFailedPrecondition(status);
}

// --- Making

// One call of TakeGroup while it has the lock.
class GroupMaker {
 public:
  GroupMaker(const CallContext& ctx, const Environment& env, const GroupRequest& request,
             VolumeLock& lock)
      : ctx_(ctx),
        env_(env),
        request_(request),
        lock_(lock),
        errors_(ErrorsOf(ToString(request))) {}

  absl::StatusOr<TakenGroup> Make();

 private:
  absl::StatusOr<TakenGroup> Try();

  // Labels the claims for the selector.
  absl::Status Mark();

  // Takes the label off again, in its own time.
  void Unmark();

  // Creates the VolumeGroupSnapshot, or takes up the one that an interrupted call left. An error
  // leaves open whether it exists.
  absl::StatusOr<VolumeGroupSnapshot> Ensure();
  absl::StatusOr<VolumeGroupSnapshot> EnsureOnce();

  DriverErrors ErrorsOf(std::string what) const {
    return DriverErrors(*ctx_.clock, std::move(what), request_.backup.csi_snapshot_timeout);
  }

  absl::Status CheckError(const std::string& error);
  absl::Status DeletedByAnother(absl::string_view kind, absl::string_view name) const;
  absl::Status AwaitBinding(LeaseWaiter& waiter, VolumeGroupSnapshot& group);

  // The controller says that it cannot begin. Looks once for every such word whether the claims
  // still have the label by which it finds them.
  absl::Status CheckMarks();
  absl::Status CheckNoneLost(absl::FunctionRef<bool(const PlannedGroupMember&)> selected) const;
  absl::Status AwaitContent(LeaseWaiter& waiter, TakenGroup& taken);

  // Controllers from 8.4 on list the members in a field that v1beta1 does not have, and the API
  // server leaves it out.
  bool MayHideMembers() const { return request_.version == "v1beta1"; }

  // Has the VolumeGroupSnapshot say when the driver answered, and what its content hides. What an
  // interrupted call noted stays.
  absl::Status Note(TakenGroup& taken);

  // Where the members' handles are known only after all have been adopted.
  absl::Status NoteInMembers(TakenGroup& taken);

  // Which volumes the controller found by the label.
  absl::Status CheckVolumes(const VolumeGroupSnapshotContent& content) const;

  // Until the controller knows every member as one, and has bound it. `snapshots`: by claim.
  absl::Status AwaitMembers(LeaseWaiter& waiter, const VolumeGroupSnapshot& group,
                            std::map<std::string, VolumeSnapshot>& snapshots);

  // Names the claims whose volumes the driver complains of, where it does not complain of all.
  absl::Status Blame(const absl::Status& status) const;

  // Gives a member the marks of a VolumeSnapshot that we took alone.
  absl::StatusOr<TakenSnapshot> Adopt(const PlannedGroupMember& member,
                                      const VolumeSnapshot& snapshot,
                                      const VolumeGroupSnapshotContent& group_content);
  template <typename Kind>
  absl::StatusOr<Kind> Patch(const k8s::ObjectKey& key, const objects::Patch& patch);

  // Removes what became unreferenced, in its own time. The name alone tells it, because the answer
  // to the request that created it may have been lost.
  absl::Status CleanUp(const absl::Status& status);

  const CallContext& ctx_;
  const Environment& env_;
  const GroupRequest& request_;
  VolumeLock& lock_;
  DriverErrors errors_;
  std::string error_looked_at_;
  absl::Time answered_at_ = absl::InfiniteFuture();
  std::vector<std::string> marked_;  // claims that may carry the label
  std::vector<PlannedGroupMember> planned_;
};

absl::StatusOr<TakenGroup> GroupMaker::Make() {
  absl::StatusOr<TakenGroup> taken = Try();
  Unmark();
  if (!taken.ok()) {
    return CleanUp(taken.status());
  }
  return taken;
}

absl::StatusOr<TakenGroup> GroupMaker::Try() {
  RETURN_IF_ERROR(Mark());
  TakenGroup taken;
  ASSIGN_OR_RETURN(taken.group, Ensure());
  planned_ = PlannedMembers(taken.group);
  const CallContext waiting = ctx_.WithTimeout(request_.backup.csi_snapshot_timeout);
  LeaseWaiter waiter = lock_.Waiter(waiting);
  absl::Status status = AwaitBinding(waiter, taken.group);
  if (status.ok()) {
    status = AwaitContent(waiter, taken);
  }
  RETURN_IF_ERROR(Blame(errors_.Explain(status)));
  std::map<std::string, VolumeSnapshot> snapshots;
  RETURN_IF_ERROR(AwaitMembers(waiter, taken.group, snapshots));
  for (const PlannedGroupMember& member : planned_) {
    ASSIGN_OR_RETURN(taken.members[member.pvc_uid],
                     Adopt(member, snapshots[member.pvc], taken.content));
  }
  RETURN_IF_ERROR(Note(taken));
  return taken;
}

absl::Status GroupMaker::Mark() {
  const auto patch = objects::Patch().SetLabel(objects::kGroupMarkLabel, GroupMark(request_));
  for (const PlannedGroupMember& member : request_.members) {
    marked_.push_back(member.pvc);
    const absl::Status status = RetryTransient(ctx_, [&] {
      return objects::Apply(ctx_, env_.api,
                            PersistentVolumeClaim::Key(request_.namespace_name, member.pvc), patch);
    });
    if (IsRefused(status)) {
      return absl::UnimplementedError(absl::StrCat(
          ClaimText(request_, member.pvc), " cannot be labelled for the time that its ",
          "volume group is being made: ", status.message()));
    }
    RETURN_IF_ERROR(Annotate(status, absl::StrCat("label ", ClaimText(request_, member.pvc))));
  }
  return absl::OkStatus();
}

void GroupMaker::Unmark() {
  const CallContext after = CleanUpContext(*ctx_.clock);
  for (const std::string& claim : marked_) {
    const absl::Status status =
        UnmarkClaim(after, env_.api, PersistentVolumeClaim::Key(request_.namespace_name, claim),
                    GroupMark(request_));
    if (!status.ok()) {
      CSIDELTA_LOG(kWarn, "a claim keeps a label that the next backup takes off",
                   {"namespace", request_.namespace_name}, {"pvc", claim},
                   {"label", objects::kGroupMarkLabel}, {"status", status.ToString()});
    }
  }
}

absl::StatusOr<VolumeGroupSnapshot> GroupMaker::Ensure() {
  absl::StatusOr<VolumeGroupSnapshot> group = RetryTransient(ctx_, [&] { return EnsureOnce(); });
  if (absl::IsNotFound(group.status())) {
    return absl::UnimplementedError(absl::StrCat("the cluster serves no VolumeGroupSnapshots ",
                                                 request_.version,
                                                 " any more: ", group.status().message()));
  }
  RETURN_IF_ERROR(Annotate(group.status(),
                           absl::StrCat("create a VolumeGroupSnapshot of ", ToString(request_))));
  return group;
}

absl::StatusOr<VolumeGroupSnapshot> GroupMaker::EnsureOnce() {
  const k8s::ObjectKey key = KeyOf(request_);
  absl::StatusOr<VolumeGroupSnapshot> group =
      objects::Create(ctx_, env_.api, key.type, MakeGroup(env_, request_, ctx_.clock->Now()));
  if (!absl::IsAlreadyExists(group.status())) {
    return group;
  }
  ASSIGN_OR_RETURN(group, objects::Get<VolumeGroupSnapshot>(ctx_, env_.api, key));
  if (!IsManaged(*group, request_.backup)) {
    return absl::AlreadyExistsError(absl::StrCat("VolumeGroupSnapshot ", key.namespace_name, "/",
                                                 key.name, " is not of this backup"));
  }
  return group;
}

absl::Status GroupMaker::CheckError(const std::string& error) {
  if (ReportsNoSuchCall(error)) {
    return absl::UnimplementedError(absl::StrCat("the driver makes no volume groups: ", error));
  }
  return errors_.Check(error);
}

absl::Status GroupMaker::DeletedByAnother(absl::string_view kind, absl::string_view name) const {
  return absl::NotFoundError(
      absl::StrCat(kind, " ", name, " of ", ToString(request_), " was deleted by another client"));
}

absl::Status GroupMaker::AwaitBinding(LeaseWaiter& waiter, VolumeGroupSnapshot& group) {
  const VolumeGroupSnapshot made = group;
  return waiter.WaitFor<VolumeGroupSnapshot>(
      KeyOf(request_),
      [&](const VolumeGroupSnapshot* now) -> absl::StatusOr<bool> {
        if (now == nullptr || now->uid() != made.uid() || now->is_being_deleted()) {
          return DeletedByAnother("VolumeGroupSnapshot", made.name());
        }
        group = *now;
        RETURN_IF_ERROR(CheckError(now->error_message()));
        if (now->bound_content().empty()) {
          RETURN_IF_ERROR(CheckMarks());
          return false;
        }
        return true;
      },
      &made);
}

absl::Status GroupMaker::CheckMarks() {
  if (errors_.last().empty() || errors_.last() == error_looked_at_) {
    return absl::OkStatus();
  }
  error_looked_at_ = errors_.last();
  const auto marked = objects::List<PersistentVolumeClaim>(
      ctx_, env_.api, request_.namespace_name,
      {.label_selector = absl::StrCat(objects::kGroupMarkLabel, "=", GroupMark(request_))});
  if (!marked.ok()) {
    return absl::OkStatus();
  }
  std::set<std::string> names;
  for (const PersistentVolumeClaim& pvc : *marked) {
    names.insert(pvc.name());
  }
  return CheckNoneLost(
      [&](const PlannedGroupMember& member) { return names.contains(member.pvc); });
}

absl::Status GroupMaker::CheckNoneLost(
    absl::FunctionRef<bool(const PlannedGroupMember&)> selected) const {
  std::vector<std::string> lost;
  for (const PlannedGroupMember& member : planned_) {
    if (!selected(member)) {
      lost.push_back(ClaimText(request_, member.pvc));
    }
  }
  if (lost.empty()) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(absl::StrCat(
      "another client removes the label ", objects::kGroupMarkLabel,
      " off again: ", absl::StrJoin(lost, ", "), " would be missing in ", ToString(request_)));
}

absl::Status GroupMaker::AwaitContent(LeaseWaiter& waiter, TakenGroup& taken) {
  const std::string name = taken.group.bound_content();
  const absl::Status status = waiter.WaitForExisting<VolumeGroupSnapshotContent>(
      VolumeGroupSnapshotContent::Key(request_.version, "", name),
      [&](const VolumeGroupSnapshotContent* content) -> absl::StatusOr<bool> {
        if (content == nullptr || content->is_being_deleted()) {
          return DeletedByAnother("VolumeGroupSnapshotContent", name);
        }
        taken.content = *content;
        RETURN_IF_ERROR(CheckVolumes(*content));
        RETURN_IF_ERROR(CheckError(content->error_message()));
        if (content->handle_or_source().empty()) {
          return false;
        }
        answered_at_ = std::min(answered_at_, ctx_.clock->Now());
        return !content->members().empty() || MayHideMembers();
      });
  RETURN_IF_ERROR(status);
  const std::vector<objects::GroupMember> members = taken.content.members();
  if (members.empty()) {
    return absl::OkStatus();
  }
  std::set<std::string> cut;
  for (const objects::GroupMember& member : members) {
    cut.insert(member.volume_handle);
  }
  for (const PlannedGroupMember& member : planned_) {
    if (!cut.contains(member.volume_handle)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the driver left ", ClaimText(request_, member.pvc), " out of ", ToString(request_)));
    }
  }
  return absl::OkStatus();
}

absl::Status GroupMaker::Note(TakenGroup& taken) {
  objects::Patch patch;
  if (taken.group.Annotation(objects::kAnsweredAtAnnotation).empty()) {
    patch.SetAnnotation(objects::kAnsweredAtAnnotation, FormatRfc3339(answered_at_));
  }
  if (taken.content.members().empty()) {
    for (PlannedGroupMember& member : planned_) {
      member.snapshot_handle = taken.members[member.pvc_uid].content.handle();
    }
    patch.SetAnnotation(objects::kGroupMembersAnnotation, objects::FormatGroupPlan(planned_));
    RETURN_IF_ERROR(NoteInMembers(taken));
  }
  if (!patch.is_empty()) {
    ASSIGN_OR_RETURN(taken.group, Patch<VolumeGroupSnapshot>(KeyOf(request_), patch));
  }
  return absl::OkStatus();
}

absl::Status GroupMaker::NoteInMembers(TakenGroup& taken) {
  std::vector<objects::GroupMember> members;
  for (const PlannedGroupMember& member : planned_) {
    members.push_back(
        {.volume_handle = member.volume_handle, .snapshot_handle = member.snapshot_handle});
  }
  const auto patch = objects::Patch().SetAnnotation(objects::kGroupContentOfMemberAnnotation,
                                                    taken.content.NoteForMembers(members));
  for (auto& [claim_uid, member] : taken.members) {
    ASSIGN_OR_RETURN(member.content, Patch<VolumeSnapshotContent>(member.content.key(), patch));
  }
  return absl::OkStatus();
}

absl::Status GroupMaker::CheckVolumes(const VolumeGroupSnapshotContent& content) const {
  const std::optional<std::vector<std::string>> handles = content.source_volumes();
  return !handles.has_value() ? absl::OkStatus()
                              : CheckNoneLost([&](const PlannedGroupMember& member) {
                                  return std::find(handles->begin(), handles->end(),
                                                   member.volume_handle) != handles->end();
                                });
}

absl::Status GroupMaker::AwaitMembers(LeaseWaiter& waiter, const VolumeGroupSnapshot& group,
                                      std::map<std::string, VolumeSnapshot>& snapshots) {
  std::map<std::string, DriverErrors> missing;
  for (const PlannedGroupMember& member : planned_) {
    missing.emplace(member.pvc, ErrorsOf(absl::StrCat(ClaimText(request_, member.pvc), " in ",
                                                      ToString(request_))));
  }
  const absl::Status status = waiter.WaitForAmong<VolumeSnapshot>(
      request_.namespace_name, [&](const VolumeSnapshot* snapshot) -> absl::StatusOr<bool> {
        const auto member = missing.find(snapshot->source_pvc());
        if (!snapshot->IsMemberOf(group.uid()) || member == missing.end()) {
          return false;
        }
        if (snapshot->is_being_deleted()) {
          return DeletedByAnother("VolumeSnapshot",
                                  absl::StrCat(snapshot->name(), " of claim ", member->first));
        }
        RETURN_IF_ERROR(member->second.Check(snapshot->error_message()));
        if (!snapshot->bound_content().empty() && !snapshot->group_snapshot().empty()) {
          snapshots.insert_or_assign(member->first, *snapshot);
          missing.erase(member);
        }
        return missing.empty();
      });
  for (const auto& [claim, errors] : missing) {
    if (!errors.last().empty()) {
      return errors.Explain(status);
    }
  }
  return missing.empty() ? status : missing.begin()->second.Explain(status);
}

absl::Status GroupMaker::Blame(const absl::Status& status) const {
  const std::string& error = errors_.last();
  if (status.ok() || error.empty()) {
    return status;
  }
  const size_t begin = error.rfind("desc = ");
  const absl::string_view description = begin == std::string::npos
                                            ? absl::string_view(error)
                                            : absl::string_view(error).substr(begin);
  std::vector<std::string> blamed;
  for (const PlannedGroupMember& member : planned_) {
    if (!member.volume_handle.empty() && absl::StrContains(description, member.volume_handle)) {
      blamed.push_back(ClaimText(request_, member.pvc));
    }
  }
  return blamed.empty() || blamed.size() == planned_.size()
             ? status
             : Annotate(status, absl::StrJoin(blamed, ", "));
}

absl::StatusOr<TakenSnapshot> GroupMaker::Adopt(const PlannedGroupMember& member,
                                                const VolumeSnapshot& snapshot,
                                                const VolumeGroupSnapshotContent& group_content) {
  TakenSnapshot taken{.snapshot = snapshot, .content = {}};
  const std::string backup_name = velero::ValidLabelValue(request_.backup.name);
  auto content_patch = objects::Patch()
                           .SetLabel(objects::kGroupNameLabel, GroupName(request_))
                           .SetLabel(objects::kBackupNameLabel, backup_name);
  if (const std::vector<objects::GroupMember> members = group_content.members(); !members.empty()) {
    content_patch.SetAnnotation(objects::kGroupContentOfMemberAnnotation,
                                group_content.NoteForMembers(members));
  }
  ASSIGN_OR_RETURN(taken.content,
                   Patch<VolumeSnapshotContent>(
                       VolumeSnapshotContent::Key("", snapshot.bound_content()), content_patch));
  if (taken.content.handle().empty() || taken.content.snapshot_uid() != snapshot.uid() ||
      taken.content.source_volume() != member.volume_handle) {
    return absl::FailedPreconditionError(
        absl::StrCat("VolumeSnapshotContent ", taken.content.name(), " is not what ",
                     ClaimText(request_, member.pvc), " has in ", ToString(request_)));
  }
  if (MemberGroupName(snapshot) == GroupName(request_)) {
    return taken;
  }
  ASSIGN_OR_RETURN(
      taken.snapshot,
      Patch<VolumeSnapshot>(snapshot.key(),
                            objects::Patch()
                                .SetLabel(objects::kBackupNameLabel, backup_name)
                                .SetLabel(objects::kBackupUidLabel, request_.backup.uid)
                                .SetLabel(objects::kPvcUidLabel, member.pvc_uid)
                                .SetLabel(objects::kCsiDeltaLabel, env_.velero_namespace)
                                .SetAnnotation(objects::kGroupNameLabel, GroupName(request_))));
  return taken;
}

template <typename Kind>
absl::StatusOr<Kind> GroupMaker::Patch(const k8s::ObjectKey& key, const objects::Patch& patch) {
  return RetryTransient(ctx_, [&] { return objects::Apply<Kind>(ctx_, env_.api, key, patch); });
}

absl::Status GroupMaker::CleanUp(const absl::Status& status) {
  return CleanUpAfter(
      status, *ctx_.clock, absl::StrCat("VolumeGroupSnapshot ", GroupName(request_)),
      [this](const CallContext& after) -> absl::StatusOr<std::string> {
        ASSIGN_OR_RETURN(const auto group,
                         objects::Find<VolumeGroupSnapshot>(after, env_.api, KeyOf(request_)));
        // One that entered the archive is referenced, and no sweep removes it.
        if (!group.has_value() || !IsManaged(*group, request_.backup) || EnteredArchive(*group)) {
          return "";
        }
        RETURN_IF_ERROR(DropSnapshot(after, env_.api, *group, Data::kDelete));
        return " was deleted again";
      });
}

}  // namespace

std::string GroupLabelKey(const velero::Backup& backup) {
  return backup.volume_group_label_key.empty() ? objects::kVolumeGroupLabel
                                               : backup.volume_group_label_key;
}

std::string GroupName(const GroupRequest& request) {
  return NameFor(request.backup.uid, request.namespace_name, GroupOf(request), request.to_be_moved);
}

std::string GroupMark(const GroupRequest& request) {
  return absl::StrCat(request.backup.uid, ".", HashOfGroup(request).substr(0, kMarkHashBytes));
}

bool IsGroupName(absl::string_view name) {
  const std::size_t dash = name.rfind('-');
  return absl::StartsWith(name, kGroupNamePrefix) && dash != absl::string_view::npos &&
         name.size() - dash - 1 == kNameHashBytes &&
         name.find_first_not_of("0123456789abcdef", dash + 1) == absl::string_view::npos;
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

bool IsManaged(const VolumeGroupSnapshot& group, const velero::Backup& backup) {
  return !backup.uid.empty() && group.Label(objects::kBackupUidLabel) == backup.uid &&
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
  LockRequest lock_request{
      .leases = {LeaseRequestOf(
          env, request.backup, request.namespace_name, request.label_value,
          absl::StrCat("group-", HashOfGroup(request).substr(0, kNameHashBytes)))},
      .namespace_name = request.namespace_name,
      .pvcs = {},
      .subject = "claim",
      .name = GroupName(request),
      .wait_max = LockWaitMax(request.backup),
      .counts_backups = true};  // Those of single claims have Leases of their own.
  for (const PlannedGroupMember& member : request.members) {
    lock_request.pvcs[member.pvc] = {};
  }
  lock_request.leases.front().subject = "volume group";
  VolumeLock lock(ctx, env.api, std::move(lock_request));
  return lock.Run([&] { return GroupMaker(ctx, env, request, lock).Make(); });
}

absl::Status UnmarkClaim(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& claim,
                         const std::string& mark) {
  return RetryTransient(
      ctx, [&] { return objects::RemoveLabelIf(ctx, api, claim, objects::kGroupMarkLabel, mark); });
}

}  // namespace csidelta::csi
