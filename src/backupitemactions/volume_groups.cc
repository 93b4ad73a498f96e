#include "backupitemactions/volume_groups.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "backupitemactions/item_results.h"
#include "base/check.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/group/moved_group.h"
#include "csi/retry.h"
#include "csi/snapshot_class.h"
#include "objects/client.h"
#include "objects/event.h"
#include "objects/keys.h"

namespace csidelta::backupitemactions {
namespace {

using objects::PersistentVolumeClaim;
using velero::VolumeDecision;

constexpr char kGroupTakenReason[] = "VolumeGroupCut";

GroupOutcome Alone(std::string reason) {
  GroupOutcome outcome;
  outcome.alone_because = std::move(reason);
  return outcome;
}

// Why a claim that carries the label is no member; "" when it is one. `wanted`: of the claim that
// the group is made for.
std::string Exclusion(const PersistentVolumeClaim& claim, const VolumeDecision& wanted,
                      const absl::StatusOr<VolumeDecision>& decision) {
  if (claim.is_being_deleted()) {
    return "the claim is being deleted";
  }
  if (claim.Label(objects::kExcludeFromBackupLabel) == "true") {
    return absl::StrCat("the claim is labelled ", objects::kExcludeFromBackupLabel);
  }
  if (!decision.ok()) {
    return std::string(decision.status().message());
  }
  if (decision->kind != wanted.kind) {
    return absl::StrCat("not the same is done with it as with the others: ", decision->reason);
  }
  if (decision->is_by_custom_rule != wanted.is_by_custom_rule) {
    return "it has a rule of type custom and the others have none, or the reverse: Velero's own "
           "action may take the rest";
  }
  const std::string own = decision->pv.driver();
  if (own != wanted.pv.driver()) {
    return absl::StrCat("its driver is ", own, ", and that of the group is ", wanted.pv.driver());
  }
  if (decision->pv.handle().empty()) {
    return "its volume has no handle";
  }
  return "";
}

bool IsToBeMoved(const ClaimBackup& claim) {
  return claim.decision.kind == VolumeDecision::Kind::kMove;
}

// The time between taking the first and the last member's snapshot, if the driver reports it.
absl::Duration TakenSpread(const csi::TakenGroup& group) {
  std::optional<absl::Time> first, last;
  for (const auto& [uid, member] : group.members) {
    if (const auto snapshot_taken_at = member.content.taken_at(); snapshot_taken_at.has_value()) {
      first = std::min(first.value_or(*snapshot_taken_at), *snapshot_taken_at);
      last = std::max(last.value_or(*snapshot_taken_at), *snapshot_taken_at);
    }
  }
  return first.has_value() ? *last - *first : absl::ZeroDuration();
}

void LogTaken(const PersistentVolumeClaim& claim, const csi::TakenGroup& group,
              absl::Duration duration) {
  const auto snapshot_taken_at = group.content.taken_at();
  CSIDELTA_LOG(
      kInfo, "volume group snapshot taken", {"namespace", claim.namespace_name()},
      {"volume_group_snapshot", group.group.name()},
      {"members", absl::StrCat(group.members.size())},
      {"group_handle", group.content.handle_or_source()},
      {"asked_at", group.group.Annotation(objects::kAskedAtAnnotation)},
      {"answered_at", group.group.Annotation(objects::kAnsweredAtAnnotation)},
      {"freeze_window", FreezeWindowText(group.group)},
      {"cut_at", snapshot_taken_at.has_value() ? FormatRfc3339(*snapshot_taken_at) : "unknown"},
      {"cut_spread_ms", absl::StrCat(absl::ToInt64Milliseconds(TakenSpread(group)))},
      {"duration_ms", absl::StrCat(absl::ToInt64Milliseconds(duration))});
}

// In the claims' namespace, where it outlives the VolumeGroupSnapshot.
void EmitTaken(const CallContext& ctx, k8s::ApiClient& api, const csi::TakenGroup& group) {
  const std::string text = absl::StrCat(
      "took snapshots of ", group.members.size(), " PVCs at one instant, freeze window ",
      FreezeWindowText(group.group), ": asked at ",
      group.group.Annotation(objects::kAskedAtAnnotation), ", the driver had answered at ",
      group.group.Annotation(objects::kAnsweredAtAnnotation));
  objects::TryEmitEvent(ctx, api, group.group, k8s::EventType::kNormal, kGroupTakenReason, text);
}

}  // namespace

std::string VolumeGroups::GroupOf(const objects::Backup& backup,
                                  const PersistentVolumeClaim& claim) {
  const std::string value = claim.Label(csi::GroupLabelKey(backup));
  return value.empty() ? "" : absl::StrCat(claim.namespace_name(), "/", value);
}

absl::StatusOr<std::shared_ptr<const GroupOutcome>> VolumeGroups::Take(const CallContext& ctx,
                                                                       const ClaimBackup& claim,
                                                                       Decide decide) {
  const bool to_be_moved = IsToBeMoved(claim);
  CSIDELTA_CHECK(to_be_moved || claim.decision.kind == VolumeDecision::Kind::kSnapshot);
  const std::string group = GroupOf(claim.backup, claim.item);
  CSIDELTA_CHECK(!group.empty());
  bool formed_now = false;
  ASSIGN_OR_RETURN(
      std::shared_ptr<const GroupOutcome> outcome,
      outcomes_.Get(
          ctx, absl::StrCat(claim.backup.uid(), to_be_moved ? "/moved/" : "/kept/", group), [&] {
            formed_now = true;
            return Form(ctx, claim, decide);
          }));
  if (!formed_now && !to_be_moved && outcome->failed.ok() && !outcome->taken.group.name().empty()) {
    RETURN_IF_ERROR(StillThere(ctx, outcome->taken.group));
  }
  return outcome;
}

absl::Status VolumeGroups::MarkAdopted(const CallContext& ctx,
                                       const objects::VolumeGroupSnapshot& group) {
  if (csi::EnteredArchive(group)) {
    return absl::OkStatus();
  }
  const k8s::ObjectKey key = group.key();
  if (!group.Annotation(objects::kGroupAdoptedAnnotation).empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "VolumeGroupSnapshot ", key.namespace_name, "/", key.name,
        " is not in the backup: the plugin ended while it was saved; back up again, which removes "
        "this one"));
  }
  return csi::RetryTransient(ctx, [&] {
    return objects::Apply(ctx, env_.api, key,
                          objects::Patch().SetAnnotation(objects::kGroupAdoptedAnnotation, "true"));
  });
}

absl::Status VolumeGroups::StillThere(const CallContext& ctx,
                                      const objects::VolumeGroupSnapshot& group) {
  const k8s::ObjectKey key = group.key();
  ASSIGN_OR_RETURN(const auto found,
                   objects::Find<objects::VolumeGroupSnapshot>(ctx, env_.api, key));
  if (found.has_value() && found->uid() == group.uid() && !found->is_being_deleted()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "VolumeGroupSnapshot ", key.namespace_name, "/", key.name,
      " was removed before all of its claims were saved; the log says why where this plugin did "
      "it; back up again"));
}

absl::StatusOr<GroupOutcome> VolumeGroups::Form(const CallContext& ctx, const ClaimBackup& claim,
                                                Decide decide) {
  const objects::Backup& backup = claim.backup;
  if (backup.uid().empty()) {
    return Alone("the Backup has no uid to make a group for");
  }
  const auto kinds = cache_.GroupKinds(ctx, backup);
  if (absl::IsNotFound(kinds.status()) || absl::IsPermissionDenied(kinds.status())) {
    return Alone(std::string(kinds.status().message()));
  }
  RETURN_IF_ERROR(kinds.status());
  ASSIGN_OR_RETURN(const Members members, FindMembers(ctx, claim, decide));
  if (members.claims.empty()) {
    return Alone("no claim that can be snapshotted carries the group's label any more");
  }
  if (members.claims.size() > csi::kGroupMembersMax) {
    return Alone(absl::StrCat("it has ", members.claims.size(), " members, and ",
                              csi::kGroupMembersMax, " are the most that a group may have"));
  }
  const absl::StatusOr<std::string> class_name =
      ChooseClass(backup, claim.decision.pv.driver(), members, **kinds);
  if (absl::IsNotFound(class_name.status())) {
    return Alone(std::string(class_name.status().message()));
  }
  if (!class_name.ok()) {
    GroupOutcome outcome;
    outcome.failed = class_name.status();
    return outcome;
  }
  return TakeFound(ctx, claim, members, **kinds, *class_name);
}

absl::StatusOr<VolumeGroups::Members> VolumeGroups::FindMembers(const CallContext& ctx,
                                                                const ClaimBackup& claim,
                                                                Decide decide) {
  const std::string key = csi::GroupLabelKey(claim.backup);
  ASSIGN_OR_RETURN(const auto labelled,
                   objects::List<PersistentVolumeClaim>(
                       ctx, env_.api, claim.item.namespace_name(),
                       {.label_selector = absl::StrCat(key, "=", claim.item.Label(key))}));
  Members members;
  for (const PersistentVolumeClaim& candidate : labelled) {
    const absl::StatusOr<VolumeDecision> decision = decide(candidate);
    if (!decision.ok()) {
      RETURN_IF_ERROR(ctx.Check());
    }
    const std::string reason = Exclusion(candidate, claim.decision, decision);
    if (!reason.empty()) {
      CSIDELTA_LOG(kWarn, "a claim is left out of its volume group",
                   {"namespace", candidate.namespace_name()}, {"pvc", candidate.name()},
                   {"volume_group", GroupOf(claim.backup, candidate)}, {"reason", reason});
      continue;
    }
    members.claims.push_back({.pvc = candidate.name(),
                              .pvc_uid = candidate.uid(),
                              .volume_handle = decision->pv.handle()});
    if (members.class_annotation.empty()) {
      members.class_annotation = candidate.Annotation(objects::kGroupSnapshotClassAnnotation);
    }
  }
  return members;
}

absl::StatusOr<std::string> VolumeGroups::ChooseClass(const objects::Backup& backup,
                                                      const std::string& driver,
                                                      const Members& members,
                                                      const objects::GroupKinds& kinds) {
  const csi::SnapshotClassRequest request{
      .driver = driver,
      .claim_annotation = members.class_annotation,
      .backup_annotation = backup.Annotation(
          absl::StrCat(objects::kBackupGroupSnapshotClassAnnotationPrefix, driver)),
  };
  ASSIGN_OR_RETURN(const csi::SnapshotClassChoice choice,
                   csi::ChooseGroupSnapshotClass(request, kinds.classes));
  for (const std::string& reason : choice.ungranted) {
    CSIDELTA_LOG(kWarn, "another volume group snapshot class is used", {"class", choice.name},
                 {"reason", reason});
  }
  return choice.name;
}

absl::StatusOr<GroupOutcome> VolumeGroups::TakeFound(const CallContext& ctx,
                                                     const ClaimBackup& claim,
                                                     const Members& members,
                                                     const objects::GroupKinds& kinds,
                                                     const std::string& class_name) {
  const std::string key = csi::GroupLabelKey(claim.backup);
  const csi::GroupRequest request{.backup = claim.backup,
                                  .namespace_name = claim.item.namespace_name(),
                                  .label_key = key,
                                  .label_value = claim.item.Label(key),
                                  .class_name = class_name,
                                  .version = kinds.version,
                                  .to_be_moved = IsToBeMoved(claim),
                                  .members = members.claims};
  const absl::Time begun_at = ctx.clock->Now();
  absl::StatusOr<csi::TakenGroup> taken = csi::TakeGroup(ctx, env_, request);
  GroupOutcome outcome;
  if (taken.ok()) {
    outcome.taken = *std::move(taken);
    LogTaken(claim.item, outcome.taken, ctx.clock->Now() - begun_at);
    EmitTaken(ctx, env_.api, outcome.taken);
    if (!request.to_be_moved) {
      outcome.failed = MarkAdopted(ctx, outcome.taken.group);
      return outcome;
    }
    auto members_alone = csi::AdoptGroup(ctx, env_, request, outcome.taken);
    if (members_alone.ok()) {
      outcome.taken.members = *std::move(members_alone);
      return outcome;
    }
    taken = members_alone.status();
  }
  RETURN_IF_ERROR(ctx.Check());
  if (absl::IsUnimplemented(taken.status())) {
    return Alone(std::string(taken.status().message()));
  }
  outcome.failed = taken.status();
  return outcome;
}

}  // namespace csidelta::backupitemactions
