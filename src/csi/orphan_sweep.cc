#include "csi/orphan_sweep.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/backup_contents.h"
#include "csi/group_lifecycle.h"
#include "csi/group_removal.h"
#include "csi/group_types.h"
#include "csi/snapshot_lifecycle.h"
#include "csi/snapshot_types.h"
#include "k8s/find.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "velero/labels.h"

namespace csidelta::csi {
namespace {

enum class Fate { kKeep, kFinish, kMarkOwned, kStampMissing, kClearMissing, kSweep, kSweepUnseen };

bool IsDone(const velero::Backup& backup) {
  return backup.phase == "Completed" || backup.phase == "PartiallyFailed";
}

bool IsGroup(const Json& snapshot) {
  return GetString(snapshot, {"kind"}) == VolumeGroupSnapshotType("v1").kind;
}

k8s::ObjectKey KeyOf(const Json& snapshot) {
  return IsGroup(snapshot) ? GroupSnapshotKey(snapshot)
                           : VolumeSnapshotKey(k8s::Namespace(snapshot), k8s::Name(snapshot));
}

bool IsArchived(const Json& snapshot) {
  return IsGroup(snapshot) ? GroupEnteredArchive(snapshot) : EnteredArchive(snapshot);
}

bool IsCandidate(const Json& snapshot) {
  const bool made_by_us = IsGroup(snapshot) ? IsGroupMadeByUs(snapshot) : IsMadeByUs(snapshot);
  return made_by_us && k8s::Label(snapshot, objects::kRestoreNameLabel).empty() &&
         !k8s::Label(snapshot, objects::kBackupNameLabel).empty() && !k8s::BeingDeleted(snapshot);
}

bool IsLate(const Json& snapshot) {
  return k8s::Annotation(snapshot, objects::kDeleteWhenFilledAnnotation) == "true" &&
         !k8s::BeingDeleted(snapshot);
}

Fate FateOfUnseen(const Json& snapshot, absl::Time now, absl::Duration grace) {
  if (k8s::Annotation(snapshot, objects::kOwnedByBackupAnnotation) == "true") {
    return Fate::kKeep;
  }
  const std::optional<absl::Time> since =
      ParseRfc3339(k8s::Annotation(snapshot, objects::kBackupMissingSinceAnnotation));
  if (!since.has_value()) {
    return Fate::kStampMissing;
  }
  return now - *since >= grace ? Fate::kSweepUnseen : Fate::kKeep;
}

// The table in the header. Pure.
Fate Decide(const Json& snapshot, const Backups& backups, absl::Time now, absl::Duration grace) {
  const auto found = backups.find(k8s::Label(snapshot, objects::kBackupNameLabel));
  if (found == backups.end()) {
    return FateOfUnseen(snapshot, now, grace);
  }
  const velero::Backup& backup = found->second;
  if (IsDone(backup)) {
    if (!IsArchived(snapshot)) {
      return Fate::kSweep;
    }
    if (k8s::Label(snapshot, objects::kBackupUidLabel) == backup.uid) {
      return Fate::kFinish;
    }
    return k8s::Annotation(snapshot, objects::kOwnedByBackupAnnotation) == "true"
               ? Fate::kKeep
               : Fate::kMarkOwned;
  }
  if (backup.phase == "Failed" &&
      (k8s::Label(snapshot, objects::kBackupUidLabel) == backup.uid || !IsArchived(snapshot))) {
    return Fate::kSweep;
  }
  return k8s::Annotation(snapshot, objects::kBackupMissingSinceAnnotation).empty()
             ? Fate::kKeep
             : Fate::kClearMissing;
}

// One pass over the VolumeSnapshots of ours.
class Sweep {
 public:
  Sweep(const CallContext& ctx, const Environment& env, const velero::PluginConfig& config,
        const Backups& backups)
      : ctx_(ctx), env_(env), config_(config), backups_(backups) {}

  // Of which of the driver's snapshots is a claim still being filled, through whichever
  // VolumeSnapshot? Before the first Look().
  absl::Status FindBusyHandles(const std::vector<Json>& snapshots);
  void Look(const Json& snapshot);

  const SweepResult& result() const { return result_; }

 private:
  static std::string HandleKey(const Json& snapshot);

  // The annotation alone proves nothing, because whoever may write the VolumeSnapshot may set it:
  // deleting the backup has set the content to Delete, which only an administrator could do else.
  absl::Status ReleaseLate(const Json& snapshot);

  Fate FateOf(const Json& snapshot) const {
    return Decide(snapshot, backups_, env_.clock.Now(), config_.orphan_grace_period);
  }

  // The VolumeSnapshots were listed before the Backups, and one of a backup that was running then
  // may have entered its archive since: whatever is to be done is decided again on what it is now.
  absl::Status Settle(const Json& listed);
  absl::Status Apply(Fate fate, const Json& snapshot);
  absl::Status Remove(const Json& snapshot);
  absl::Status PatchAnnotations(const Json& snapshot, const Json& annotations);

  // Whether the driver's snapshot is meant to go with the VolumeSnapshot, or there is no content.
  absl::StatusOr<bool> ContentSaysDelete(const Json& snapshot);

  // Velero sets a content to Retain when it finishes a backup. Where the Backup is not there to
  // ask, a content that says Retain may be the archive's.
  absl::Status DiscardUnseen(const Json& snapshot);
  absl::Status Discard(const Json& snapshot);

  const CallContext& ctx_;
  const Environment& env_;
  const velero::PluginConfig& config_;
  const Backups& backups_;
  std::set<std::string> busy_handles_;
  SweepResult result_;
};

absl::Status Sweep::FindBusyHandles(const std::vector<Json>& snapshots) {
  for (const Json& snapshot : snapshots) {
    if (!IsLate(snapshot)) {
      continue;
    }
    ASSIGN_OR_RETURN(const bool needed, IsStillNeeded(ctx_, env_, snapshot));
    if (needed) {
      busy_handles_.insert(HandleKey(snapshot));
    }
  }
  return absl::OkStatus();
}

void Sweep::Look(const Json& snapshot) {
  const absl::Status status = IsLate(snapshot) ? ReleaseLate(snapshot) : Settle(snapshot);
  if (!status.ok()) {
    CSIDELTA_LOG(kWarn, "orphan sweep: a volume snapshot could not be dealt with",
                 {"namespace", k8s::Namespace(snapshot)}, {"volume_snapshot", k8s::Name(snapshot)},
                 {"error", status.ToString()});
  }
}

std::string Sweep::HandleKey(const Json& snapshot) {
  const std::string handle = k8s::Annotation(snapshot, objects::kVolumeSnapshotHandleAnnotation);
  return handle.empty() ? absl::StrCat("uid:", k8s::Uid(snapshot))
                        : absl::StrCat("handle:", handle);
}

absl::Status Sweep::ReleaseLate(const Json& snapshot) {
  ASSIGN_OR_RETURN(const bool deletes, ContentSaysDelete(snapshot));
  if (!deletes || busy_handles_.contains(HandleKey(snapshot))) {
    ++result_.kept;
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(Remove(snapshot));
  ++result_.released;
  return absl::OkStatus();
}

absl::Status Sweep::Settle(const Json& listed) {
  if (FateOf(listed) == Fate::kKeep) {
    ++result_.kept;
    return absl::OkStatus();
  }
  const absl::StatusOr<Json> now = env_.api.Get(ctx_, KeyOf(listed));
  if (absl::IsNotFound(now.status()) || (now.ok() && k8s::Uid(*now) != k8s::Uid(listed))) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(now.status());
  return Apply(FateOf(*now), *now);
}

absl::Status Sweep::Apply(Fate fate, const Json& snapshot) {
  switch (fate) {
    case Fate::kSweep:
      return Discard(snapshot);
    case Fate::kSweepUnseen:
      return DiscardUnseen(snapshot);
    case Fate::kFinish:
      ++result_.finished;
      return IsGroup(snapshot) ? RetainAndForgetGroup(ctx_, env_.api, snapshot)
                               : RetainAndForget(ctx_, env_.api, snapshot);
    case Fate::kMarkOwned:
      ++result_.kept;
      return PatchAnnotations(snapshot, {{objects::kOwnedByBackupAnnotation, "true"},
                                         {objects::kBackupMissingSinceAnnotation, nullptr}});
    case Fate::kStampMissing:
      ++result_.kept;
      return PatchAnnotations(
          snapshot, {{objects::kBackupMissingSinceAnnotation, FormatRfc3339(env_.clock.Now())}});
    case Fate::kClearMissing:
      ++result_.kept;
      return PatchAnnotations(snapshot, {{objects::kBackupMissingSinceAnnotation, nullptr}});
    case Fate::kKeep:
      ++result_.kept;
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status Sweep::Remove(const Json& snapshot) {
  if (IsGroup(snapshot)) {
    return RemoveGroup(ctx_, env_.api, snapshot);
  }
  return RemoveSnapshot(ctx_, env_.api,
                        VolumeSnapshotKey(k8s::Namespace(snapshot), k8s::Name(snapshot)),
                        k8s::Uid(snapshot));
}

absl::Status Sweep::PatchAnnotations(const Json& snapshot, const Json& annotations) {
  const absl::Status status = env_.api
                                  .Patch(ctx_, KeyOf(snapshot), k8s::PatchKind::kMerge,
                                         Json{{"metadata", {{"annotations", annotations}}}}, "")
                                  .status();
  return k8s::IgnoreNotFound(status);
}

absl::StatusOr<bool> Sweep::ContentSaysDelete(const Json& snapshot) {
  const k8s::ObjectKey key =
      IsGroup(snapshot) ? GroupContentKey(GroupVersionOf(snapshot), BoundGroupContentName(snapshot))
                        : VolumeSnapshotContentKey(BoundContentName(snapshot));
  if (key.name.empty()) {
    return true;
  }
  const absl::StatusOr<Json> content = env_.api.Get(ctx_, key);
  if (absl::IsNotFound(content.status())) {
    return true;
  }
  RETURN_IF_ERROR(content.status());
  return GetString(*content, {"spec", "deletionPolicy"}) == "Delete";
}

absl::Status Sweep::DiscardUnseen(const Json& snapshot) {
  ASSIGN_OR_RETURN(const bool deletes, ContentSaysDelete(snapshot));
  if (!deletes) {
    ++result_.kept;
    return absl::OkStatus();
  }
  return Discard(snapshot);
}

absl::Status Sweep::Discard(const Json& snapshot) {
  RETURN_IF_ERROR(Remove(snapshot));
  ++result_.swept;
  CSIDELTA_LOG(kInfo, "swept a volume snapshot that an unfinished backup left behind",
               {"namespace", k8s::Namespace(snapshot)}, {"kind", GetString(snapshot, {"kind"})},
               {"volume_snapshot", k8s::Name(snapshot)},
               {"backup", k8s::Label(snapshot, objects::kBackupNameLabel)});
  return absl::OkStatus();
}

// --- Groups

// What there is of the volume groups of this Velero.
struct Groups {
  std::vector<Json> groups;
  std::set<std::string> uids;
  bool known = true;  // they could be listed
};

Groups ListGroups(const CallContext& ctx, const Environment& env) {
  Groups found;
  for (const char* const version : kGroupVersions) {
    absl::StatusOr<k8s::ObjectList> list = env.api.List(
        ctx, VolumeGroupSnapshotType(version), "",
        {.label_selector = absl::StrCat(objects::kCsiDeltaLabel, "=", env.velero_namespace),
         .field_selector = ""});
    if (absl::IsNotFound(list.status())) {
      continue;
    }
    if (!list.ok()) {
      CSIDELTA_LOG(kInfo, "volume groups that failed backups left behind are not known",
                   {"status", list.status().ToString()});
      found.known = false;
      return found;
    }
    for (const Json& group : list->items) {
      found.uids.insert(k8s::Uid(group));
    }
    found.groups = std::move(list->items);
    return found;
  }
  return found;
}

// Whether a VolumeSnapshot's fate is that of its group.
bool BelongsTo(const Groups& groups, const Json& snapshot) {
  if (MemberGroupName(snapshot).empty()) {
    return false;
  }
  return !groups.known ||
         std::any_of(groups.uids.begin(), groups.uids.end(),
                     [&snapshot](const std::string& uid) { return IsMemberOf(snapshot, uid); });
}

// --- Claims

std::vector<Json> ListMarkedClaims(const CallContext& ctx, const Environment& env) {
  absl::StatusOr<k8s::ObjectList> claims = env.api.List(
      ctx, PersistentVolumeClaimType(), "",
      {.label_selector = objects::kGroupMarkLabel, .field_selector = "", .may_be_old = true});
  if (!claims.ok()) {
    CSIDELTA_LOG(kInfo, "claims with labels that failed backups left behind are not known",
                 {"status", claims.status().ToString()});
    return {};
  }
  return std::move(claims->items);
}

// When the label was written, from metadata.managedFields.
std::optional<absl::Time> MarkedAt(const Json& claim) {
  const std::string field = absl::StrCat("f:", objects::kGroupMarkLabel);
  const Json* fields = FindJson(claim, {"metadata", "managedFields"});
  if (fields == nullptr || !fields->is_array()) {
    return std::nullopt;
  }
  for (const Json& entry : *fields) {
    if (FindJson(entry, {"fieldsV1", "f:metadata", "f:labels", field}) != nullptr) {
      return ParseRfc3339(GetString(entry, {"time"}));
    }
  }
  return std::nullopt;
}

// Whether nobody makes the group any more for which the claim is labelled. Pure.
bool MarkIsLeftOver(const Json& claim, const Backups& backups, absl::Time now,
                    absl::Duration grace) {
  const std::string mark = k8s::Label(claim, objects::kGroupMarkLabel);
  const std::string uid = mark.substr(0, mark.rfind('.'));
  for (const auto& [name, backup] : backups) {
    if (backup.uid == uid) {
      return backup.Finished();
    }
  }
  const std::optional<absl::Time> marked_at = MarkedAt(claim);
  return marked_at.has_value() && now >= *marked_at + grace;
}

// Returns how many claims lost the label.
int Unmark(const CallContext& ctx, const Environment& env, const velero::PluginConfig& config,
           const Backups& backups, const std::vector<Json>& claims) {
  int unmarked = 0;
  for (const Json& claim : claims) {
    if (!MarkIsLeftOver(claim, backups, env.clock.Now(), config.orphan_grace_period)) {
      continue;
    }
    const absl::Status status =
        UnmarkClaim(ctx, env.api, ClaimKey(k8s::Namespace(claim), k8s::Name(claim)),
                    k8s::Label(claim, objects::kGroupMarkLabel));
    if (status.ok()) {
      ++unmarked;
    } else {
      CSIDELTA_LOG(kWarn, "a claim keeps a label that an unfinished backup left behind",
                   {"namespace", k8s::Namespace(claim)}, {"pvc", k8s::Name(claim)},
                   {"status", status.ToString()});
    }
  }
  return unmarked;
}

}  // namespace

absl::StatusOr<Backups> ListBackups(const CallContext& ctx, const Environment& env,
                                    const velero::Backup& running) {
  ASSIGN_OR_RETURN(const k8s::ObjectList list,
                   env.api.List(ctx, BackupType(), env.velero_namespace, {}));
  Backups backups;
  for (const Json& object : list.items) {
    absl::StatusOr<velero::Backup> backup = velero::ParseBackup(object);
    if (!backup.ok()) {
      backup = velero::Backup();
      backup->name = k8s::Name(object);
    }
    std::string label = velero::ValidLabelValue(backup->name);
    backups.emplace(std::move(label), *std::move(backup));
  }
  if (!backups.contains(velero::ValidLabelValue(running.name))) {
    return absl::FailedPreconditionError(absl::StrCat(
        "Backup ", running.name, " is running and not seen in namespace ", env.velero_namespace));
  }
  return backups;
}

absl::StatusOr<SweepResult> SweepOrphans(const CallContext& ctx, const Environment& env,
                                         const velero::Backup& running,
                                         const velero::PluginConfig& config) {
  if (!config.sweep_orphans) {
    return SweepResult();
  }
  absl::StatusOr<k8s::ObjectList> snapshots = env.api.List(
      ctx, VolumeSnapshotType(), "",
      {.label_selector = absl::StrCat(objects::kCsiDeltaLabel, "=", env.velero_namespace),
       .field_selector = ""});
  if (absl::IsNotFound(snapshots.status())) {
    return SweepResult();
  }
  RETURN_IF_ERROR(snapshots.status());
  Groups groups = ListGroups(ctx, env);
  const std::vector<Json> marked = ListMarkedClaims(ctx, env);
  const std::string running_label = velero::ValidLabelValue(running.name);
  std::vector<Json> candidates;
  const auto add = [&](Json& snapshot) {
    if (IsLate(snapshot) || (IsCandidate(snapshot) &&
                             k8s::Label(snapshot, objects::kBackupNameLabel) != running_label &&
                             !BelongsTo(groups, snapshot))) {
      candidates.push_back(std::move(snapshot));
    }
  };
  std::for_each(groups.groups.begin(), groups.groups.end(), add);
  std::for_each(snapshots->items.begin(), snapshots->items.end(), add);
  if (candidates.empty() && marked.empty()) {
    return SweepResult();
  }
  ASSIGN_OR_RETURN(const Backups backups, ListBackups(ctx, env, running));
  Sweep sweep(ctx, env, config, backups);
  RETURN_IF_ERROR(sweep.FindBusyHandles(candidates));
  for (const Json& snapshot : candidates) {
    RETURN_IF_ERROR(ctx.Check());
    sweep.Look(snapshot);
  }
  SweepResult result = sweep.result();
  result.unmarked = Unmark(ctx, env, config, backups, marked);
  return result;
}

}  // namespace csidelta::csi
