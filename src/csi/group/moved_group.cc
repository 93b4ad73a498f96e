#include "csi/group/moved_group.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/base_snapshots.h"
#include "csi/content_deletion.h"
#include "csi/deletion_proof.h"
#include "csi/driver_error.h"
#include "csi/drop.h"
#include "csi/lock.h"
#include "csi/retry.h"
#include "csi/static_content.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/keys.h"

namespace csidelta::csi {
namespace {

using objects::GroupKinds;
using objects::MovedGroupMember;
using objects::MovedGroupPlan;
using objects::VolumeGroupSnapshot;
using objects::VolumeGroupSnapshotContent;
using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

constexpr char kRecordPrefix[] = "csi-delta-group-";
constexpr absl::Duration kRecordOrphanedAfter = absl::Hours(1);
constexpr absl::Duration kSidecarGracePeriod = absl::Seconds(5);

std::string RecordName(absl::string_view driver, absl::string_view handle) {
  return absl::StrCat(kRecordPrefix, DigestOfHandle(driver, handle));
}

// Has the driver delete the group of a record, and the record with it.
absl::Status DeleteRecord(const CallContext& ctx, const Environment& env, const std::string& name) {
  ASSIGN_OR_RETURN(const GroupKinds kinds, objects::FindGroupKinds(ctx, env.api));
  const k8s::ObjectKey key = VolumeGroupSnapshotContent::Key(kinds.version, "", name);
  ASSIGN_OR_RETURN(const auto record, objects::Find<VolumeGroupSnapshotContent>(ctx, env.api, key));
  if (!record.has_value() || record->is_being_deleted()) {
    return absl::OkStatus();
  }
  const auto secret =
      record->DeletionSecret(GroupClassOf(kinds.classes, record->driver(), record->class_name()));
  RETURN_IF_ERROR(
      SetPolicy(ctx, env.api, key, Data::kDelete, objects::Patch().SetAnnotations(secret))
          .status());
  if (record->handle().empty()) {
    RETURN_IF_ERROR(WriteHandle(ctx, env, key, record->handle_or_source(), kSidecarGracePeriod));
  }
  return DeleteObject(ctx, env.api, IdOf(*record));
}

// --- The plan: what is needed to go on once the group's own objects may be gone

MovedGroupPlan MakePlan(const GroupRequest& request, const TakenGroup& taken) {
  MovedGroupPlan plan{.namespace_name = request.namespace_name,
                      .label_key = request.label_key,
                      .label_value = request.label_value,
                      .group = taken.group.Essence(),
                      .content = taken.content,
                      .members = {}};
  for (const auto& [claim_uid, member] : taken.members) {
    VolumeSnapshotContent content = member.content.Essence();
    for (const auto& [key, value] : DeletionSecretAnnotations(member.content)) {
      content.SetAnnotation(key, value);
    }
    plan.members[claim_uid] = {.pvc = member.snapshot.source_pvc(), .content = std::move(content)};
  }
  return plan;
}

// --- Adopting

// Adopts a group by its plan alone: an interrupted call has nothing else left.
class GroupAdoption {
 public:
  // `class_name`: of the group; `version`: of its kinds.
  GroupAdoption(const CallContext& ctx, const Environment& env, const objects::Backup& backup,
                MovedGroupPlan plan, std::string class_name, std::string version)
      : ctx_(ctx),
        env_(env),
        backup_(backup),
        plan_(std::move(plan)),
        group_class_(std::move(class_name)),
        version_(std::move(version)),
        driver_(plan_.content.driver()),
        record_(RecordName(driver_, plan_.content.handle_or_source())) {}
  absl::StatusOr<std::map<std::string, TakenSnapshot>> Run();

  // Makes one member of a group that has a record already.
  absl::StatusOr<TakenSnapshot> ResumeMember(const std::string& claim_uid);

 private:
  absl::StatusOr<std::map<std::string, TakenSnapshot>> Try();
  absl::Status Prepare();
  absl::StatusOr<TakenSnapshot> MakeMember(const std::string& claim_uid);

  // The controller would take a VolumeSnapshot of a member for one of the group's own, and delete
  // it with the group.
  absl::Status DetachGroup();
  absl::Status AwaitReady();
  absl::Status EnsureRecord();
  absl::Status WriteRecordHandle();
  SnapshotRequest RequestOf(const std::string& claim_uid) const;
  std::map<std::string, std::string> MemberAnnotations() const;
  absl::StatusOr<TakenSnapshot> EnsureMember(const SnapshotRequest& request);
  absl::StatusOr<VolumeSnapshotContent> EnsureContent(const SnapshotRequest& request);

  // The record has all that the driver needs, however many of the group's own objects are gone.
  absl::Status TryCleanUp(const CallContext& after);
  void CleanUp();

  const CallContext& ctx_;
  const Environment& env_;
  const objects::Backup& backup_;
  const MovedGroupPlan plan_;
  const std::string group_class_;
  const std::string version_;
  const std::string driver_;
  const std::string record_;
  std::string class_name_;  // of the members
};

absl::StatusOr<std::map<std::string, TakenSnapshot>> GroupAdoption::Run() {
  absl::StatusOr<std::map<std::string, TakenSnapshot>> made = Try();
  if (!made.ok()) {
    CleanUp();
  }
  return made;
}

absl::StatusOr<TakenSnapshot> GroupAdoption::ResumeMember(const std::string& claim_uid) {
  CSIDELTA_CHECK(plan_.members.contains(claim_uid));
  RETURN_IF_ERROR(WriteRecordHandle());
  RETURN_IF_ERROR(Prepare());
  return MakeMember(claim_uid);
}

absl::StatusOr<std::map<std::string, TakenSnapshot>> GroupAdoption::Try() {
  RETURN_IF_ERROR(AwaitReady());
  RETURN_IF_ERROR(RetryTransient(ctx_, [&] { return EnsureRecord(); }));
  RETURN_IF_ERROR(Prepare());
  std::map<std::string, TakenSnapshot> made;
  for (const auto& [claim_uid, member] : plan_.members) {
    ASSIGN_OR_RETURN(made[claim_uid], MakeMember(claim_uid));
  }
  return made;
}

absl::Status GroupAdoption::Prepare() {
  ASSIGN_OR_RETURN(const auto classes, ListSnapshotClasses(ctx_, env_));
  class_name_ = ClassOfDriver(classes, driver_, "");
  return DetachGroup();
}

absl::StatusOr<TakenSnapshot> GroupAdoption::MakeMember(const std::string& claim_uid) {
  const SnapshotRequest request = RequestOf(claim_uid);
  return RetryTransient(ctx_, [&] { return EnsureMember(request); });
}

absl::Status GroupAdoption::DetachGroup() {
  RETURN_IF_ERROR(DropSnapshot(ctx_, env_.api, plan_.group, Data::kRetain));
  return objects::WaitFor<VolumeGroupSnapshot>(
      ctx_.WithTimeout(backup_.csi_snapshot_timeout()), env_.api, plan_.group.key(),
      [&](const VolumeGroupSnapshot* group) -> absl::StatusOr<bool> {
        return group == nullptr || group->uid() != plan_.group.uid();
      });
}

absl::Status GroupAdoption::AwaitReady() {
  const absl::Duration grace_period = backup_.csi_snapshot_timeout();
  DriverErrors errors(*ctx_.clock,
                      absl::StrCat("volume group ", plan_.namespace_name, "/", plan_.label_value,
                                   ", which is to be moved,"),
                      grace_period, {}, "ready");
  const absl::Status status = objects::WaitFor<VolumeGroupSnapshot>(
      ctx_.WithTimeout(grace_period), env_.api, plan_.group.key(),
      [&](const VolumeGroupSnapshot* group) -> absl::StatusOr<bool> {
        if (group == nullptr || group->uid() != plan_.group.uid() || group->is_being_deleted()) {
          return absl::NotFoundError(absl::StrCat("VolumeGroupSnapshot ", plan_.group.name(),
                                                  " was deleted by another client"));
        }
        RETURN_IF_ERROR(errors.Check(group->error_message()));
        return group->is_ready();
      });
  return errors.Explain(status);
}

absl::Status GroupAdoption::EnsureRecord() {
  std::vector<std::string> handles;
  for (const auto& [claim_uid, member] : plan_.members) {
    handles.push_back(member.content.handle());
  }
  std::map<std::string, std::string> annotations = plan_.content.DeletionSecret(nullptr);
  annotations[objects::kGroupBackupAnnotation] = backup_.name();
  annotations[objects::kGroupPlanAnnotation] = objects::FormatMovedGroupPlan(plan_);
  const StaticContent record = {
      .version = version_,
      .name = record_,
      .driver = driver_,
      .handle = plan_.content.handle_or_source(),
      .member_handles = std::move(handles),
      .snapshot_namespace = env_.velero_namespace,
      .snapshot_name = record_,
      .class_name = group_class_,
      .labels = {{objects::kMovedGroupLabel, record_},
                 {objects::kBackupUidLabel, backup_.uid()},
                 {objects::kCsiDeltaLabel, env_.velero_namespace}},
      .annotations = std::move(annotations),
      // Nothing is bound to it, so the snapshot controller would not protect it.
      .finalizers = {objects::kGroupContentBoundProtectionFinalizer}};
  RETURN_IF_ERROR(EnsureStaticContent(ctx_, env_.api, record));
  return WriteRecordHandle();
}

absl::Status GroupAdoption::WriteRecordHandle() {
  return WriteHandle(ctx_, env_, VolumeGroupSnapshotContent::Key(version_, "", record_),
                     plan_.content.handle_or_source(), kSidecarGracePeriod);
}

SnapshotRequest GroupAdoption::RequestOf(const std::string& claim_uid) const {
  return {.backup = backup_,
          .claim_namespace = plan_.namespace_name,
          .claim_name = plan_.members.at(claim_uid).pvc,
          .claim_uid = claim_uid,
          .class_name = class_name_};
}

std::map<std::string, std::string> GroupAdoption::MemberAnnotations() const {
  std::map<std::string, std::string> annotations;
  annotations[objects::kMovedGroupNameAnnotation] =
      absl::StrCat(plan_.namespace_name, "/", plan_.label_value);
  annotations[objects::kGroupOfAnnotation] = absl::StrCat(plan_.label_key, "=", plan_.label_value);
  annotations[objects::kMovedGroupSnapshotAnnotation] = plan_.group.name();
  annotations[objects::kMovedGroupSizeAnnotation] = absl::StrCat(plan_.members.size());
  if (const auto snapshot_taken_at = plan_.content.taken_at(); snapshot_taken_at.has_value()) {
    annotations[objects::kMovedGroupTakenAtAnnotation] = FormatRfc3339(*snapshot_taken_at);
  }
  return annotations;
}

absl::StatusOr<TakenSnapshot> GroupAdoption::EnsureMember(const SnapshotRequest& request) {
  TakenSnapshot made;
  ASSIGN_OR_RETURN(made.content, EnsureContent(request));
  auto snapshot = VolumeSnapshot::Make(request.claim_namespace, SnapshotName(request));
  snapshot.SetLabels(LabelsOf(env_, request.backup));
  snapshot.SetLabel(objects::kPvcUidLabel, request.claim_uid);
  snapshot.SetAnnotation(objects::kMemberClaimAnnotation, request.claim_name);
  snapshot.SetSourceContent(made.content.name());
  if (!request.class_name.empty()) {
    snapshot.SetClassName(request.class_name);
  }
  ASSIGN_OR_RETURN(made.snapshot, objects::CreateOrGet(ctx_, env_.api, snapshot));
  return IsManaged(made.snapshot, request.backup)
             ? absl::StatusOr<TakenSnapshot>(std::move(made))
             : absl::AlreadyExistsError(absl::StrCat("VolumeSnapshot ", request.claim_namespace,
                                                     "/", snapshot.name(),
                                                     " is not of this backup"));
}

absl::StatusOr<VolumeSnapshotContent> GroupAdoption::EnsureContent(const SnapshotRequest& request) {
  const MovedGroupMember& member = plan_.members.at(request.claim_uid);
  StaticContent content = ContentBeside(member.content);
  content.name = SnapshotName(request);
  content.driver = driver_;
  content.snapshot_namespace = request.claim_namespace;
  content.snapshot_name = content.name;
  content.class_name = request.class_name;
  content.labels.insert(
      {{objects::kMovedGroupLabel, record_}, {objects::kBackupUidLabel, backup_.uid()}});
  content.annotations.merge(MemberAnnotations());
  RETURN_IF_ERROR(EnsureStaticContent(ctx_, env_.api, content));
  // For drivers that cannot list snapshots: their sidecar would not know it.
  ASSIGN_OR_RETURN(auto stored,
                   objects::Apply<VolumeSnapshotContent>(
                       ctx_, env_.api, VolumeSnapshotContent::Key("", content.name),
                       objects::Patch().SetTaken(content.handle, member.content.taken_at(),
                                                 member.content.restore_size_bytes()),
                       "status"));
  if (stored.handle_or_source() != content.handle || MovedGroupOf(stored) != record_) {
    return absl::AlreadyExistsError(
        absl::StrCat("VolumeSnapshotContent ", content.name, " is not of this volume group"));
  }
  return stored;
}

absl::Status GroupAdoption::TryCleanUp(const CallContext& after) {
  for (const auto& [claim_uid, member] : plan_.members) {
    const std::string name = SnapshotName(RequestOf(claim_uid));
    const k8s::ObjectKey key = VolumeSnapshot::Key(plan_.namespace_name, name);
    ASSIGN_OR_RETURN(const auto snapshot, objects::Find<VolumeSnapshot>(after, env_.api, key));
    if (snapshot.has_value() && IsManaged(*snapshot, backup_)) {
      RETURN_IF_ERROR(DeleteObject(after, env_.api, IdOf(*snapshot)));
    }
    ASSIGN_OR_RETURN(const auto content,
                     objects::Find<VolumeSnapshotContent>(after, env_.api, "", name));
    if (content.has_value() && MovedGroupOf(*content) == record_) {
      RETURN_IF_ERROR(DropContent(after, env_.api, IdOf(*content), std::nullopt, Data::kRetain));
    }
  }
  RETURN_IF_ERROR(DeleteRecord(after, env_, record_));
  // Some may have been retained before the rest could be.
  for (const auto& [claim_uid, member] : plan_.members) {
    RETURN_IF_ERROR(SetPolicy(after, env_.api, member.content.key(), Data::kDelete).status());
  }
  return DropSnapshot(after, env_.api, plan_.group, Data::kDelete);
}

void GroupAdoption::CleanUp() {
  const CallContext after = CleanUpContext(*ctx_.clock);
  const absl::Status removed = RetryTransient(after, [&] { return TryCleanUp(after); });
  if (!removed.ok()) {
    CSIDELTA_LOG(kWarn, "a volume group snapshot is left behind",
                 {"namespace", plan_.namespace_name}, {"volume_group_snapshot", plan_.group.name()},
                 {"volume_group_snapshot_content", record_}, {"status", removed.ToString()});
  }
}

// --- Releasing members

bool IsBase(const VolumeSnapshotContent& content) {
  return content.Label(objects::kBaseLabel) == "true";
}

using Members = std::vector<const VolumeSnapshotContent*>;  // of one group

// A base of the group, by which the group replaces older ones; null if a member is still being
// moved, or none was.
const VolumeSnapshotContent* Successor(const Members& members) {
  const VolumeSnapshotContent* base = nullptr;
  for (const VolumeSnapshotContent* const member : members) {
    if (!IsBase(*member) && !HasBeenGivenUp(*member)) {
      return nullptr;
    }
    base = IsBase(*member) ? member : base;
  }
  return base;
}

// True if `base` replaces `other`: same label, same location, taken later.
bool IsReplacedBy(const VolumeSnapshotContent& other, const VolumeSnapshotContent& base) {
  const std::optional<MovedGroup> old_group = ReadMovedGroup(other);
  const std::optional<MovedGroup> new_group = ReadMovedGroup(base);
  const BaseOwner old_owner = ReadBase(other).owner;
  const BaseOwner new_owner = ReadBase(base).owner;
  return old_group.has_value() && new_group.has_value() && old_group->label == new_group->label &&
         old_group->name == new_group->name &&
         old_owner.velero_namespace == new_owner.velero_namespace &&
         old_owner.location == new_owner.location && old_owner.cluster == new_owner.cluster &&
         old_group->snapshot_taken_at.has_value() && new_group->snapshot_taken_at.has_value() &&
         *old_group->snapshot_taken_at < *new_group->snapshot_taken_at;
}

// True if the backup of a record is over. If the backup is gone, the record's age counts.
absl::StatusOr<bool> IsOver(const CallContext& ctx, const Environment& env,
                            const VolumeGroupSnapshotContent& record, absl::Time made) {
  const bool is_old = ctx.clock->Now() - made >= kRecordOrphanedAfter;
  const std::string name = record.Annotation(objects::kGroupBackupAnnotation);
  if (name.empty()) {
    return is_old;
  }
  ASSIGN_OR_RETURN(const auto found,
                   objects::Find<objects::Object>(
                       ctx, env.api, {objects::Backup::Type(), env.velero_namespace, name}));
  if (!found.has_value() || found->uid() != record.Label(objects::kBackupUidLabel)) {
    return is_old;
  }
  const absl::StatusOr<objects::Backup> backup = objects::Backup::Parse(*found);
  return backup.ok() && backup->is_finished();
}

// Gives up a member for which no VolumeSnapshot was made, or whose VolumeSnapshot went without it.
// The mover itself gives up what it made of a member.
absl::Status GiveUpOrphaned(const CallContext& ctx, const Environment& env,
                            const VolumeGroupSnapshotContent& record,
                            const VolumeSnapshotContent& member) {
  const std::string backup_uid = member.Label(objects::kBackupUidLabel);
  if (backup_uid.empty() || backup_uid != record.Label(objects::kBackupUidLabel) ||
      IsBase(member) || HasBeenGivenUp(member) || member.is_being_deleted()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const auto found,
                   objects::Find<VolumeSnapshot>(ctx, env.api, member.snapshot_namespace(),
                                                 member.snapshot_name()));
  return found.has_value() ? absl::OkStatus() : GiveUpMember(ctx, env.api, member);
}

absl::Status GiveUpReplaced(const CallContext& ctx, k8s::ApiClient& api,
                            const std::vector<VolumeSnapshotContent>& contents,
                            const VolumeSnapshotContent& base) {
  for (const VolumeSnapshotContent& content : contents) {
    if (MovedGroupOf(content) != MovedGroupOf(base) && IsBase(content) &&
        IsReplacedBy(content, base)) {
      CSIDELTA_LOG(kInfo, "the base of a claim that fell behind its volume group is released",
                   {"volume_group", ReadMovedGroup(content)->name},
                   {"pvc", ReadBase(content).owner.claim},
                   {"volume_snapshot_content", content.name()});
      RETURN_IF_ERROR(GiveUpMember(ctx, api, content));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string MovedGroupOf(const objects::Object& content) {
  return content.Label(objects::kMovedGroupLabel);
}

bool HasBeenGivenUp(const VolumeSnapshotContent& content) {
  return !MovedGroupOf(content).empty() && content.Label(objects::kReleasedLabel) == "true";
}

std::optional<MovedGroup> ReadMovedGroup(const VolumeSnapshotContent& content) {
  if (MovedGroupOf(content).empty()) {
    return std::nullopt;
  }
  MovedGroup group = {
      .name = content.Annotation(objects::kMovedGroupNameAnnotation),
      .label = content.Annotation(objects::kGroupOfAnnotation),
      .snapshot = content.Annotation(objects::kMovedGroupSnapshotAnnotation),
      .snapshot_taken_at = ParseRfc3339(content.Annotation(objects::kMovedGroupTakenAtAnnotation))};
  if (!absl::SimpleAtoi(content.Annotation(objects::kMovedGroupSizeAnnotation), &group.members)) {
    group.members = 0;
  }
  return group;
}

std::map<std::string, std::string> MovedGroupLabels(const VolumeSnapshotContent& content) {
  const std::string record = MovedGroupOf(content);
  return record.empty() ? std::map<std::string, std::string>()
                        : std::map<std::string, std::string>{{objects::kMovedGroupLabel, record}};
}

std::map<std::string, std::string> MovedGroupAnnotations(const VolumeSnapshotContent& content) {
  std::map<std::string, std::string> annotations;
  for (const char* const key :
       {objects::kMovedGroupNameAnnotation, objects::kGroupOfAnnotation,
        objects::kMovedGroupSnapshotAnnotation, objects::kMovedGroupSizeAnnotation,
        objects::kMovedGroupTakenAtAnnotation}) {
    if (const std::string value = content.Annotation(key); !value.empty()) {
      annotations.emplace(key, value);
    }
  }
  return annotations;
}

absl::StatusOr<std::map<std::string, TakenSnapshot>> AdoptGroup(const CallContext& ctx,
                                                                const Environment& env,
                                                                const GroupRequest& request,
                                                                const TakenGroup& taken) {
  return GroupAdoption(ctx, env, request.backup, MakePlan(request, taken), request.class_name,
                       request.version)
      .Run();
}

absl::StatusOr<std::optional<TakenSnapshot>> FindAdopted(const CallContext& ctx,
                                                         const Environment& env,
                                                         const SnapshotRequest& request) {
  ASSIGN_OR_RETURN(
      auto snapshot,
      objects::Find<VolumeSnapshot>(ctx, env.api, request.claim_namespace, SnapshotName(request)));
  if (!snapshot.has_value() || !IsManaged(*snapshot, request.backup) ||
      snapshot->is_being_deleted() ||
      snapshot->Annotation(objects::kMemberClaimAnnotation) != request.claim_name) {
    return std::optional<TakenSnapshot>();
  }
  ASSIGN_OR_RETURN(auto content,
                   objects::Find<VolumeSnapshotContent>(ctx, env.api, "", snapshot->name()));
  if (!content.has_value() || MovedGroupOf(*content).empty() || content->is_being_deleted()) {
    return std::optional<TakenSnapshot>();
  }
  return std::optional(
      TakenSnapshot{.snapshot = *std::move(snapshot), .content = *std::move(content)});
}

absl::StatusOr<std::optional<TakenSnapshot>> ContinueAdoption(const CallContext& ctx,
                                                              const Environment& env,
                                                              const SnapshotRequest& request,
                                                              const std::string& version) {
  ASSIGN_OR_RETURN(
      const auto records,
      objects::List<VolumeGroupSnapshotContent>(
          ctx, env.api, VolumeGroupSnapshotContent::kKind.TypeOf(version), "",
          {.label_selector = absl::StrCat(objects::kMovedGroupLabel, ",", objects::kBackupUidLabel,
                                          "=", request.backup.uid())}));
  for (const VolumeGroupSnapshotContent& record : records) {
    std::optional<MovedGroupPlan> plan = objects::ParseMovedGroupPlan(record);
    if (!plan.has_value() || record.is_being_deleted() ||
        plan->namespace_name != request.claim_namespace ||
        !plan->members.contains(request.claim_uid)) {
      continue;
    }
    CSIDELTA_LOG(kInfo, "the interrupted adoption of a volume group continues",
                 {"namespace", request.claim_namespace}, {"pvc", request.claim_name},
                 {"volume_group_snapshot_content", record.name()});
    ASSIGN_OR_RETURN(TakenSnapshot made, GroupAdoption(ctx, env, request.backup, *std::move(plan),
                                                       record.class_name(), version)
                                             .ResumeMember(request.claim_uid));
    return std::optional(std::move(made));
  }
  return std::optional<TakenSnapshot>();
}

absl::StatusOr<bool> DeleteOrphanedRecord(const CallContext& ctx, const Environment& env,
                                          const VolumeGroupSnapshotContent& record) {
  const auto made = record.created_at();
  if (!made.has_value() || record.is_being_deleted()) {
    return false;
  }
  ASSIGN_OR_RETURN(const bool is_over, IsOver(ctx, env, record, *made));
  if (!is_over) {
    return false;
  }
  ASSIGN_OR_RETURN(
      const auto members,
      objects::List<VolumeSnapshotContent>(
          ctx, env.api, "",
          {.label_selector = absl::StrCat(objects::kMovedGroupLabel, "=", MovedGroupOf(record))}));
  for (const VolumeSnapshotContent& member : members) {
    RETURN_IF_ERROR(GiveUpOrphaned(ctx, env, record, member));
  }
  if (!members.empty()) {
    return false;
  }
  RETURN_IF_ERROR(DeleteRecord(ctx, env, record.name()));
  return true;
}

absl::Status FinalizeMovedGroup(const CallContext& ctx, const Environment& env,
                                const VolumeSnapshotContent& content) {
  const std::string record = MovedGroupOf(content);
  ASSIGN_OR_RETURN(const auto contents,
                   objects::List<VolumeSnapshotContent>(
                       ctx, env.api, "", {.label_selector = objects::kMovedGroupLabel}));
  Members members;
  for (const VolumeSnapshotContent& one : contents) {
    if (MovedGroupOf(one) == record && !one.is_being_deleted()) {
      members.push_back(&one);
    }
  }
  if (record.empty() || members.empty()) {
    return absl::OkStatus();
  }
  if (const VolumeSnapshotContent* const base = Successor(members); base != nullptr) {
    return GiveUpReplaced(ctx, env.api, contents, *base);
  }
  if (!std::all_of(members.begin(), members.end(),
                   [](const auto* member) { return HasBeenGivenUp(*member); })) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(Annotate(DeleteRecord(ctx, env, record),
                           absl::StrCat("delete the volume group of ", record)));
  CSIDELTA_LOG(kInfo, "the driver is asked to delete a volume group that is not needed any more",
               {"volume_group", ReadMovedGroup(content)->name},
               {"volume_group_snapshot_content", record},
               {"members", absl::StrCat(members.size())});
  for (const VolumeSnapshotContent* const member : members) {
    RETURN_IF_ERROR(DropContent(ctx, env.api, IdOf(*member), std::nullopt, Data::kRetain));
  }
  return absl::OkStatus();
}

}  // namespace csidelta::csi
