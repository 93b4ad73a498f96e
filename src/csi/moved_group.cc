#include "csi/moved_group.h"

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/backup_contents.h"
#include "csi/base_snapshots.h"
#include "csi/group_removal.h"
#include "csi/group_types.h"
#include "csi/retry.h"
#include "csi/snapshot_types.h"
#include "csi/static_content.h"
#include "csi/static_group.h"
#include "csi/turn_wait.h"
#include "k8s/find.h"
#include "k8s/object.h"
#include "k8s/wait.h"
#include "objects/keys.h"
#include "velero/backup.h"
#include "velero/labels.h"

namespace csidelta::csi {
namespace {

constexpr char kRecordPrefix[] = "csi-delta-group-";
constexpr size_t kRecordHashDigits = 32;
constexpr absl::Duration kRecordInVainAfter = absl::Hours(1);
constexpr absl::Duration kSidecarPatience = absl::Seconds(5);

std::string RecordName(absl::string_view driver, absl::string_view handle) {
  return absl::StrCat(kRecordPrefix,
                      Sha256Hex(absl::StrCat(driver, "/", handle)).substr(0, kRecordHashDigits));
}

// Removes the content of a member; the driver keeps the snapshot.
absl::Status ForgetContent(const CallContext& ctx, k8s::ApiClient& api, const Json& content) {
  const k8s::ObjectKey key = VolumeSnapshotContentKey(k8s::Name(content));
  Json patch = {{"spec", {{"deletionPolicy", "Retain"}}}};
  SetJson(patch, {"metadata", "annotations", objects::kContentBeingDeletedAnnotation}, "yes");
  RETURN_IF_ERROR(
      k8s::IgnoreNotFound(api.Patch(ctx, key, k8s::PatchKind::kMerge, patch, "").status()));
  return k8s::IgnoreNotFound(
      api.Delete(ctx, key, {.uid = k8s::Uid(content), .resource_version = ""}));
}

// Has the driver delete the group of a record, and the record with it.
absl::Status DeleteRecord(const CallContext& ctx, const Environment& env, const std::string& name) {
  ASSIGN_OR_RETURN(const GroupKinds kinds, FindGroupKinds(ctx, env.api));
  const k8s::ObjectKey key = GroupContentKey(kinds.version, name);
  ASSIGN_OR_RETURN(const std::optional<Json> record, k8s::Find(ctx, env.api, key));
  if (!record.has_value() || k8s::BeingDeleted(*record)) {
    return absl::OkStatus();
  }
  const Json* const group_class =
      GroupClassOf(kinds.classes, GetString(*record, {"spec", "driver"}),
                   GetString(*record, {"spec", "volumeGroupSnapshotClassName"}));
  Json patch = {{"spec", {{"deletionPolicy", "Delete"}}}};
  if (const auto secret = GroupDeletionSecret(*record, group_class); !secret.empty()) {
    SetJson(patch, {"metadata", "annotations"}, secret);
  }
  RETURN_IF_ERROR(
      k8s::IgnoreNotFound(env.api.Patch(ctx, key, k8s::PatchKind::kMerge, patch, "").status()));
  if (GetString(*record, {"status", "volumeGroupSnapshotHandle"}).empty()) {
    RETURN_IF_ERROR(WriteHandle(ctx, env, key, "volumeGroupSnapshotHandle", GroupHandleOf(*record),
                                kSidecarPatience));
  }
  return k8s::IgnoreNotFound(
      env.api.Delete(ctx, key, {.uid = k8s::Uid(*record), .resource_version = ""}));
}

// --- The plan: what is needed to go on once the group's own objects may be gone

Json Pick(const Json& from, std::initializer_list<const char*> keys) {
  Json picked = Json::object();
  for (const char* const key : keys) {
    if (const Json* const value = FindJson(from, {key}); value != nullptr) {
      picked[key] = *value;
    }
  }
  return picked;
}

Json PickAt(const Json& object, const char* at, std::initializer_list<const char*> keys) {
  const Json* const found = FindJson(object, {at});
  return found == nullptr ? Json::object() : Pick(*found, keys);
}

std::string MakePlan(const GroupRequest& request, const TakenGroup& taken) {
  Json members = Json::object();
  for (const auto& [claim_uid, member] : taken.members) {
    Json content = {{"metadata", PickAt(member.content, "metadata", {"name"})},
                    {"status", PickAt(member.content, "status",
                                      {"snapshotHandle", "creationTime", "restoreSize"})}};
    for (const auto& [key, value] : DeletionSecretAnnotations(member.content)) {
      SetJson(content, {"metadata", "annotations", key}, value);
    }
    if (const std::string node = k8s::Label(member.content, objects::kManagedByLabel);
        !node.empty()) {
      SetJson(content, {"metadata", "labels", objects::kManagedByLabel}, node);
    }
    members[claim_uid] = {{"claim", SourceClaimName(member.snapshot)}, {"content", content}};
  }
  Json group = Pick(taken.group, {"apiVersion", "kind"});
  group["metadata"] = PickAt(taken.group, "metadata", {"name", "namespace", "uid"});
  group["status"] = PickAt(taken.group, "status", {"boundVolumeGroupSnapshotContentName"});
  return DumpJson({{"namespace", request.namespace_name},
                   {"labelKey", request.label_key},
                   {"labelValue", request.label_value},
                   {"creationTime", GetString(taken.content, {"status", "creationTime"})},
                   {"group", group},
                   {"members", members}});
}

struct GroupPlan {
  GroupRequest request;
  TakenGroup taken;  // of all objects only what is needed
};

// The plan in a record; nothing where it has none that fits what the driver was told.
std::optional<GroupPlan> ReadPlan(const Json& record, const velero::Backup& backup,
                                  const std::string& version) {
  const absl::StatusOr<Json> told =
      ParseJsonObject(k8s::Annotation(record, objects::kGroupPlanAnnotation));
  const Json* const members = told.ok() ? FindJson(*told, {"members"}) : nullptr;
  const Json* const group = told.ok() ? FindJson(*told, {"group"}) : nullptr;
  if (members == nullptr || !members->is_object() || group == nullptr) {
    return std::nullopt;
  }
  GroupPlan plan{
      .request = {.backup = backup,
                  .namespace_name = GetString(*told, {"namespace"}),
                  .label_key = GetString(*told, {"labelKey"}),
                  .label_value = GetString(*told, {"labelValue"}),
                  .class_name = GetString(record, {"spec", "volumeGroupSnapshotClassName"}),
                  .version = version,
                  .to_be_moved = true,
                  .members = {}},
      .taken = {.group = *group, .content = Json::object(), .members = {}}};
  SetJson(plan.taken.content, {"spec", "driver"}, GetString(record, {"spec", "driver"}));
  plan.taken.content["status"] = {{"volumeGroupSnapshotHandle", GroupHandleOf(record)},
                                  {"creationTime", GetString(*told, {"creationTime"})}};
  const std::vector<GroupMember> known = GroupMembers(record);
  for (const auto& [claim_uid, member] : members->items()) {
    const Json* const content = FindJson(member, {"content"});
    if (content == nullptr ||
        std::none_of(known.begin(), known.end(), [content](const GroupMember& one) {
          return one.snapshot_handle == SnapshotHandle(*content);
        })) {
      return std::nullopt;
    }
    TakenSnapshot& single = plan.taken.members[claim_uid];
    single.content = *content;
    SetJson(single.snapshot, {"spec", "source", "persistentVolumeClaimName"},
            GetString(member, {"claim"}));
  }
  return plan;
}

// --- Handing over

class GroupHandOver {
 public:
  GroupHandOver(const CallContext& ctx, const Environment& env, const GroupRequest& request,
                const TakenGroup& taken);
  absl::StatusOr<std::map<std::string, TakenSnapshot>> Run();

  // Makes one member of a group that has a record already.
  absl::StatusOr<TakenSnapshot> GoOnWith(const std::string& claim_uid);

 private:
  absl::StatusOr<std::map<std::string, TakenSnapshot>> Try();
  absl::Status Prepare();
  absl::StatusOr<TakenSnapshot> MakeMember(const std::string& claim_uid,
                                           const TakenSnapshot& member);

  // The controller would take a VolumeSnapshot of a member for one of the group's own, and delete
  // it with the group.
  absl::Status ForgetGroup();
  absl::Status AwaitReady();
  absl::Status EnsureRecord();
  absl::Status WriteRecordHandle();
  std::map<std::string, std::string> RecordAnnotations() const;
  SnapshotRequest RequestOf(const std::string& claim_uid, const TakenSnapshot& member) const;
  std::map<std::string, std::string> Annotations(const Json& member_content) const;
  absl::StatusOr<TakenSnapshot> EnsureMember(const SnapshotRequest& request,
                                             const TakenSnapshot& member);
  absl::StatusOr<Json> EnsureContent(const SnapshotRequest& request, const TakenSnapshot& member);

  // The record knows all that the driver needs, however far the group's own objects are gone.
  absl::Status TryCleanUp(const CallContext& after);
  void CleanUp();

  const CallContext& ctx_;
  const Environment& env_;
  const GroupRequest& request_;
  const TakenGroup& taken_;
  const std::string driver_;
  const std::string record_;
  std::string class_name_;
};

GroupHandOver::GroupHandOver(const CallContext& ctx, const Environment& env,
                             const GroupRequest& request, const TakenGroup& taken)
    : ctx_(ctx),
      env_(env),
      request_(request),
      taken_(taken),
      driver_(GetString(taken.content, {"spec", "driver"})),
      record_(RecordName(driver_, GroupHandleOf(taken.content))) {}

absl::StatusOr<std::map<std::string, TakenSnapshot>> GroupHandOver::Run() {
  absl::StatusOr<std::map<std::string, TakenSnapshot>> made = Try();
  if (!made.ok()) {
    CleanUp();
  }
  return made;
}

absl::StatusOr<TakenSnapshot> GroupHandOver::GoOnWith(const std::string& claim_uid) {
  RETURN_IF_ERROR(WriteRecordHandle());
  RETURN_IF_ERROR(Prepare());
  return MakeMember(claim_uid, taken_.members.at(claim_uid));
}

absl::StatusOr<std::map<std::string, TakenSnapshot>> GroupHandOver::Try() {
  RETURN_IF_ERROR(AwaitReady());
  RETURN_IF_ERROR(RetryTransient(ctx_, [&] { return EnsureRecord(); }));
  RETURN_IF_ERROR(Prepare());
  std::map<std::string, TakenSnapshot> made;
  for (const auto& [claim_uid, member] : taken_.members) {
    ASSIGN_OR_RETURN(made[claim_uid], MakeMember(claim_uid, member));
  }
  return made;
}

absl::Status GroupHandOver::Prepare() {
  ASSIGN_OR_RETURN(const std::vector<Json> classes, ListSnapshotClasses(ctx_, env_));
  class_name_ = ClassOfDriver(classes, driver_, "");
  return ForgetGroup();
}

absl::StatusOr<TakenSnapshot> GroupHandOver::MakeMember(const std::string& claim_uid,
                                                        const TakenSnapshot& member) {
  const SnapshotRequest request = RequestOf(claim_uid, member);
  TakenSnapshot made;
  RETURN_IF_ERROR(RetryTransient(ctx_, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(made, EnsureMember(request, member));
    return absl::OkStatus();
  }));
  return made;
}

absl::Status GroupHandOver::ForgetGroup() {
  RETURN_IF_ERROR(RetainAndForgetGroup(ctx_, env_.api, taken_.group));
  return k8s::WaitFor(ctx_.WithTimeout(request_.backup.csi_snapshot_timeout), env_.api,
                      GroupSnapshotKey(taken_.group),
                      [&](const Json* object) -> absl::StatusOr<bool> {
                        return object == nullptr || k8s::Uid(*object) != k8s::Uid(taken_.group);
                      });
}

absl::Status GroupHandOver::AwaitReady() {
  const absl::Duration patience = request_.backup.csi_snapshot_timeout;
  DriversWord word(absl::StrCat("volume group ", request_.namespace_name, "/", request_.label_value,
                                ", which is to be moved"),
                   "readiness", patience);
  const absl::Status status = k8s::WaitFor(
      ctx_.WithTimeout(patience), env_.api, GroupSnapshotKey(taken_.group),
      [&](const Json* object) -> absl::StatusOr<bool> {
        if (object == nullptr || k8s::Uid(*object) != k8s::Uid(taken_.group) ||
            k8s::BeingDeleted(*object)) {
          return absl::NotFoundError(absl::StrCat("VolumeGroupSnapshot ", k8s::Name(taken_.group),
                                                  " was deleted by somebody"));
        }
        RETURN_IF_ERROR(word.Hear(*object, ctx_.clock->Now()));
        return ReadyToUse(*object);
      });
  return word.AddTo(status);
}

absl::Status GroupHandOver::EnsureRecord() {
  std::vector<std::string> handles;
  for (const auto& [claim_uid, member] : taken_.members) {
    handles.push_back(SnapshotHandle(member.content));
  }
  const StaticGroup record = {
      .version = request_.version,
      .name = record_,
      .driver = driver_,
      .handle = GroupHandleOf(taken_.content),
      .member_handles = std::move(handles),
      .group_namespace = env_.velero_namespace,
      .group_name = record_,
      .deletion_policy = "Retain",
      .class_name = request_.class_name,
      .labels = {{objects::kMovedGroupLabel, record_},
                 {objects::kBackupUidLabel, request_.backup.uid},
                 {objects::kCsiDeltaLabel, env_.velero_namespace}},
      .annotations = RecordAnnotations(),
      // Nothing is bound to it, so the snapshot controller would not protect it.
      .finalizers = {objects::kGroupContentBoundProtectionFinalizer}};
  const k8s::ObjectKey key = GroupContentKey(request_.version, record_);
  const absl::Status made = env_.api.Create(ctx_, key.type, "", MakeStaticGroup(record)).status();
  if (!made.ok() && !absl::IsAlreadyExists(made)) {
    return made;
  }
  return WriteRecordHandle();
}

absl::Status GroupHandOver::WriteRecordHandle() {
  return WriteHandle(ctx_, env_, GroupContentKey(request_.version, record_),
                     "volumeGroupSnapshotHandle", GroupHandleOf(taken_.content), kSidecarPatience);
}

std::map<std::string, std::string> GroupHandOver::RecordAnnotations() const {
  std::map<std::string, std::string> annotations = GroupDeletionSecret(taken_.content, nullptr);
  annotations[objects::kGroupBackupAnnotation] = request_.backup.name;
  annotations[objects::kGroupPlanAnnotation] = MakePlan(request_, taken_);
  return annotations;
}

SnapshotRequest GroupHandOver::RequestOf(const std::string& claim_uid,
                                         const TakenSnapshot& member) const {
  return {.backup = request_.backup,
          .claim_namespace = request_.namespace_name,
          .claim_name = SourceClaimName(member.snapshot),
          .claim_uid = claim_uid,
          .class_name = class_name_};
}

std::map<std::string, std::string> GroupHandOver::Annotations(const Json& member_content) const {
  std::map<std::string, std::string> annotations = DeletionSecretAnnotations(member_content);
  annotations[objects::kMovedGroupNameAnnotation] =
      absl::StrCat(request_.namespace_name, "/", request_.label_value);
  annotations[objects::kGroupOfAnnotation] =
      absl::StrCat(request_.label_key, "=", request_.label_value);
  annotations[objects::kMovedGroupSnapshotAnnotation] = k8s::Name(taken_.group);
  annotations[objects::kMovedGroupSizeAnnotation] = absl::StrCat(taken_.members.size());
  if (const auto cut_at = GroupCutTime(taken_.content); cut_at.has_value()) {
    annotations[objects::kMovedGroupTakenAtAnnotation] = FormatRfc3339(*cut_at);
  }
  return annotations;
}

absl::StatusOr<TakenSnapshot> GroupHandOver::EnsureMember(const SnapshotRequest& request,
                                                          const TakenSnapshot& member) {
  TakenSnapshot made;
  ASSIGN_OR_RETURN(made.content, EnsureContent(request, member));
  const Json labels = {{objects::kBackupNameLabel, velero::ValidLabelValue(request.backup.name)},
                       {objects::kBackupUidLabel, request.backup.uid},
                       {objects::kPvcUidLabel, request.claim_uid},
                       {objects::kCsiDeltaLabel, env_.velero_namespace}};
  const Json annotations = {{objects::kMemberClaimAnnotation, request.claim_name}};
  Json snapshot = {{"apiVersion", "snapshot.storage.k8s.io/v1"},
                   {"kind", "VolumeSnapshot"},
                   {"metadata",
                    {{"name", SnapshotName(request)},
                     {"namespace", request.claim_namespace},
                     {"labels", labels},
                     {"annotations", annotations}}}};
  SetJson(snapshot, {"spec", "source", "volumeSnapshotContentName"}, k8s::Name(made.content));
  if (!request.class_name.empty()) {
    SetJson(snapshot, {"spec", "volumeSnapshotClassName"}, request.class_name);
  }
  absl::StatusOr<Json> created =
      env_.api.Create(ctx_, VolumeSnapshotType(), request.claim_namespace, snapshot);
  if (absl::IsAlreadyExists(created.status())) {
    created = env_.api.Get(ctx_, VolumeSnapshotKey(request.claim_namespace, SnapshotName(request)));
    if (created.ok() && !IsOurs(*created, request.backup)) {
      return absl::AlreadyExistsError(absl::StrCat("VolumeSnapshot ", request.claim_namespace, "/",
                                                   SnapshotName(request),
                                                   " is not of this backup"));
    }
  }
  ASSIGN_OR_RETURN(made.snapshot, std::move(created));
  return made;
}

absl::StatusOr<Json> GroupHandOver::EnsureContent(const SnapshotRequest& request,
                                                  const TakenSnapshot& member) {
  StaticContent content;
  content.name = SnapshotName(request);
  content.driver = driver_;
  content.handle = SnapshotHandle(member.content);
  content.snapshot_namespace = request.claim_namespace;
  content.snapshot_name = SnapshotName(request);
  content.deletion_policy = "Retain";
  content.class_name = request.class_name;
  content.labels = {{objects::kMovedGroupLabel, record_},
                    {objects::kBackupUidLabel, request_.backup.uid}};
  if (const std::string node = k8s::Label(member.content, objects::kManagedByLabel);
      !node.empty()) {
    content.labels.emplace(objects::kManagedByLabel, node);
  }
  content.annotations = Annotations(member.content);
  const absl::Status made =
      env_.api.Create(ctx_, VolumeSnapshotContentType(), "", MakeStaticContent(content)).status();
  if (!made.ok() && !absl::IsAlreadyExists(made)) {
    return made;
  }
  // What a driver that cannot be asked would not know.
  Json status = {{"snapshotHandle", content.handle}};
  if (const auto cut_at = CutTime(member.content); cut_at.has_value()) {
    status["creationTime"] = absl::ToUnixNanos(*cut_at);
  }
  if (const auto size_bytes = RestoreSizeBytes(member.content); size_bytes.has_value()) {
    status["restoreSize"] = *size_bytes;
  }
  ASSIGN_OR_RETURN(Json stored,
                   env_.api.Patch(ctx_, VolumeSnapshotContentKey(content.name),
                                  k8s::PatchKind::kMerge, {{"status", status}}, "status"));
  if (HandleOf(stored) != content.handle || MovedGroupOf(stored) != record_) {
    return absl::AlreadyExistsError(
        absl::StrCat("VolumeSnapshotContent ", content.name, " is not of this volume group"));
  }
  return stored;
}

absl::Status GroupHandOver::TryCleanUp(const CallContext& after) {
  for (const auto& [claim_uid, member] : taken_.members) {
    const std::string name = SnapshotName(RequestOf(claim_uid, member));
    ASSIGN_OR_RETURN(const std::optional<Json> snapshot,
                     k8s::Find(after, env_.api, VolumeSnapshotKey(request_.namespace_name, name)));
    if (snapshot.has_value() && IsOurs(*snapshot, request_.backup)) {
      RETURN_IF_ERROR(k8s::IgnoreNotFound(
          env_.api.Delete(after, VolumeSnapshotKey(request_.namespace_name, name),
                          {.uid = k8s::Uid(*snapshot), .resource_version = ""})));
    }
    ASSIGN_OR_RETURN(const std::optional<Json> content,
                     k8s::Find(after, env_.api, VolumeSnapshotContentKey(name)));
    if (content.has_value() && MovedGroupOf(*content) == record_) {
      RETURN_IF_ERROR(ForgetContent(after, env_.api, *content));
    }
  }
  RETURN_IF_ERROR(DeleteRecord(after, env_, record_));
  // Some may have been retained before the rest could be.
  for (const auto& [claim_uid, member] : taken_.members) {
    RETURN_IF_ERROR(SetContentPolicy(after, env_, member.content, "Delete"));
  }
  return RemoveGroup(after, env_.api, taken_.group);
}

void GroupHandOver::CleanUp() {
  const CallContext after = CleanUpContext(*ctx_.clock);
  const absl::Status removed = RetryTransient(after, [&] { return TryCleanUp(after); });
  if (!removed.ok()) {
    CSIDELTA_LOG(kWarn, "a volume group snapshot is left behind",
                 {"namespace", request_.namespace_name},
                 {"volume_group_snapshot", k8s::Name(taken_.group)},
                 {"volume_group_snapshot_content", record_}, {"status", removed.ToString()});
  }
}

// --- Letting go

bool IsBase(const Json& content) { return k8s::Label(content, objects::kBaseLabel) == "true"; }

using Members = std::vector<const Json*>;  // of one group

bool AllReleased(const Members& members) {
  return std::all_of(members.begin(), members.end(),
                     [](const Json* member) { return IsReleased(*member); });
}

// By which a group takes the place of older ones: one of its bases, when nothing of it is on its
// way any more. Null where nothing of it was moved.
const Json* Successor(const Members& members) {
  const Json* base = nullptr;
  for (const Json* const member : members) {
    if (!IsBase(*member) && !IsReleased(*member)) {
      return nullptr;
    }
    base = IsBase(*member) ? member : base;
  }
  return base;
}

// Whether `other` is what `base` replaces: of the same label in the same place, and cut before.
bool IsReplacedBy(const Json& other, const Json& base) {
  const std::optional<MovedGroup> old_group = ReadMovedGroup(other);
  const std::optional<MovedGroup> new_group = ReadMovedGroup(base);
  const BaseOwner old_owner = ReadBase(other).owner;
  const BaseOwner new_owner = ReadBase(base).owner;
  return old_group.has_value() && new_group.has_value() && old_group->label == new_group->label &&
         old_group->name == new_group->name &&
         old_owner.velero_namespace == new_owner.velero_namespace &&
         old_owner.location == new_owner.location && old_owner.cluster == new_owner.cluster &&
         old_group->cut_at.has_value() && new_group->cut_at.has_value() &&
         *old_group->cut_at < *new_group->cut_at;
}

// Whether the backup that a record was made for is over. Where it is gone, the record's age tells.
absl::StatusOr<bool> IsOver(const CallContext& ctx, const Environment& env, const Json& record,
                            absl::Time made) {
  const bool is_old = ctx.clock->Now() - made >= kRecordInVainAfter;
  const std::string name = k8s::Annotation(record, objects::kGroupBackupAnnotation);
  if (name.empty()) {
    return is_old;
  }
  ASSIGN_OR_RETURN(const std::optional<Json> found,
                   k8s::Find(ctx, env.api, {BackupType(), env.velero_namespace, name}));
  if (!found.has_value() || k8s::Uid(*found) != k8s::Label(record, objects::kBackupUidLabel)) {
    return is_old;
  }
  const absl::StatusOr<velero::Backup> backup = velero::ParseBackup(*found);
  return backup.ok() && backup->Finished();
}

// Lets go of a member for which no VolumeSnapshot was made, or whose VolumeSnapshot went without
// it. What the mover made of a member is the mover's to let go of.
absl::Status ReleaseInVain(const CallContext& ctx, const Environment& env, const Json& record,
                           const Json& member) {
  const std::string backup_uid = k8s::Label(member, objects::kBackupUidLabel);
  if (backup_uid.empty() || backup_uid != k8s::Label(record, objects::kBackupUidLabel) ||
      IsBase(member) || IsReleased(member) || k8s::BeingDeleted(member)) {
    return absl::OkStatus();
  }
  const k8s::ObjectKey snapshot =
      VolumeSnapshotKey(GetString(member, {"spec", "volumeSnapshotRef", "namespace"}),
                        GetString(member, {"spec", "volumeSnapshotRef", "name"}));
  ASSIGN_OR_RETURN(const std::optional<Json> found, k8s::Find(ctx, env.api, snapshot));
  return found.has_value() ? absl::OkStatus() : ReleaseMember(ctx, env.api, member);
}

absl::Status ReleaseReplaced(const CallContext& ctx, k8s::ApiClient& api,
                             const std::vector<Json>& contents, const Json& base) {
  for (const Json& content : contents) {
    if (MovedGroupOf(content) != MovedGroupOf(base) && IsBase(content) &&
        IsReplacedBy(content, base)) {
      CSIDELTA_LOG(kInfo, "the base of a claim that fell behind its volume group is let go",
                   {"volume_group", ReadMovedGroup(content)->name},
                   {"pvc", ReadBase(content).owner.claim},
                   {"volume_snapshot_content", k8s::Name(content)});
      RETURN_IF_ERROR(ReleaseMember(ctx, api, content));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string MovedGroupOf(const Json& content) {
  return k8s::Label(content, objects::kMovedGroupLabel);
}

bool IsReleased(const Json& content) {
  return !MovedGroupOf(content).empty() && k8s::Label(content, objects::kReleasedLabel) == "true";
}

std::optional<MovedGroup> ReadMovedGroup(const Json& content) {
  if (MovedGroupOf(content).empty()) {
    return std::nullopt;
  }
  MovedGroup group = {
      .name = k8s::Annotation(content, objects::kMovedGroupNameAnnotation),
      .label = k8s::Annotation(content, objects::kGroupOfAnnotation),
      .snapshot = k8s::Annotation(content, objects::kMovedGroupSnapshotAnnotation),
      .cut_at = ParseRfc3339(k8s::Annotation(content, objects::kMovedGroupTakenAtAnnotation))};
  if (!absl::SimpleAtoi(k8s::Annotation(content, objects::kMovedGroupSizeAnnotation),
                        &group.members)) {
    group.members = 0;
  }
  return group;
}

std::map<std::string, std::string> MovedGroupLabels(const Json& content) {
  const std::string record = MovedGroupOf(content);
  return record.empty() ? std::map<std::string, std::string>()
                        : std::map<std::string, std::string>{{objects::kMovedGroupLabel, record}};
}

std::map<std::string, std::string> MovedGroupAnnotations(const Json& content) {
  std::map<std::string, std::string> annotations;
  for (const char* const key :
       {objects::kMovedGroupNameAnnotation, objects::kGroupOfAnnotation,
        objects::kMovedGroupSnapshotAnnotation, objects::kMovedGroupSizeAnnotation,
        objects::kMovedGroupTakenAtAnnotation}) {
    if (const std::string value = k8s::Annotation(content, key); !value.empty()) {
      annotations.emplace(key, value);
    }
  }
  return annotations;
}

absl::StatusOr<std::map<std::string, TakenSnapshot>> HandOverGroup(const CallContext& ctx,
                                                                   const Environment& env,
                                                                   const GroupRequest& request,
                                                                   const TakenGroup& taken) {
  return GroupHandOver(ctx, env, request, taken).Run();
}

absl::StatusOr<std::optional<TakenSnapshot>> FindHandedOver(const CallContext& ctx,
                                                            const Environment& env,
                                                            const SnapshotRequest& request) {
  ASSIGN_OR_RETURN(
      const std::optional<Json> snapshot,
      k8s::Find(ctx, env.api, VolumeSnapshotKey(request.claim_namespace, SnapshotName(request))));
  if (!snapshot.has_value() || !IsOurs(*snapshot, request.backup) || k8s::BeingDeleted(*snapshot) ||
      k8s::Annotation(*snapshot, objects::kMemberClaimAnnotation) != request.claim_name) {
    return std::optional<TakenSnapshot>();
  }
  ASSIGN_OR_RETURN(const std::optional<Json> content,
                   k8s::Find(ctx, env.api, VolumeSnapshotContentKey(k8s::Name(*snapshot))));
  if (!content.has_value() || MovedGroupOf(*content).empty() || k8s::BeingDeleted(*content)) {
    return std::optional<TakenSnapshot>();
  }
  return std::optional(TakenSnapshot{.snapshot = *snapshot, .content = *content});
}

absl::StatusOr<std::optional<TakenSnapshot>> GoOnHandingOver(const CallContext& ctx,
                                                             const Environment& env,
                                                             const SnapshotRequest& request,
                                                             const std::string& version) {
  ASSIGN_OR_RETURN(const k8s::ObjectList records,
                   env.api.List(ctx, VolumeGroupSnapshotContentType(version), "",
                                {.label_selector = absl::StrCat(objects::kMovedGroupLabel, ",",
                                                                objects::kBackupUidLabel, "=",
                                                                request.backup.uid),
                                 .field_selector = ""}));
  for (const Json& record : records.items) {
    const std::optional<GroupPlan> plan = ReadPlan(record, request.backup, version);
    if (!plan.has_value() || k8s::BeingDeleted(record) ||
        plan->request.namespace_name != request.claim_namespace ||
        !plan->taken.members.contains(request.claim_uid)) {
      continue;
    }
    CSIDELTA_LOG(kInfo, "a volume group whose hand-over was interrupted is gone on with",
                 {"namespace", request.claim_namespace}, {"pvc", request.claim_name},
                 {"volume_group_snapshot_content", k8s::Name(record)});
    ASSIGN_OR_RETURN(
        TakenSnapshot made,
        GroupHandOver(ctx, env, plan->request, plan->taken).GoOnWith(request.claim_uid));
    return std::optional(std::move(made));
  }
  return std::optional<TakenSnapshot>();
}

absl::StatusOr<bool> DeleteRecordInVain(const CallContext& ctx, const Environment& env,
                                        const Json& record) {
  const auto made = k8s::CreatedAt(record);
  if (!made.has_value() || k8s::BeingDeleted(record)) {
    return false;
  }
  ASSIGN_OR_RETURN(const bool is_over, IsOver(ctx, env, record, *made));
  if (!is_over) {
    return false;
  }
  ASSIGN_OR_RETURN(const k8s::ObjectList members,
                   env.api.List(ctx, VolumeSnapshotContentType(), "",
                                {.label_selector = absl::StrCat(objects::kMovedGroupLabel, "=",
                                                                MovedGroupOf(record)),
                                 .field_selector = ""}));
  for (const Json& member : members.items) {
    RETURN_IF_ERROR(ReleaseInVain(ctx, env, record, member));
  }
  if (!members.items.empty()) {
    return false;
  }
  RETURN_IF_ERROR(DeleteRecord(ctx, env, k8s::Name(record)));
  return true;
}

absl::Status ReleaseMember(const CallContext& ctx, k8s::ApiClient& api, const Json& content) {
  Json labels;
  labels[objects::kReleasedLabel] = "true";
  labels[objects::kBaseLabel] = nullptr;
  return k8s::IgnoreNotFound(api.Patch(ctx, VolumeSnapshotContentKey(k8s::Name(content)),
                                       k8s::PatchKind::kMerge, {{"metadata", {{"labels", labels}}}},
                                       "")
                                 .status());
}

absl::Status SettleMovedGroup(const CallContext& ctx, const Environment& env, const Json& content) {
  const std::string record = MovedGroupOf(content);
  ASSIGN_OR_RETURN(
      const k8s::ObjectList contents,
      env.api.List(ctx, VolumeSnapshotContentType(), "",
                   {.label_selector = objects::kMovedGroupLabel, .field_selector = ""}));
  Members members;
  for (const Json& one : contents.items) {
    if (MovedGroupOf(one) == record && !k8s::BeingDeleted(one)) {
      members.push_back(&one);
    }
  }
  if (record.empty() || members.empty()) {
    return absl::OkStatus();
  }
  if (const Json* const base = Successor(members); base != nullptr) {
    return ReleaseReplaced(ctx, env.api, contents.items, *base);
  }
  if (!AllReleased(members)) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(Annotate(DeleteRecord(ctx, env, record),
                           absl::StrCat("delete the volume group of ", record)));
  CSIDELTA_LOG(kInfo, "the driver is asked to delete a volume group that nobody needs",
               {"volume_group", ReadMovedGroup(content)->name},
               {"volume_group_snapshot_content", record},
               {"members", absl::StrCat(members.size())});
  for (const Json* const member : members) {
    RETURN_IF_ERROR(ForgetContent(ctx, env.api, *member));
  }
  return absl::OkStatus();
}

}  // namespace csidelta::csi
