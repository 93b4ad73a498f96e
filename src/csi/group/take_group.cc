#include "csi/group/take_group.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/retry.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/persistent_volume.h"

namespace csidelta::csi {
namespace {

using objects::PersistentVolumeClaim;
using objects::PlannedGroupMember;
using objects::VolumeGroupSnapshot;
using objects::VolumeGroupSnapshotContent;
using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

// True if a retry does not change the API server's answer to a change of a PVC.
bool IsRefused(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsInvalidArgument(status) ||
         absl::IsNotFound(status) || absl::IsAborted(status) || absl::IsFailedPrecondition(status);
}

// One attempt after the other at one group. Borrows everything.
class GroupTaker {
 public:
  GroupTaker(const CallContext& ctx, k8s::ApiClient& api, const TakeGroupRequest& request)
      : ctx_(ctx),
        api_(api),
        request_(request),
        key_(request.object.key()),
        lock_(ctx, api, request.lock),
        errors_(ErrorsOf(request.what)) {}

  absl::StatusOr<TakenGroup> Take() {
    // Without a mark of its own the group would select the PVCs of others.
    CSIDELTA_CHECK(!request_.mark_label.empty() && !request_.mark.empty());
    CSIDELTA_CHECK(!request_.rules.asked_at_annotation.empty());
    return lock_.Run([this] { return TakeLocked(); });
  }

 private:
  absl::StatusOr<TakenGroup> TakeLocked();
  absl::Status Try();

  // Labels the PVCs for the selector.
  absl::Status Mark();
  // Removes the label again, in its own time.
  void Unmark();

  // Creates the VolumeGroupSnapshot, or resumes the one that an earlier call left. After an error
  // it may exist.
  absl::Status Post();
  absl::StatusOr<VolumeGroupSnapshot> PostOnce();

  absl::Status AwaitTaken();
  absl::Status Refresh(const VolumeGroupSnapshot* now);
  absl::Status CheckError(const std::string& error);
  absl::Status DeletedByAnother(absl::string_view kind, absl::string_view name) const;

  // The controller reports that it cannot begin. Checks, once for each such error, that the PVCs
  // still have the label by which it finds them.
  absl::Status CheckMarks();
  absl::Status CheckNoneLost(absl::FunctionRef<bool(const PlannedGroupMember&)> selected) const;
  // Which volumes the controller found by the label, and which ones the driver took.
  absl::Status CheckVolumes() const;
  absl::Status CheckNoneLeftOut() const;
  absl::Status AwaitContent(const k8s::ObjectKey& key);
  absl::Status AwaitTime();

  // Controllers from 8.4 on list the members in a field that v1beta1 does not have, and the API
  // server omits it.
  bool MayHideMembers() const { return taken_.group.version() == "v1beta1"; }
  bool ChangesContents() const { return !request_.content_labels.empty(); }

  // Adds the PVCs whose volumes the driver's error names, unless it names all.
  absl::Status Blame(const absl::Status& status) const;

  // Waits until each member is bound. Then its content may be changed only once the controller
  // knows the member, and need not be read if the member has the time.
  absl::Status AwaitMembers(std::map<std::string, VolumeSnapshot>& snapshots);

  // Gives a member the marks of a VolumeSnapshot that was taken alone.
  absl::StatusOr<TakenSnapshot> Adopt(const PlannedGroupMember& member,
                                      const VolumeSnapshot& snapshot);
  absl::Status AdoptContent(const PlannedGroupMember& member, TakenSnapshot& taken);

  // Writes on the VolumeGroupSnapshot when the driver answered, and what its content hides. Notes
  // of an earlier call stay.
  absl::Status RecordAnswer();
  // For members whose handles are known only after all have been adopted.
  absl::Status RecordInMembers();
  template <typename Kind>
  absl::StatusOr<Kind> Patch(const k8s::ObjectKey& key, const objects::Patch& patch) {
    return RetryTransient(ctx_, [&] { return objects::Apply<Kind>(ctx_, api_, key, patch); });
  }

  DriverErrors ErrorsOf(std::string what) const {
    return DriverErrors(*ctx_.clock, std::move(what), request_.rules.timeout,
                        request_.rules.errors);
  }
  std::string PvcText(const std::string& pvc) const {
    return absl::StrCat(request_.lock.subject, " ", key_.namespace_name, "/", pvc);
  }

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const TakeGroupRequest& request_;
  const k8s::ObjectKey key_;
  VolumeLock lock_;
  DriverErrors errors_;
  std::string error_checked_;        // by CheckMarks()
  std::vector<std::string> marked_;  // PVCs that may carry the label
  // State of one attempt:
  CallContext limited_;
  VolumeGroupSnapshot object_;
  std::optional<VolumeGroupSnapshot> made_;
  absl::Time asked_at_;
  int posts_ = 0;
  bool has_joined_ = false;  // it was there
  absl::Time answered_at_;
  std::vector<PlannedGroupMember> planned_;
  TakenGroup taken_;
};

absl::StatusOr<TakenGroup> GroupTaker::TakeLocked() {
  limited_ = ctx_.WithTimeout(request_.rules.timeout);
  asked_at_ = ctx_.clock->Now();
  object_ = request_.object;
  object_.SetAnnotation(request_.rules.asked_at_annotation, request_.rules.format_time(asked_at_));
  made_.reset();
  posts_ = 0;
  has_joined_ = false;
  answered_at_ = absl::InfiniteFuture();
  taken_ = {};
  const absl::Status status = Try();
  Unmark();
  if (!status.ok()) {
    return has_joined_ && !request_.rules.deletes_joined
               ? status
               : Withdraw(*ctx_.clock, api_, request_.rules, object_, made_, status);
  }
  taken_.not_checked = lock_.not_checked();
  return taken_;
}

absl::Status GroupTaker::Try() {
  RETURN_IF_ERROR(Mark());
  RETURN_IF_ERROR(Post());
  RETURN_IF_ERROR(lock_.CheckAtPost(made_->resource_version()));
  RETURN_IF_ERROR(Blame(errors_.Explain(AwaitTaken())));
  answered_at_ = std::min(answered_at_, ctx_.clock->Now());
  request_.on_taken();
  std::map<std::string, VolumeSnapshot> snapshots;
  RETURN_IF_ERROR(AwaitMembers(snapshots));
  for (const PlannedGroupMember& member : planned_) {
    ASSIGN_OR_RETURN(taken_.members[member.pvc_uid], Adopt(member, snapshots[member.pvc]));
  }
  return request_.answered_at_annotation.empty() ? absl::OkStatus() : RecordAnswer();
}

// --- The PVCs' label

absl::Status GroupTaker::Mark() {
  const auto patch = objects::Patch().SetLabel(request_.mark_label, request_.mark);
  for (const PlannedGroupMember& member : request_.members) {
    marked_.push_back(member.pvc);
    const absl::Status status = RetryTransient(ctx_, [&] {
      return objects::Apply(ctx_, api_, PersistentVolumeClaim::Key(key_.namespace_name, member.pvc),
                            patch);
    });
    if (IsRefused(status)) {
      return absl::UnimplementedError(absl::StrCat(
          PvcText(member.pvc), " cannot be labelled while its group is made: ", status.message()));
    }
    RETURN_IF_ERROR(Annotate(status, absl::StrCat("label ", PvcText(member.pvc))));
  }
  return absl::OkStatus();
}

void GroupTaker::Unmark() {
  const CallContext after = CleanUpContext(*ctx_.clock);
  for (const std::string& pvc : marked_) {
    const absl::Status status =
        UnmarkPvc(after, api_, PersistentVolumeClaim::Key(key_.namespace_name, pvc),
                  request_.mark_label, request_.mark);
    if (!status.ok()) {
      CSIDELTA_LOG(kWarn, "a PVC keeps a label that is of no use any more",
                   {"namespace", key_.namespace_name}, {"pvc", pvc}, {"label", request_.mark_label},
                   {"status", status.ToString()});
    }
  }
  marked_.clear();
}

// --- The group

absl::Status GroupTaker::Post() {
  absl::StatusOr<VolumeGroupSnapshot> group = RetryTransient(ctx_, [&] { return PostOnce(); });
  const absl::Status status = AsQuotaRefusal(group.status());
  if (absl::IsNotFound(status) ||
      (request_.rules.may_lack_rights && absl::IsPermissionDenied(status))) {
    return absl::UnimplementedError(absl::StrCat("the cluster serves no VolumeGroupSnapshots ",
                                                 request_.object.version(), ": ",
                                                 status.message()));
  }
  RETURN_IF_ERROR(
      Annotate(status, absl::StrCat("create a VolumeGroupSnapshot of ", request_.what)));
  made_ = *std::move(group);
  taken_.group = *made_;
  planned_ = objects::ParseGroupPlan(made_->Annotation(objects::kGroupMembersAnnotation));
  if (planned_.empty()) {
    planned_ = request_.members;
  }
  return absl::OkStatus();
}

absl::StatusOr<VolumeGroupSnapshot> GroupTaker::PostOnce() {
  ++posts_;
  absl::StatusOr<VolumeGroupSnapshot> group = objects::Create(ctx_, api_, key_.type, object_);
  if (!absl::IsAlreadyExists(group.status())) {
    return group;
  }
  const TakeRules& rules = request_.rules;
  group = objects::Get<VolumeGroupSnapshot>(ctx_, api_, key_);
  const bool is_own = group.ok() && group->HasLabels(rules.own_labels);
  // Else the answer to a POST was lost.
  has_joined_ =
      posts_ == 1 || !is_own ||
      group->Annotation(rules.asked_at_annotation) != object_.Annotation(rules.asked_at_annotation);
  if (is_own && (rules.may_join || !has_joined_)) {
    return group;
  }
  if (rules.may_join) {
    RETURN_IF_ERROR(group.status());
  }
  return absl::AlreadyExistsError(absl::StrCat("VolumeGroupSnapshot ", key_.namespace_name, "/",
                                               key_.name, " exists already", rules.name_advice));
}

absl::Status GroupTaker::CheckError(const std::string& error) {
  return ReportsNoSuchCall(error) ? absl::UnimplementedError(absl::StrCat(
                                        "the driver takes no group snapshots: ", error))
                                  : errors_.Check(error);
}

absl::Status GroupTaker::DeletedByAnother(absl::string_view kind, absl::string_view name) const {
  return absl::NotFoundError(
      absl::StrCat(kind, " ", name, " of ", request_.what, " was deleted by another client"));
}

absl::Status GroupTaker::Refresh(const VolumeGroupSnapshot* now) {
  if (now == nullptr || now->uid() != made_->uid() || now->is_being_deleted()) {
    return DeletedByAnother("VolumeGroupSnapshot", key_.name);
  }
  taken_.group = *now;
  RETURN_IF_ERROR(CheckError(now->error_message()));
  return now->bound_content().empty() ? CheckMarks() : absl::OkStatus();
}

absl::Status GroupTaker::CheckMarks() {
  const std::string& error = errors_.last();
  if (error.empty() || error == error_checked_) {
    return absl::OkStatus();
  }
  error_checked_ = error;
  const auto marked = objects::List<PersistentVolumeClaim>(
      ctx_, api_, key_.namespace_name,
      {.label_selector = absl::StrCat(request_.mark_label, "=", request_.mark)});
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

absl::Status GroupTaker::CheckNoneLost(
    absl::FunctionRef<bool(const PlannedGroupMember&)> selected) const {
  std::vector<std::string> lost;
  for (const PlannedGroupMember& member : planned_) {
    if (!selected(member)) {
      lost.push_back(PvcText(member.pvc));
    }
  }
  return lost.empty()
             ? absl::OkStatus()
             : absl::UnimplementedError(absl::StrCat(
                   "another client removes the label ", request_.mark_label,
                   " again: ", absl::StrJoin(lost, ", "), " would be missing in ", request_.what));
}

absl::Status GroupTaker::AwaitTaken() {
  const VolumeGroupSnapshot known = taken_.group;
  RETURN_IF_ERROR(lock_.Waiter(limited_).WaitFor<VolumeGroupSnapshot>(
      key_,
      [&](const VolumeGroupSnapshot* now) -> absl::StatusOr<bool> {
        RETURN_IF_ERROR(Refresh(now));
        return !now->bound_content().empty();
      },
      &known));
  const k8s::ObjectKey content =
      VolumeGroupSnapshotContent::Key(taken_.group.version(), "", taken_.group.bound_content());
  // A wait would take the missing right for an API server that starts.
  if (request_.rules.may_lack_rights &&
      absl::IsPermissionDenied(api_.Get(limited_, content).status())) {
    return AwaitTime();
  }
  RETURN_IF_ERROR(AwaitContent(content));
  return CheckNoneLeftOut();
}

absl::Status GroupTaker::AwaitTime() {
  return lock_.Waiter(limited_).WaitFor<VolumeGroupSnapshot>(
      key_, [&](const VolumeGroupSnapshot* now) -> absl::StatusOr<bool> {
        RETURN_IF_ERROR(Refresh(now));
        return now->taken_at().has_value() || now->is_ready();
      });
}

absl::Status GroupTaker::AwaitContent(const k8s::ObjectKey& key) {
  return lock_.Waiter(limited_).WaitForExisting<VolumeGroupSnapshotContent>(
      key, [&](const VolumeGroupSnapshotContent* content) -> absl::StatusOr<bool> {
        if (content == nullptr || content->is_being_deleted()) {
          return DeletedByAnother("VolumeGroupSnapshotContent", key.name);
        }
        taken_.content = *content;
        RETURN_IF_ERROR(CheckVolumes());
        RETURN_IF_ERROR(CheckError(content->error_message()));
        if (content->handle_or_source().empty()) {
          return false;
        }
        answered_at_ = std::min(answered_at_, ctx_.clock->Now());
        return !content->members().empty() || MayHideMembers();
      });
}

absl::Status GroupTaker::CheckVolumes() const {
  const std::optional<std::vector<std::string>> handles = taken_.content.source_volumes();
  return !handles.has_value() ? absl::OkStatus()
                              : CheckNoneLost([&](const PlannedGroupMember& member) {
                                  return member.volume_handle.empty() ||
                                         std::find(handles->begin(), handles->end(),
                                                   member.volume_handle) != handles->end();
                                });
}

absl::Status GroupTaker::CheckNoneLeftOut() const {
  const std::vector<objects::GroupMember> members = taken_.content.members();
  for (const PlannedGroupMember& planned : planned_) {
    const bool is_taken = std::any_of(members.begin(), members.end(), [&](const auto& member) {
      return member.volume_handle == planned.volume_handle;
    });
    if (!members.empty() && !planned.volume_handle.empty() && !is_taken) {
      return absl::FailedPreconditionError(
          absl::StrCat("the driver left ", PvcText(planned.pvc), " out of ", request_.what));
    }
  }
  return absl::OkStatus();
}

absl::Status GroupTaker::Blame(const absl::Status& status) const {
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
      blamed.push_back(PvcText(member.pvc));
    }
  }
  return blamed.empty() || blamed.size() == planned_.size()
             ? status
             : Annotate(status, absl::StrJoin(blamed, ", "));
}

// --- The members

absl::Status GroupTaker::AwaitMembers(std::map<std::string, VolumeSnapshot>& snapshots) {
  std::map<std::string, DriverErrors> missing;
  for (const PlannedGroupMember& member : planned_) {
    missing.emplace(member.pvc, ErrorsOf(absl::StrCat(PvcText(member.pvc), " in ", request_.what)));
  }
  const absl::Status status = lock_.Waiter(limited_).WaitForAmong<VolumeSnapshot>(
      key_.namespace_name, [&](const VolumeSnapshot* snapshot) -> absl::StatusOr<bool> {
        const auto member = missing.find(snapshot->source_pvc());
        if (!snapshot->IsMemberOf(made_->uid()) || member == missing.end()) {
          return false;
        }
        if (snapshot->is_being_deleted()) {
          return DeletedByAnother("VolumeSnapshot",
                                  absl::StrCat(snapshot->name(), " of ", PvcText(member->first)));
        }
        RETURN_IF_ERROR(member->second.Check(snapshot->error_message()));
        const bool is_known = ChangesContents()
                                  ? !snapshot->group_snapshot().empty()
                                  : snapshot->taken_at().has_value() || snapshot->is_ready();
        if (!snapshot->bound_content().empty() && is_known) {
          snapshots.insert_or_assign(member->first, *snapshot);
          missing.erase(member);
        }
        return missing.empty();
      });
  if (!absl::IsDeadlineExceeded(status)) {
    return status;
  }
  const auto blamed = std::find_if(missing.begin(), missing.end(),
                                   [](const auto& one) { return !one.second.last().empty(); });
  return WithMore(
      (blamed == missing.end() ? missing.begin() : blamed)->second.Explain(status),
      absl::StrCat("; ", request_.what, " is taken, but ", missing.size(), " of its ",
                   planned_.size(), " VolumeSnapshots were not made", request_.missing_hint));
}

absl::StatusOr<TakenSnapshot> GroupTaker::Adopt(const PlannedGroupMember& member,
                                                const VolumeSnapshot& snapshot) {
  TakenSnapshot taken{.snapshot = snapshot,
                      .is_content_read = false,
                      .asked_at = asked_at_,
                      .seen_taken_at = answered_at_};
  RETURN_IF_ERROR(AdoptContent(member, taken));
  std::map<std::string, std::string> labels = request_.member_labels;
  if (!request_.pvc_uid_label.empty()) {
    labels[request_.pvc_uid_label] = member.pvc_uid;
  }
  std::map<std::string, std::string> annotations = request_.member_annotations;
  if (request_.members_have_asked_at) {
    annotations[request_.rules.asked_at_annotation] =
        object_.Annotation(request_.rules.asked_at_annotation);
  }
  const bool is_adopted = snapshot.HasLabels(labels) &&
                          std::all_of(annotations.begin(), annotations.end(), [&](const auto& one) {
                            return snapshot.Annotation(one.first) == one.second;
                          });
  if (!is_adopted) {
    ASSIGN_OR_RETURN(
        taken.snapshot,
        Patch<VolumeSnapshot>(snapshot.key(),
                              objects::Patch().SetLabels(labels).SetAnnotations(annotations)));
  }
  return taken;
}

absl::Status GroupTaker::AdoptContent(const PlannedGroupMember& member, TakenSnapshot& taken) {
  const k8s::ObjectKey key = VolumeSnapshotContent::Key("", taken.snapshot.bound_content());
  absl::StatusOr<VolumeSnapshotContent> content;
  if (ChangesContents()) {
    auto patch = objects::Patch().SetLabels(request_.content_labels);
    if (const auto members = taken_.content.members(); !members.empty()) {
      patch.SetAnnotation(objects::kGroupContentOfMemberAnnotation,
                          taken_.content.RecordForMembers(members));
    }
    content = Patch<VolumeSnapshotContent>(key, patch);
  } else {
    content = objects::Get<VolumeSnapshotContent>(limited_, api_, key);
    if (absl::IsPermissionDenied(content.status())) {
      return absl::OkStatus();
    }
  }
  RETURN_IF_ERROR(content.status());
  taken.content = *std::move(content);
  taken.is_content_read = true;
  const bool is_of_volume =
      member.volume_handle.empty() || taken.content.source_volume() == member.volume_handle;
  if (taken.content.handle().empty() || taken.content.snapshot_uid() != taken.snapshot.uid() ||
      !is_of_volume) {
    return absl::FailedPreconditionError(absl::StrCat("VolumeSnapshotContent ", key.name,
                                                      " is not what ", PvcText(member.pvc),
                                                      " has in ", request_.what));
  }
  return absl::OkStatus();
}

// --- Notes

absl::Status GroupTaker::RecordAnswer() {
  objects::Patch patch;
  if (taken_.group.Annotation(request_.answered_at_annotation).empty()) {
    patch.SetAnnotation(request_.answered_at_annotation, request_.rules.format_time(answered_at_));
  }
  if (taken_.content.members().empty()) {
    for (PlannedGroupMember& member : planned_) {
      member.snapshot_handle = taken_.members[member.pvc_uid].content.handle();
    }
    patch.SetAnnotation(objects::kGroupMembersAnnotation, objects::FormatGroupPlan(planned_));
    RETURN_IF_ERROR(RecordInMembers());
  }
  if (!patch.is_empty()) {
    ASSIGN_OR_RETURN(taken_.group, Patch<VolumeGroupSnapshot>(key_, patch));
  }
  return absl::OkStatus();
}

absl::Status GroupTaker::RecordInMembers() {
  std::vector<objects::GroupMember> members;
  for (const PlannedGroupMember& member : planned_) {
    members.push_back(
        {.volume_handle = member.volume_handle, .snapshot_handle = member.snapshot_handle});
  }
  const auto patch = objects::Patch().SetAnnotation(objects::kGroupContentOfMemberAnnotation,
                                                    taken_.content.RecordForMembers(members));
  for (auto& [pvc_uid, member] : taken_.members) {
    ASSIGN_OR_RETURN(member.content, Patch<VolumeSnapshotContent>(member.content.key(), patch));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TakenGroup> TakeGroup(const CallContext& ctx, k8s::ApiClient& api,
                                     const TakeGroupRequest& request) {
  return GroupTaker(ctx, api, request).Take();
}

absl::Status UnmarkPvc(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& pvc,
                       const std::string& label, const std::string& mark) {
  return RetryTransient(ctx, [&] { return objects::RemoveLabelIf(ctx, api, pvc, label, mark); });
}

}  // namespace csidelta::csi
