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
#include "csi/group_removal.h"
#include "csi/group_types.h"
#include "csi/retry.h"
#include "csi/snapshot_types.h"
#include "csi/static_group.h"
#include "csi/turn_wait.h"
#include "csi/volume_turn.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "velero/labels.h"

namespace csidelta::csi {
namespace {

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

Json Plan(const std::vector<GroupClaim>& members) {
  Json plan = Json::array();
  for (const GroupClaim& member : members) {
    plan.push_back(
        {{"claim", member.name}, {"claimUid", member.uid}, {"volumeHandle", member.volume_handle}});
    if (!member.snapshot_handle.empty()) {
      plan.back()["snapshotHandle"] = member.snapshot_handle;
    }
  }
  return plan;
}

Json MakeGroup(const Environment& env, const GroupRequest& request, absl::Time asked_at) {
  const Json labels = {{objects::kBackupNameLabel, velero::ValidLabelValue(request.backup.name)},
                       {objects::kBackupUidLabel, request.backup.uid},
                       {objects::kCsiDeltaLabel, env.velero_namespace}};
  Json annotations = {{objects::kAskedAtAnnotation, FormatRfc3339(asked_at)},
                      {objects::kGroupOfAnnotation, GroupOf(request)},
                      {objects::kGroupMembersAnnotation, DumpJson(Plan(request.members))}};
  if (request.to_be_moved) {
    annotations[objects::kGroupToBeMovedAnnotation] = "true";
  }
  const Json metadata = {{"name", GroupName(request)},
                         {"namespace", request.namespace_name},
                         {"labels", labels},
                         {"annotations", annotations}};
  const Json selector = {{"matchLabels", {{objects::kGroupMarkLabel, GroupMark(request)}}}};
  const k8s::ResourceType type = VolumeGroupSnapshotType(request.version);
  return {{"apiVersion", absl::StrCat(type.group, "/", type.version)},
          {"kind", type.kind},
          {"metadata", metadata},
          {"spec",
           {{"volumeGroupSnapshotClassName", request.class_name},
            {"source", {{"selector", selector}}}}}};
}

k8s::ObjectKey KeyOf(const GroupRequest& request) {
  return {.type = VolumeGroupSnapshotType(request.version),
          .namespace_name = request.namespace_name,
          .name = GroupName(request)};
}

// Of what the API server may say to a change of a claim, that which another try does not change.
bool IsRefused(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsInvalidArgument(status) ||
         absl::IsNotFound(status) || absl::IsAborted(status) || absl::IsFailedPrecondition(status);
}

// --- Making

// One call of TakeGroup while it has its turn.
class GroupMaker {
 public:
  GroupMaker(const CallContext& ctx, const Environment& env, const GroupRequest& request,
             VolumeTurn& turn)
      : ctx_(ctx), env_(env), request_(request), turn_(turn), word_(WordAbout(ToString(request))) {}

  absl::StatusOr<TakenGroup> Make();

 private:
  absl::StatusOr<TakenGroup> Try();

  // Labels the claims for the selector.
  absl::Status Mark();

  // Takes the label off again, in its own time.
  void Unmark();

  // Creates the VolumeGroupSnapshot, or takes up the one that an interrupted call left. An error
  // leaves open whether it exists.
  absl::StatusOr<Json> Ensure();
  absl::StatusOr<Json> EnsureOnce();

  DriversWord WordAbout(std::string of) const {
    return DriversWord(std::move(of), "snapshot handle", request_.backup.csi_snapshot_timeout);
  }

  absl::Status Hear(const Json& object);
  absl::Status DeletedBySomebody(absl::string_view kind, absl::string_view name) const;
  absl::Status AwaitBinding(TurnWaiter& waiter, Json& group);

  // The controller says that it cannot begin. Looks once for every such word whether the claims
  // still have the label by which it finds them.
  absl::Status CheckMarks();
  absl::Status CheckNoneLost(absl::FunctionRef<bool(const GroupClaim&)> selected) const;
  absl::Status AwaitContent(TurnWaiter& waiter, TakenGroup& taken);

  // Controllers from 8.4 on list the members in a field that v1beta1 does not have, and the API
  // server leaves it out.
  bool MayHideMembers() const { return request_.version == "v1beta1"; }

  // Has the VolumeGroupSnapshot say when the driver answered, and what its content hides. What an
  // interrupted call noted stays.
  absl::Status Note(TakenGroup& taken);

  // Where the members' handles are known only after all have been adopted.
  absl::Status NoteInMembers(TakenGroup& taken);

  // Which volumes the controller found by the label.
  absl::Status CheckVolumes(const Json& content) const;

  // Until the controller knows every member as one, and has bound it. `snapshots`: by claim.
  absl::Status AwaitMembers(TurnWaiter& waiter, const Json& group,
                            std::map<std::string, Json>& snapshots);

  // Names the claims whose volumes the driver complains of, where it does not complain of all.
  absl::Status Blame(const absl::Status& status) const;

  // Gives a member the marks of a VolumeSnapshot that we took alone.
  absl::StatusOr<TakenSnapshot> Adopt(const GroupClaim& member, const Json& snapshot,
                                      const Json& group_content);
  static Json NotePatch(const Json& group_content, const std::vector<csi::GroupMember>& members);
  absl::StatusOr<Json> Patch(const k8s::ObjectKey& key, const Json& patch);

  // Removes what was made in vain, in its own time. The name alone tells it, because the answer to
  // the request that created it may have been lost.
  void CleanUp();
  absl::Status TryCleanUp(const CallContext& after);

  const CallContext& ctx_;
  const Environment& env_;
  const GroupRequest& request_;
  VolumeTurn& turn_;
  DriversWord word_;
  std::string error_looked_at_;
  absl::Time answered_at_ = absl::InfiniteFuture();
  std::vector<std::string> marked_;  // claims that may carry the label
  std::vector<GroupClaim> planned_;
};

absl::StatusOr<TakenGroup> GroupMaker::Make() {
  absl::StatusOr<TakenGroup> taken = Try();
  Unmark();
  if (!taken.ok()) {
    CleanUp();
  }
  return taken;
}

absl::StatusOr<TakenGroup> GroupMaker::Try() {
  RETURN_IF_ERROR(Mark());
  TakenGroup taken;
  ASSIGN_OR_RETURN(taken.group, Ensure());
  planned_ = PlannedMembers(taken.group);
  const CallContext waiting = ctx_.WithTimeout(request_.backup.csi_snapshot_timeout);
  TurnWaiter waiter(waiting, env_, turn_);
  absl::Status status = AwaitBinding(waiter, taken.group);
  if (status.ok()) {
    status = AwaitContent(waiter, taken);
  }
  RETURN_IF_ERROR(Blame(word_.AddTo(status)));
  std::map<std::string, Json> snapshots;
  RETURN_IF_ERROR(AwaitMembers(waiter, taken.group, snapshots));
  for (const GroupClaim& member : planned_) {
    ASSIGN_OR_RETURN(taken.members[member.uid],
                     Adopt(member, snapshots[member.name], taken.content));
  }
  RETURN_IF_ERROR(Note(taken));
  return taken;
}

absl::Status GroupMaker::Mark() {
  const Json patch = {
      {"metadata", {{"labels", {{objects::kGroupMarkLabel, GroupMark(request_)}}}}}};
  for (const GroupClaim& member : request_.members) {
    marked_.push_back(member.name);
    const absl::Status status = RetryTransient(ctx_, [&] {
      return env_.api
          .Patch(ctx_, ClaimKey(request_.namespace_name, member.name), k8s::PatchKind::kMerge,
                 patch, "")
          .status();
    });
    if (IsRefused(status)) {
      return absl::UnimplementedError(absl::StrCat(
          ClaimText(request_, member.name), " cannot be labelled for the time that its ",
          "volume group is being made: ", status.message()));
    }
    RETURN_IF_ERROR(Annotate(status, absl::StrCat("label ", ClaimText(request_, member.name))));
  }
  return absl::OkStatus();
}

void GroupMaker::Unmark() {
  const CallContext after = CleanUpContext(*ctx_.clock);
  for (const std::string& claim : marked_) {
    const absl::Status status =
        UnmarkClaim(after, env_.api, ClaimKey(request_.namespace_name, claim), GroupMark(request_));
    if (!status.ok()) {
      CSIDELTA_LOG(kWarn, "a claim keeps a label that the next backup takes off",
                   {"namespace", request_.namespace_name}, {"pvc", claim},
                   {"label", objects::kGroupMarkLabel}, {"status", status.ToString()});
    }
  }
}

absl::StatusOr<Json> GroupMaker::Ensure() {
  Json group;
  const absl::Status made = RetryTransient(ctx_, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(group, EnsureOnce());
    return absl::OkStatus();
  });
  if (absl::IsNotFound(made)) {
    return absl::UnimplementedError(absl::StrCat("the cluster serves no VolumeGroupSnapshots ",
                                                 request_.version, " any more: ", made.message()));
  }
  RETURN_IF_ERROR(
      Annotate(made, absl::StrCat("create a VolumeGroupSnapshot of ", ToString(request_))));
  return group;
}

absl::StatusOr<Json> GroupMaker::EnsureOnce() {
  const k8s::ObjectKey key = KeyOf(request_);
  absl::StatusOr<Json> group = env_.api.Create(ctx_, key.type, key.namespace_name,
                                               MakeGroup(env_, request_, ctx_.clock->Now()));
  if (!absl::IsAlreadyExists(group.status())) {
    return group;
  }
  group = env_.api.Get(ctx_, key);
  RETURN_IF_ERROR(group.status());
  if (!IsGroupOurs(*group, request_.backup)) {
    return absl::AlreadyExistsError(absl::StrCat("VolumeGroupSnapshot ", key.namespace_name, "/",
                                                 key.name, " is not of this backup"));
  }
  return group;
}

absl::Status GroupMaker::Hear(const Json& object) {
  if (absl::StrContains(ErrorMessage(object), "code = Unimplemented ")) {
    return absl::UnimplementedError(
        absl::StrCat("the driver makes no volume groups: ", ErrorMessage(object)));
  }
  return word_.Hear(object, ctx_.clock->Now());
}

absl::Status GroupMaker::DeletedBySomebody(absl::string_view kind, absl::string_view name) const {
  return absl::NotFoundError(
      absl::StrCat(kind, " ", name, " of ", ToString(request_), " was deleted by somebody"));
}

absl::Status GroupMaker::AwaitBinding(TurnWaiter& waiter, Json& group) {
  const Json made = group;
  return waiter.WaitFor(
      KeyOf(request_),
      [&](const Json* object) -> absl::StatusOr<bool> {
        if (object == nullptr || k8s::Uid(*object) != k8s::Uid(made) ||
            k8s::BeingDeleted(*object)) {
          return DeletedBySomebody("VolumeGroupSnapshot", k8s::Name(made));
        }
        group = *object;
        RETURN_IF_ERROR(Hear(*object));
        if (BoundGroupContentName(*object).empty()) {
          RETURN_IF_ERROR(CheckMarks());
          return false;
        }
        return true;
      },
      &made);
}

absl::Status GroupMaker::CheckMarks() {
  if (word_.error().empty() || word_.error() == error_looked_at_) {
    return absl::OkStatus();
  }
  error_looked_at_ = word_.error();
  const absl::StatusOr<k8s::ObjectList> marked = env_.api.List(
      ctx_, PersistentVolumeClaimType(), request_.namespace_name,
      {.label_selector = absl::StrCat(objects::kGroupMarkLabel, "=", GroupMark(request_)),
       .field_selector = ""});
  if (!marked.ok()) {
    return absl::OkStatus();
  }
  std::set<std::string> names;
  for (const Json& claim : marked->items) {
    names.insert(k8s::Name(claim));
  }
  return CheckNoneLost([&](const GroupClaim& member) { return names.contains(member.name); });
}

absl::Status GroupMaker::CheckNoneLost(absl::FunctionRef<bool(const GroupClaim&)> selected) const {
  std::vector<std::string> lost;
  for (const GroupClaim& member : planned_) {
    if (!selected(member)) {
      lost.push_back(ClaimText(request_, member.name));
    }
  }
  if (lost.empty()) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(absl::StrCat(
      "somebody takes the label ", objects::kGroupMarkLabel,
      " off again: ", absl::StrJoin(lost, ", "), " would be missing in ", ToString(request_)));
}

absl::Status GroupMaker::AwaitContent(TurnWaiter& waiter, TakenGroup& taken) {
  const std::string name = BoundGroupContentName(taken.group);
  const absl::Status status = waiter.WaitForExisting(
      GroupContentKey(request_.version, name), [&](const Json* object) -> absl::StatusOr<bool> {
        if (object == nullptr || k8s::BeingDeleted(*object)) {
          return DeletedBySomebody("VolumeGroupSnapshotContent", name);
        }
        taken.content = *object;
        RETURN_IF_ERROR(CheckVolumes(*object));
        RETURN_IF_ERROR(Hear(*object));
        if (GroupHandleOf(*object).empty()) {
          return false;
        }
        answered_at_ = std::min(answered_at_, ctx_.clock->Now());
        return !GroupMembers(*object).empty() || MayHideMembers();
      });
  RETURN_IF_ERROR(status);
  if (GroupMembers(taken.content).empty()) {
    return absl::OkStatus();
  }
  std::set<std::string> cut;
  for (const csi::GroupMember& member : GroupMembers(taken.content)) {
    cut.insert(member.volume_handle);
  }
  for (const GroupClaim& member : planned_) {
    if (!cut.contains(member.volume_handle)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the driver left ", ClaimText(request_, member.name), " out of ", ToString(request_)));
    }
  }
  return absl::OkStatus();
}

absl::Status GroupMaker::Note(TakenGroup& taken) {
  Json annotations = Json::object();
  if (k8s::Annotation(taken.group, objects::kAnsweredAtAnnotation).empty()) {
    annotations[objects::kAnsweredAtAnnotation] = FormatRfc3339(answered_at_);
  }
  if (GroupMembers(taken.content).empty()) {
    for (GroupClaim& member : planned_) {
      member.snapshot_handle = SnapshotHandle(taken.members[member.uid].content);
    }
    annotations[objects::kGroupMembersAnnotation] = DumpJson(Plan(planned_));
    RETURN_IF_ERROR(NoteInMembers(taken));
  }
  if (!annotations.empty()) {
    ASSIGN_OR_RETURN(taken.group,
                     Patch(KeyOf(request_), {{"metadata", {{"annotations", annotations}}}}));
  }
  return absl::OkStatus();
}

absl::Status GroupMaker::NoteInMembers(TakenGroup& taken) {
  std::vector<csi::GroupMember> members;
  for (const GroupClaim& member : planned_) {
    members.push_back(
        {.volume_handle = member.volume_handle, .snapshot_handle = member.snapshot_handle});
  }
  for (auto& [claim_uid, member] : taken.members) {
    ASSIGN_OR_RETURN(member.content, Patch(VolumeSnapshotContentKey(k8s::Name(member.content)),
                                           NotePatch(taken.content, members)));
  }
  return absl::OkStatus();
}

absl::Status GroupMaker::CheckVolumes(const Json& content) const {
  const Json* handles = FindJson(content, {"spec", "source", "volumeHandles"});
  if (handles == nullptr || !handles->is_array()) {
    return absl::OkStatus();
  }
  return CheckNoneLost([&](const GroupClaim& member) {
    return std::find(handles->begin(), handles->end(), Json(member.volume_handle)) !=
           handles->end();
  });
}

absl::Status GroupMaker::AwaitMembers(TurnWaiter& waiter, const Json& group,
                                      std::map<std::string, Json>& snapshots) {
  std::map<std::string, DriversWord> missing;
  for (const GroupClaim& member : planned_) {
    missing.emplace(member.name, WordAbout(absl::StrCat(ClaimText(request_, member.name), " in ",
                                                        ToString(request_))));
  }
  const absl::Status status = waiter.WaitForAmong(
      VolumeSnapshotType(), request_.namespace_name,
      [&](const Json* object) -> absl::StatusOr<bool> {
        const auto member = missing.find(SourceClaimName(*object));
        if (!IsMemberOf(*object, k8s::Uid(group)) || member == missing.end()) {
          return false;
        }
        if (k8s::BeingDeleted(*object)) {
          return DeletedBySomebody("VolumeSnapshot",
                                   absl::StrCat(k8s::Name(*object), " of claim ", member->first));
        }
        RETURN_IF_ERROR(member->second.Hear(*object, ctx_.clock->Now()));
        if (!BoundContentName(*object).empty() && !StatusGroupName(*object).empty()) {
          snapshots[member->first] = *object;
          missing.erase(member);
        }
        return missing.empty();
      });
  for (const auto& [claim, word] : missing) {
    if (!word.error().empty()) {
      return word.AddTo(status);
    }
  }
  return missing.empty() ? status : missing.begin()->second.AddTo(status);
}

absl::Status GroupMaker::Blame(const absl::Status& status) const {
  const std::string& error = word_.error();
  if (status.ok() || error.empty()) {
    return status;
  }
  const size_t begin = error.rfind("desc = ");
  const absl::string_view description = begin == std::string::npos
                                            ? absl::string_view(error)
                                            : absl::string_view(error).substr(begin);
  std::vector<std::string> blamed;
  for (const GroupClaim& member : planned_) {
    if (!member.volume_handle.empty() && absl::StrContains(description, member.volume_handle)) {
      blamed.push_back(ClaimText(request_, member.name));
    }
  }
  return blamed.empty() || blamed.size() == planned_.size()
             ? status
             : Annotate(status, absl::StrJoin(blamed, ", "));
}

absl::StatusOr<TakenSnapshot> GroupMaker::Adopt(const GroupClaim& member, const Json& snapshot,
                                                const Json& group_content) {
  TakenSnapshot taken{.snapshot = snapshot, .content = Json()};
  const std::string backup_name = velero::ValidLabelValue(request_.backup.name);
  const Json content_labels = {{objects::kGroupNameLabel, GroupName(request_)},
                               {objects::kBackupNameLabel, backup_name}};
  Json content_patch = {{"metadata", {{"labels", content_labels}}}};
  if (const std::vector<csi::GroupMember> members = GroupMembers(group_content); !members.empty()) {
    content_patch.update(NotePatch(group_content, members), /*merge_objects=*/true);
  }
  ASSIGN_OR_RETURN(taken.content,
                   Patch(VolumeSnapshotContentKey(BoundContentName(snapshot)), content_patch));
  if (SnapshotHandle(taken.content).empty() ||
      GetString(taken.content, {"spec", "volumeSnapshotRef", "uid"}) != k8s::Uid(snapshot) ||
      GetString(taken.content, {"spec", "source", "volumeHandle"}) != member.volume_handle) {
    return absl::FailedPreconditionError(
        absl::StrCat("VolumeSnapshotContent ", k8s::Name(taken.content), " is not what ",
                     ClaimText(request_, member.name), " has in ", ToString(request_)));
  }
  if (MemberGroupName(snapshot) == GroupName(request_)) {
    return taken;
  }
  const Json labels = {{objects::kBackupNameLabel, backup_name},
                       {objects::kBackupUidLabel, request_.backup.uid},
                       {objects::kPvcUidLabel, member.uid},
                       {objects::kCsiDeltaLabel, env_.velero_namespace}};
  const Json annotations = {{objects::kGroupNameLabel, GroupName(request_)}};
  ASSIGN_OR_RETURN(taken.snapshot,
                   Patch(VolumeSnapshotKey(request_.namespace_name, k8s::Name(snapshot)),
                         {{"metadata", {{"labels", labels}, {"annotations", annotations}}}}));
  return taken;
}

Json GroupMaker::NotePatch(const Json& group_content,
                           const std::vector<csi::GroupMember>& members) {
  Json patch;
  SetJson(patch, {"metadata", "annotations", objects::kGroupContentOfMemberAnnotation},
          NoteForMembers(group_content, members));
  return patch;
}

absl::StatusOr<Json> GroupMaker::Patch(const k8s::ObjectKey& key, const Json& patch) {
  Json stored;
  RETURN_IF_ERROR(RetryTransient(ctx_, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(stored, env_.api.Patch(ctx_, key, k8s::PatchKind::kMerge, patch, ""));
    return absl::OkStatus();
  }));
  return stored;
}

void GroupMaker::CleanUp() {
  const CallContext after = CleanUpContext(*ctx_.clock);
  const absl::Time give_up_at = ctx_.clock->Now() + kRefusalPatience;
  absl::Status removed = TryCleanUp(after);
  while (!removed.ok() && MayBeStarting(removed) && ctx_.clock->Now() < give_up_at) {
    ctx_.clock->SleepUntil(ctx_.clock->Now() + kRefusalPause, after.stop);
    removed = TryCleanUp(after);
  }
  if (!removed.ok()) {
    CSIDELTA_LOG(kWarn, "a volume group snapshot is left behind",
                 {"namespace", request_.namespace_name},
                 {"volume_group_snapshot", GroupName(request_)}, {"status", removed.ToString()});
  }
}

absl::Status GroupMaker::TryCleanUp(const CallContext& after) {
  const absl::StatusOr<Json> group = env_.api.Get(after, KeyOf(request_));
  // One that entered the archive is not in vain any more, whoever asks for it again.
  if (absl::IsNotFound(group.status()) ||
      (group.ok() && (!IsGroupOurs(*group, request_.backup) || GroupEnteredArchive(*group)))) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(group.status());
  return RemoveGroup(after, env_.api, *group);
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

bool IsOfAnotherBackup(const Json& archived, absl::string_view backup_name) {
  if (!k8s::Label(archived, objects::kRestoreNameLabel).empty() ||
      !k8s::Label(archived, objects::kRestoreUidLabel).empty()) {
    return false;
  }
  std::string backup = k8s::Label(archived, objects::kMemberOfBackupLabel);
  backup = backup.empty() ? k8s::Label(archived, objects::kBackupNameLabel) : backup;
  if (backup.empty()) {
    return IsGroupName(GroupOwnerName(archived));
  }
  const bool is_content = GetString(archived, {"kind"}) == VolumeSnapshotContentType().kind;
  const bool is_ours = is_content || !k8s::Label(archived, objects::kCsiDeltaLabel).empty() ||
                       !k8s::Label(archived, objects::kGroupNameLabel).empty();
  return is_ours && backup != velero::ValidLabelValue(backup_name);
}

bool IsGroupMadeByUs(const Json& group) {
  return !k8s::Label(group, objects::kCsiDeltaLabel).empty() &&
         k8s::Name(group) ==
             NameFor(k8s::Label(group, objects::kBackupUidLabel), k8s::Namespace(group),
                     k8s::Annotation(group, objects::kGroupOfAnnotation),
                     k8s::Annotation(group, objects::kGroupToBeMovedAnnotation) == "true");
}

bool IsGroupOurs(const Json& group, const velero::Backup& backup) {
  return !backup.uid.empty() && k8s::Label(group, objects::kBackupUidLabel) == backup.uid &&
         IsGroupMadeByUs(group);
}

std::vector<GroupClaim> PlannedMembers(const Json& group) {
  std::vector<GroupClaim> members;
  const absl::StatusOr<Json> plan =
      ParseJson(k8s::Annotation(group, objects::kGroupMembersAnnotation));
  if (!plan.ok() || !plan->is_array()) {
    return members;
  }
  for (const Json& member : *plan) {
    members.push_back({.name = GetString(member, {"claim"}),
                       .uid = GetString(member, {"claimUid"}),
                       .volume_handle = GetString(member, {"volumeHandle"}),
                       .snapshot_handle = GetString(member, {"snapshotHandle"})});
  }
  return members;
}

std::optional<absl::Duration> FreezeWindow(const Json& group) {
  const auto asked_at = ParseRfc3339(k8s::Annotation(group, objects::kAskedAtAnnotation));
  const auto answered_at = ParseRfc3339(k8s::Annotation(group, objects::kAnsweredAtAnnotation));
  if (!asked_at.has_value() || !answered_at.has_value() || *answered_at < *asked_at) {
    return std::nullopt;
  }
  return *answered_at - *asked_at;
}

absl::StatusOr<TakenGroup> TakeGroup(const CallContext& ctx, const Environment& env,
                                     const GroupRequest& request) {
  const TurnRequest turn_request{
      .lease_namespace = env.velero_namespace,
      .claim_namespace = request.namespace_name,
      .claim_name = request.label_value,
      .claim_uid = absl::StrCat("group-", HashOfGroup(request).substr(0, kNameHashBytes)),
      .backup_name = request.backup.name,
      .backup_uid = request.backup.uid,
      .holder = absl::StrCat(request.backup.uid, "_", absl::Hex(env.random.Below(UINT64_MAX))),
      .subject = "volume group"};
  std::set<std::string> claims;
  for (const GroupClaim& member : request.members) {
    claims.insert(member.name);
  }
  const OtherSnapshots others{.namespace_name = request.namespace_name,
                              .concerns =
                                  [&](const Json& snapshot) {
                                    return claims.contains(SourceClaimName(snapshot)) &&
                                           GroupOwnerName(snapshot) != GroupName(request);
                                  },
                              .ours_too = true,  // Those of single claims have turns of their own.
                              .of = ToString(request)};
  const CallContext waiting =
      ctx.WithTimeout(std::max(request.backup.csi_snapshot_timeout, 2 * kTurnDuration));
  while (true) {
    ASSIGN_OR_RETURN(VolumeTurn turn, VolumeTurn::Take(waiting, env.api, turn_request));
    const absl::Status alone = AwaitOthers(waiting, env, others, turn);
    absl::StatusOr<TakenGroup> taken =
        alone.ok() ? GroupMaker(ctx, env, request, turn).Make() : absl::StatusOr<TakenGroup>(alone);
    if (const absl::Status released = turn.Release(CleanUpContext(*ctx.clock), env.api);
        !released.ok()) {
      CSIDELTA_LOG(kInfo, "the group's turn is left to run out", {"status", released.ToString()});
    }
    if (!turn.lost() || !absl::IsAborted(alone)) {
      return taken;
    }
  }
}

absl::Status UnmarkClaim(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& claim,
                         const std::string& mark) {
  const std::string path = absl::StrCat(
      "/metadata/labels/", absl::StrReplaceAll(objects::kGroupMarkLabel, {{"/", "~1"}}));
  const Json patch = Json::array(
      {{{"op", "test"}, {"path", path}, {"value", mark}}, {{"op", "remove"}, {"path", path}}});
  const absl::Status status = RetryTransient(
      ctx, [&] { return api.Patch(ctx, claim, k8s::PatchKind::kJson, patch, "").status(); });
  return absl::IsInvalidArgument(status) || absl::IsNotFound(status) ? absl::OkStatus() : status;
}

}  // namespace csidelta::csi
