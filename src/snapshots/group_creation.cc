#include "snapshots/group_creation.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/retry.h"
#include "csi/snapshot_class.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/volume_group_snapshot.h"
#include "snapshots/creation_failure.h"

namespace csidelta::snapshots {
namespace {

using objects::PersistentVolumeClaim;
using objects::VolumeGroupSnapshot;
using objects::VolumeGroupSnapshotContent;
using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

std::vector<PersistentVolumeClaim> PvcsOf(const std::vector<SnapshotSource>& sources) {
  std::vector<PersistentVolumeClaim> pvcs;
  pvcs.reserve(sources.size());
  for (const SnapshotSource& source : sources) {
    pvcs.push_back(source.pvc);
  }
  return pvcs;
}

// One attempt after the other at one group. Borrows everything.
class GroupCreator {
 public:
  GroupCreator(const CallContext& ctx, k8s::ApiClient& api, Random& random,
               const GroupCreationRequest& request);
  absl::StatusOr<std::vector<csi::TakenSnapshot>> Create();

 private:
  absl::StatusOr<std::vector<csi::TakenSnapshot>> CreateGuarded();
  absl::StatusOr<std::vector<csi::TakenSnapshot>> AwaitAll(const CallContext& limited,
                                                           const VolumeGroupSnapshot& made);
  absl::Status CheckQuotasOfMembers();

  // --- The PVCs' label

  absl::Status Mark();

  // Removes it again where it is still ours, in a time of its own.
  void Unmark();

  // --- The group

  std::map<std::string, std::string> Annotations() const;
  std::map<std::string, std::string> Labels() const;
  VolumeGroupSnapshot ObjectToMake() const;
  absl::Status CheckError(const std::optional<objects::SnapshotError>& error);
  absl::Status AwaitTaken(const CallContext& limited, const VolumeGroupSnapshot& made);

  // --- The members

  absl::StatusOr<std::vector<csi::TakenSnapshot>> AwaitMembers(const CallContext& limited,
                                                               const VolumeGroupSnapshot& made);

  // Makes a member one of the set, and reads its content where that is allowed.
  absl::StatusOr<csi::TakenSnapshot> Describe(const CallContext& limited,
                                              const VolumeSnapshot& member);

  // --- Ends that are not well

  // The snapshot controller makes the members, and only its log says why it cannot.
  absl::Status AddMissing(const absl::Status& status, std::size_t missing) const;

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const GroupCreationRequest& request_;
  const std::string namespace_name_;
  const k8s::ObjectKey key_;
  csi::VolumeLock lock_;
  csi::DriverErrors errors_;
  std::string quotas_not_checked_;  // "": they were
  std::vector<std::string> marked_;
  absl::Time asked_at_;
  absl::Time seen_taken_at_;
};

GroupCreator::GroupCreator(const CallContext& ctx, k8s::ApiClient& api, Random& random,
                           const GroupCreationRequest& request)
    : ctx_(ctx),
      api_(api),
      request_(request),
      namespace_name_(request.sources.front().pvc.namespace_name()),
      key_(VolumeGroupSnapshot::Key(request.choice.version, namespace_name_, request.name)),
      lock_(ctx, api,
            LockOf(PvcsOf(request.sources), request.name, request.waits_for_others, random)),
      errors_(*ctx.clock, absl::StrCat("the group ", request.name), request.timeout,
              PersonRules(request.timeout, request.on_full).errors) {}

absl::StatusOr<std::vector<csi::TakenSnapshot>> GroupCreator::Create() {
  return lock_.Run([this] {
    absl::StatusOr<std::vector<csi::TakenSnapshot>> creations = CreateGuarded();
    Unmark();
    return creations;
  });
}

absl::StatusOr<std::vector<csi::TakenSnapshot>> GroupCreator::CreateGuarded() {
  const CallContext limited = ctx_.WithTimeout(request_.timeout);
  RETURN_IF_ERROR(CheckQuotasOfMembers());
  RETURN_IF_ERROR(Mark());
  asked_at_ = ctx_.clock->Now();
  absl::StatusOr<VolumeGroupSnapshot> made = objects::Create(ctx_, api_, key_.type, ObjectToMake());
  const absl::Status refused = csi::AsQuotaRefusal(made.status());
  if (absl::IsPermissionDenied(refused) || absl::IsNotFound(refused)) {
    return absl::UnimplementedError(refused.message());
  }
  RETURN_IF_ERROR(refused);
  absl::StatusOr<std::vector<csi::TakenSnapshot>> creations = AwaitAll(limited, *made);
  if (!creations.ok()) {  // Its members go with it.
    return WithdrawGroup(*ctx_.clock, api_, *made, creations.status());
  }
  return creations;
}

absl::StatusOr<std::vector<csi::TakenSnapshot>> GroupCreator::AwaitAll(
    const CallContext& limited, const VolumeGroupSnapshot& made) {
  RETURN_IF_ERROR(lock_.CheckAtPost(made.resource_version()));
  RETURN_IF_ERROR(errors_.Explain(AwaitTaken(limited, made)));
  seen_taken_at_ = ctx_.clock->Now();
  request_.on_taken();
  return AwaitMembers(limited, made);
}

absl::Status GroupCreator::CheckQuotasOfMembers() {
  const absl::Status allowed =
      CheckQuotas(ctx_, api_, namespace_name_, static_cast<int>(request_.sources.size()));
  if (!absl::IsPermissionDenied(allowed)) {
    return allowed;
  }
  quotas_not_checked_ = absl::StrCat("quotas not checked: ", allowed.message());
  return absl::OkStatus();
}

absl::Status GroupCreator::Mark() {
  const objects::Patch patch =
      objects::Patch().SetLabel(objects::kPersonsGroupLabel, request_.name);
  for (const SnapshotSource& source : request_.sources) {
    const absl::Status status = objects::Apply(ctx_, api_, source.pvc.key(), patch);
    if (absl::IsPermissionDenied(status) || absl::IsInvalidArgument(status)) {
      return absl::UnimplementedError(
          absl::StrCat("PVC ", source.pvc.name(),
                       " cannot be labelled while its group is made: ", status.message()));
    }
    RETURN_IF_ERROR(status);
    marked_.push_back(source.pvc.name());
  }
  return absl::OkStatus();
}

void GroupCreator::Unmark() {
  const CallContext after = csi::CleanUpContext(*ctx_.clock);
  for (const std::string& pvc : marked_) {
    const absl::Status status = csi::RetryTransient(after, [&] {
      return objects::RemoveLabelIf(after, api_, PersistentVolumeClaim::Key(namespace_name_, pvc),
                                    objects::kPersonsGroupLabel, request_.name);
    });
    if (!status.ok()) {
      CSIDELTA_LOG(kWarn, "a PVC keeps a label that is of no use any more", {"pvc", pvc},
                   {"label", objects::kPersonsGroupLabel}, {"status", status.ToString()});
    }
  }
  marked_.clear();
}

std::map<std::string, std::string> GroupCreator::Annotations() const {
  auto annotations = CreationAnnotations(request_.workload, request_.note);
  annotations[objects::kSnapshotAskedAtAnnotation] = FormatRfc3339Micros(asked_at_);
  return annotations;
}

std::map<std::string, std::string> GroupCreator::Labels() const {
  return CreationLabels(request_.name, request_.schedule);
}

VolumeGroupSnapshot GroupCreator::ObjectToMake() const {
  auto group = VolumeGroupSnapshot::Make(request_.choice.version, namespace_name_, request_.name);
  group.SetLabels(Labels());
  group.SetAnnotations(Annotations());
  group.SetClassName(request_.choice.class_name);
  group.SetSelector(objects::kPersonsGroupLabel, request_.name);
  return group;
}

absl::Status GroupCreator::CheckError(const std::optional<objects::SnapshotError>& error) {
  const std::string text = error.has_value() ? error->message : "";
  if (csi::ReportsNoSuchCall(text)) {
    return absl::UnimplementedError(absl::StrCat("the driver takes no group snapshots: ", text));
  }
  return errors_.Check(text);
}

absl::Status GroupCreator::AwaitTaken(const CallContext& limited, const VolumeGroupSnapshot& made) {
  std::string content;
  bool is_taken = false;
  const auto is_bound = [&](const VolumeGroupSnapshot* group) -> absl::StatusOr<bool> {
    if (group == nullptr || group->uid() != made.uid() || group->is_being_deleted()) {
      return absl::NotFoundError(absl::StrCat("VolumeGroupSnapshot ", request_.name,
                                              " was deleted while it was being taken"));
    }
    RETURN_IF_ERROR(CheckError(group->error()));
    content = group->bound_content();
    is_taken = group->is_ready() || group->taken_at().has_value();
    return is_taken || !content.empty();
  };
  RETURN_IF_ERROR(lock_.Waiter(limited).WaitFor<VolumeGroupSnapshot>(key_, is_bound, &made));
  if (is_taken) {
    return absl::OkStatus();
  }
  const k8s::ObjectKey content_key =
      VolumeGroupSnapshotContent::Key(request_.choice.version, "", content);
  const auto known = objects::Get<VolumeGroupSnapshotContent>(limited, api_, content_key);
  if (absl::IsPermissionDenied(known.status())) {
    const auto has_time = [&](const VolumeGroupSnapshot* group) -> absl::StatusOr<bool> {
      ASSIGN_OR_RETURN(const bool bound, is_bound(group));
      return bound && is_taken;
    };
    return lock_.Waiter(limited).WaitFor<VolumeGroupSnapshot>(key_, has_time, nullptr);
  }
  RETURN_IF_ERROR(known.status());
  const auto has_handle = [&](const VolumeGroupSnapshotContent* seen) -> absl::StatusOr<bool> {
    if (seen == nullptr) {
      return absl::NotFoundError(absl::StrCat("VolumeGroupSnapshotContent ", content,
                                              " was deleted while it was being taken"));
    }
    RETURN_IF_ERROR(CheckError(seen->error()));
    return !seen->handle_or_source().empty();
  };
  return lock_.Waiter(limited).WaitFor<VolumeGroupSnapshotContent>(content_key, has_handle,
                                                                   &*known);
}

absl::StatusOr<std::vector<csi::TakenSnapshot>> GroupCreator::AwaitMembers(
    const CallContext& limited, const VolumeGroupSnapshot& made) {
  std::map<std::string, VolumeSnapshot> found;  // by PVC
  const auto all_there = [&](const VolumeSnapshot* member) -> absl::StatusOr<bool> {
    if (!member->IsMemberOf(made.uid())) {
      return false;
    }
    if (!member->bound_content().empty() &&
        (member->taken_at().has_value() || member->is_ready())) {
      found.insert_or_assign(member->source_pvc(), *member);
    }
    return std::all_of(
        request_.sources.begin(), request_.sources.end(),
        [&](const SnapshotSource& source) { return found.contains(source.pvc.name()); });
  };
  const absl::Status there =
      lock_.Waiter(limited).WaitForAmong<VolumeSnapshot>(namespace_name_, all_there);
  RETURN_IF_ERROR(AddMissing(there, request_.sources.size() - found.size()));
  std::vector<csi::TakenSnapshot> creations;
  creations.reserve(request_.sources.size());
  for (const SnapshotSource& source : request_.sources) {
    ASSIGN_OR_RETURN(csi::TakenSnapshot creation,
                     Describe(limited, found.find(source.pvc.name())->second));
    creations.push_back(std::move(creation));
  }
  std::vector<std::string>& not_checked = creations.front().not_checked;
  not_checked = lock_.not_checked();
  if (!quotas_not_checked_.empty()) {
    not_checked.push_back(quotas_not_checked_);
  }
  return creations;
}

absl::StatusOr<csi::TakenSnapshot> GroupCreator::Describe(const CallContext& limited,
                                                          const VolumeSnapshot& member) {
  ASSIGN_OR_RETURN(VolumeSnapshot snapshot,
                   objects::Apply<VolumeSnapshot>(
                       limited, api_, member.key(),
                       objects::Patch().SetLabels(Labels()).SetAnnotations(Annotations())));
  csi::TakenSnapshot creation{.snapshot = std::move(snapshot),
                              .content = {},
                              .is_content_read = false,
                              .asked_at = asked_at_,
                              .seen_taken_at = seen_taken_at_};
  auto content = objects::Get<VolumeSnapshotContent>(
      limited, api_, VolumeSnapshotContent::Key("", member.bound_content()));
  if (content.ok()) {
    creation.content = *std::move(content);
    creation.is_content_read = true;
  } else if (!absl::IsPermissionDenied(content.status())) {
    return content.status();
  }
  return creation;
}

absl::Status GroupCreator::AddMissing(const absl::Status& status, std::size_t missing) const {
  return absl::IsDeadlineExceeded(status)
             ? absl::DeadlineExceededError(absl::StrCat(
                   "the group ", request_.name, " is taken, but ", missing, " of its ",
                   request_.sources.size(), " VolumeSnapshots were not made within ",
                   absl::FormatDuration(request_.timeout),
                   quotas_not_checked_.empty() ? "" : "; a quota may have no room for them"))
             : status;
}

}  // namespace

absl::StatusOr<GroupChoice> ChooseGroup(const CallContext& ctx, k8s::ApiClient& api,
                                        const std::vector<SnapshotSource>& sources) {
  const std::string driver = sources.front().driver;
  for (const SnapshotSource& source : sources) {
    if (source.driver.empty() || source.driver != driver) {
      return absl::UnimplementedError(
          driver.empty() || source.driver.empty()
              ? "the driver of the volumes may not be read"
              : absl::StrCat("the volumes are of several drivers: ", driver, ", ", source.driver));
    }
  }
  absl::StatusOr<objects::GroupKinds> kinds = objects::FindGroupKinds(ctx, api);
  if (absl::IsNotFound(kinds.status()) || absl::IsPermissionDenied(kinds.status())) {
    return absl::UnimplementedError(kinds.status().message());
  }
  RETURN_IF_ERROR(kinds.status());
  absl::StatusOr<csi::SnapshotClassChoice> choice = csi::ChooseGroupSnapshotClass(
      {.driver = driver, .claim_annotation = "", .policy_parameter = "", .backup_annotation = ""},
      kinds->classes);
  if (absl::IsNotFound(choice.status())) {
    return absl::UnimplementedError(choice.status().message());
  }
  RETURN_IF_ERROR(choice.status());
  return GroupChoice{.version = kinds->version, .class_name = std::move(choice->name)};
}

absl::StatusOr<std::vector<csi::TakenSnapshot>> CreateGroup(const CallContext& ctx,
                                                            k8s::ApiClient& api, Random& random,
                                                            const GroupCreationRequest& request) {
  return GroupCreator(ctx, api, random, request).Create();
}

}  // namespace csidelta::snapshots
