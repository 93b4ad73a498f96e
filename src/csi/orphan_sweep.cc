#include "csi/orphan_sweep.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/drop.h"
#include "csi/group/group_lifecycle.h"
#include "csi/snapshot_lifecycle.h"
#include "csi/snapshot_need.h"
#include "k8s/api_client.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/persistent_volume.h"
#include "objects/volume_group_snapshot.h"
#include "velero/labels.h"

namespace csidelta::csi {
namespace {

using objects::PersistentVolumeClaim;
using objects::VolumeGroupSnapshot;
using objects::VolumeSnapshot;

enum class SweepAction {
  kKeep,
  kFinish,
  kMarkOwned,
  kStampMissing,
  kClearMissing,
  kSweep,
  kSweepUnseen
};

// A VolumeSnapshot, or a VolumeGroupSnapshot whose members share its action.
using Snapshot = std::variant<VolumeSnapshot, VolumeGroupSnapshot>;

const objects::Object& AsObject(const Snapshot& snapshot) {
  return std::visit([](const auto& one) -> const objects::Object& { return one; }, snapshot);
}

k8s::ObjectKey KeyOf(const Snapshot& snapshot) {
  return std::visit([](const auto& one) { return one.key(); }, snapshot);
}

template <typename Kind>
bool IsCandidate(const Kind& snapshot) {
  return IsMadeByUs(snapshot) && snapshot.Label(objects::kRestoreNameLabel).empty() &&
         !snapshot.Label(objects::kBackupNameLabel).empty() && !snapshot.is_being_deleted();
}

bool IsLate(const objects::Object& snapshot) {
  return snapshot.Annotation(objects::kDeleteWhenFilledAnnotation) == "true" &&
         !snapshot.is_being_deleted();
}

SweepAction ActionOfUnseen(const objects::Object& snapshot, absl::Time now, absl::Duration grace) {
  if (snapshot.Annotation(objects::kOwnedByBackupAnnotation) == "true") {
    return SweepAction::kKeep;
  }
  const std::optional<absl::Time> since =
      ParseRfc3339(snapshot.Annotation(objects::kBackupMissingSinceAnnotation));
  if (!since.has_value()) {
    return SweepAction::kStampMissing;
  }
  return now - *since >= grace ? SweepAction::kSweepUnseen : SweepAction::kKeep;
}

// The table in the header. Pure.
SweepAction Decide(const objects::Object& snapshot, bool is_archived, const Backups& backups,
                   absl::Time now, absl::Duration grace) {
  const auto found = backups.find(snapshot.Label(objects::kBackupNameLabel));
  if (found == backups.end()) {
    return ActionOfUnseen(snapshot, now, grace);
  }
  const objects::Backup& backup = found->second;
  const bool is_of_this_uid = snapshot.Label(objects::kBackupUidLabel) == backup.uid();
  if (backup.has_archive()) {
    if (!is_archived) {
      return SweepAction::kSweep;
    }
    if (is_of_this_uid) {
      return SweepAction::kFinish;
    }
    return snapshot.Annotation(objects::kOwnedByBackupAnnotation) == "true"
               ? SweepAction::kKeep
               : SweepAction::kMarkOwned;
  }
  if (backup.phase() == "Failed" && (is_of_this_uid || !is_archived)) {
    return SweepAction::kSweep;
  }
  return snapshot.Annotation(objects::kBackupMissingSinceAnnotation).empty()
             ? SweepAction::kKeep
             : SweepAction::kClearMissing;
}

// One pass over the managed VolumeSnapshots.
class Sweep {
 public:
  Sweep(const CallContext& ctx, const Environment& env, const velero::PluginConfig& config,
        const Backups& backups)
      : ctx_(ctx), env_(env), config_(config), backups_(backups) {}

  // Finds the driver's snapshots that a PVC is being filled from, by any VolumeSnapshot. Call it
  // before the first SweepOne().
  absl::Status FindBusyHandles(const std::vector<Snapshot>& snapshots);
  void SweepOne(const Snapshot& snapshot);

  const SweepResult& result() const { return result_; }

 private:
  using Content = std::optional<objects::Object>;
  absl::StatusOr<Content> FindContent(const Snapshot& snapshot);
  // The driver's snapshot, as a content has it that names the VolumeSnapshot. In the annotations of
  // that any writer could name the snapshot of another one, which then would never be deleted.
  static std::string HandleKey(const Snapshot& snapshot, const Content& content);

  // The annotation alone proves nothing, because every writer of the VolumeSnapshot can set it. The
  // deletion of the backup has also set the content to Delete, which only an administrator could do
  // otherwise.
  absl::Status DeleteLate(const Snapshot& snapshot);

  // True if the archive of its backup has it; nothing if that is not known.
  absl::StatusOr<std::optional<bool>> IsArchived(const Snapshot& snapshot);
  absl::StatusOr<SweepAction> ActionOf(const Snapshot& snapshot);

  // The VolumeSnapshots were listed before the Backups. A backup that was running then may have
  // archived one since. So the action is decided again on the current object.
  absl::Status Reconcile(const Snapshot& listed);
  absl::Status Apply(SweepAction action, const Snapshot& snapshot);
  absl::Status Drop(const Snapshot& snapshot, Data data);
  absl::Status Patch(const Snapshot& snapshot, const objects::Patch& patch);

  // True if the content says Delete, or there is no content. One that is not bound yet counts, too:
  // the VolumeSnapshot may name a content that an administrator made for it.
  static bool HasDeletePolicy(const Content& content) {
    return !content.has_value() || objects::DeletionPolicyOf(*content) == "Delete";
  }

  // Velero sets a content to Retain when it finishes a backup. Without the Backup, a content that
  // says Retain may be the archive's.
  absl::Status DiscardUnseen(const Snapshot& snapshot);
  absl::Status Discard(const Snapshot& snapshot);

  const CallContext& ctx_;
  const Environment& env_;
  const velero::PluginConfig& config_;
  const Backups& backups_;
  std::set<std::string> busy_handles_;
  SweepResult result_;
};

absl::Status Sweep::FindBusyHandles(const std::vector<Snapshot>& snapshots) {
  for (const Snapshot& one : snapshots) {
    const auto* const snapshot = std::get_if<VolumeSnapshot>(&one);
    if (snapshot == nullptr || !IsLate(*snapshot)) {
      continue;
    }
    const absl::StatusOr<bool> needed = IsStillNeeded(ctx_, env_, *snapshot);
    if (!needed.ok()) {
      CSIDELTA_LOG(kWarn, "orphan sweep: a volume snapshot stays, for it may be needed",
                   {"namespace", snapshot->namespace_name()}, {"volume_snapshot", snapshot->name()},
                   {"error", needed.status().ToString()});
    }
    if (needed.value_or(true)) {
      ASSIGN_OR_RETURN(const Content content, FindContent(one));
      busy_handles_.insert(HandleKey(one, content));
    }
  }
  return absl::OkStatus();
}

void Sweep::SweepOne(const Snapshot& snapshot) {
  const absl::Status status =
      IsLate(AsObject(snapshot)) ? DeleteLate(snapshot) : Reconcile(snapshot);
  if (!status.ok()) {
    CSIDELTA_LOG(kWarn, "orphan sweep: a volume snapshot could not be dealt with",
                 {"namespace", AsObject(snapshot).namespace_name()},
                 {"volume_snapshot", AsObject(snapshot).name()}, {"error", status.ToString()});
  }
}

absl::StatusOr<Sweep::Content> Sweep::FindContent(const Snapshot& snapshot) {
  const auto key = std::visit([](const auto& one) { return ContentKeyOf(one); }, snapshot);
  return objects::Find<objects::Object>(ctx_, env_.api, key);
}

std::string Sweep::HandleKey(const Snapshot& snapshot, const Content& content) {
  const auto* const one = std::get_if<VolumeSnapshot>(&snapshot);
  if (one != nullptr && content.has_value()) {
    const auto read = objects::VolumeSnapshotContent::From(*content);
    if (read.ok() && read->Names(*one)) {
      return absl::StrCat("handle:", read->driver(), "/", read->handle_or_source());
    }
  }
  return absl::StrCat("uid:", AsObject(snapshot).uid());
}

absl::Status Sweep::DeleteLate(const Snapshot& snapshot) {
  ASSIGN_OR_RETURN(const Content content, FindContent(snapshot));
  if (!HasDeletePolicy(content) || busy_handles_.contains(HandleKey(snapshot, content))) {
    ++result_.kept;
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(Drop(snapshot, Data::kDelete));
  ++result_.deleted_late;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<bool>> Sweep::IsArchived(const Snapshot& snapshot) {
  if (!std::visit([](const auto& one) { return EnteredArchive(one); }, snapshot)) {
    return false;
  }
  ASSIGN_OR_RETURN(const Content content, FindContent(snapshot));
  if (!content.has_value() ||
      objects::SnapshotUidOf(KeyOf(snapshot).type, *content) != AsObject(snapshot).uid()) {
    return true;  // Finishing deletes no data.
  }
  const std::string backup = content->Label(objects::kBackupNameLabel);
  if (backup == AsObject(snapshot).Label(objects::kBackupNameLabel)) {
    return true;
  }
  // An action of a later backup may have replaced the label.
  return backup.empty() && std::holds_alternative<VolumeSnapshot>(snapshot) ? std::optional(false)
                                                                            : std::nullopt;
}

absl::StatusOr<SweepAction> Sweep::ActionOf(const Snapshot& snapshot) {
  ASSIGN_OR_RETURN(const std::optional<bool> is_archived, IsArchived(snapshot));
  const SweepAction action = Decide(AsObject(snapshot), is_archived.value_or(true), backups_,
                                    env_.clock.Now(), config_.orphan_grace_period);
  return action == SweepAction::kFinish && !is_archived.has_value() ? SweepAction::kKeep : action;
}

absl::Status Sweep::Reconcile(const Snapshot& listed) {
  ASSIGN_OR_RETURN(const SweepAction first, ActionOf(listed));
  if (first == SweepAction::kKeep) {
    ++result_.kept;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const auto now, objects::Find<objects::Object>(ctx_, env_.api, KeyOf(listed)));
  if (!now.has_value() || now->uid() != AsObject(listed).uid()) {
    return absl::OkStatus();
  }
  if (std::holds_alternative<VolumeGroupSnapshot>(listed)) {
    ASSIGN_OR_RETURN(const Snapshot group, VolumeGroupSnapshot::From(*now));
    ASSIGN_OR_RETURN(const SweepAction action, ActionOf(group));
    return Apply(action, group);
  }
  ASSIGN_OR_RETURN(const Snapshot snapshot, VolumeSnapshot::From(*now));
  ASSIGN_OR_RETURN(const SweepAction action, ActionOf(snapshot));
  return Apply(action, snapshot);
}

absl::Status Sweep::Apply(SweepAction action, const Snapshot& snapshot) {
  switch (action) {
    case SweepAction::kSweep:
      return Discard(snapshot);
    case SweepAction::kSweepUnseen:
      return DiscardUnseen(snapshot);
    case SweepAction::kFinish:
      ++result_.finished;
      return Drop(snapshot, Data::kRetain);
    case SweepAction::kMarkOwned:
      ++result_.kept;
      return Patch(snapshot, objects::Patch()
                                 .SetAnnotation(objects::kOwnedByBackupAnnotation, "true")
                                 .RemoveAnnotation(objects::kBackupMissingSinceAnnotation));
    case SweepAction::kStampMissing:
      ++result_.kept;
      return Patch(snapshot, objects::Patch().SetAnnotation(objects::kBackupMissingSinceAnnotation,
                                                            FormatRfc3339(env_.clock.Now())));
    case SweepAction::kClearMissing:
      ++result_.kept;
      return Patch(snapshot,
                   objects::Patch().RemoveAnnotation(objects::kBackupMissingSinceAnnotation));
    case SweepAction::kKeep:
      ++result_.kept;
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status Sweep::Drop(const Snapshot& snapshot, Data data) {
  return std::visit([&](const auto& one) { return DropSnapshot(ctx_, env_.api, one, data); },
                    snapshot);
}

absl::Status Sweep::Patch(const Snapshot& snapshot, const objects::Patch& patch) {
  return k8s::IgnoreNotFound(objects::Apply(ctx_, env_.api, KeyOf(snapshot), patch));
}

absl::Status Sweep::DiscardUnseen(const Snapshot& snapshot) {
  ASSIGN_OR_RETURN(const Content content, FindContent(snapshot));
  if (!HasDeletePolicy(content)) {
    ++result_.kept;
    return absl::OkStatus();
  }
  return Discard(snapshot);
}

absl::Status Sweep::Discard(const Snapshot& snapshot) {
  RETURN_IF_ERROR(Drop(snapshot, Data::kDelete));
  ++result_.swept;
  CSIDELTA_LOG(kInfo, "swept a volume snapshot that an unfinished backup left behind",
               {"namespace", AsObject(snapshot).namespace_name()},
               {"kind", KeyOf(snapshot).type.kind}, {"volume_snapshot", AsObject(snapshot).name()},
               {"backup", AsObject(snapshot).Label(objects::kBackupNameLabel)});
  return absl::OkStatus();
}

// --- Groups

// Nothing, and a line in the log, if they could not be listed. `what`: of them.
template <typename Kind>
std::optional<std::vector<Kind>> ListedOrLogged(absl::StatusOr<std::vector<Kind>> list,
                                                absl::string_view what) {
  if (!list.ok()) {
    CSIDELTA_LOG(kInfo, absl::StrCat(what, " that failed backups left behind are not known"),
                 {"status", list.status().ToString()});
    return std::nullopt;
  }
  return *std::move(list);
}

using Groups = std::optional<std::vector<VolumeGroupSnapshot>>;  // nothing: not known

// True if the action on the group includes this VolumeSnapshot.
bool BelongsTo(const Groups& groups, const VolumeSnapshot& snapshot) {
  return !MemberGroupName(snapshot).empty() &&
         (!groups.has_value() ||
          std::any_of(groups->begin(), groups->end(), [&](const VolumeGroupSnapshot& group) {
            return snapshot.IsMemberOf(group.uid());
          }));
}

// --- Claims

// True if no process still makes the group that the PVC is labelled for. Pure.
bool IsMarkOrphaned(const PersistentVolumeClaim& claim, const Backups& backups, absl::Time now,
                    absl::Duration grace) {
  const std::string mark = claim.Label(objects::kGroupMarkLabel);
  const std::string uid = mark.substr(0, mark.rfind('.'));
  for (const auto& [name, backup] : backups) {
    if (backup.uid() == uid) {
      return backup.is_finished();
    }
  }
  const std::optional<absl::Time> marked_at = claim.labelled_at(objects::kGroupMarkLabel);
  return marked_at.has_value() && now >= *marked_at + grace;
}

// Returns how many claims lost the label.
int Unmark(const CallContext& ctx, const Environment& env, const velero::PluginConfig& config,
           const Backups& backups, const std::vector<PersistentVolumeClaim>& claims) {
  int unmarked = 0;
  for (const PersistentVolumeClaim& claim : claims) {
    if (!IsMarkOrphaned(claim, backups, env.clock.Now(), config.orphan_grace_period)) {
      continue;
    }
    const absl::Status status = UnmarkPvc(ctx, env.api, claim.key(), objects::kGroupMarkLabel,
                                          claim.Label(objects::kGroupMarkLabel));
    if (status.ok()) {
      ++unmarked;
    } else {
      CSIDELTA_LOG(kWarn, "a claim keeps a label that an unfinished backup left behind",
                   {"namespace", claim.namespace_name()}, {"pvc", claim.name()},
                   {"status", status.ToString()});
    }
  }
  return unmarked;
}

}  // namespace

absl::StatusOr<Backups> ListBackups(const CallContext& ctx, const Environment& env,
                                    const objects::Backup& running) {
  ASSIGN_OR_RETURN(auto list, objects::List<objects::Backup>(ctx, env.api, env.velero_namespace));
  Backups backups;
  for (objects::Backup& backup : list) {
    std::string label = velero::ValidLabelValue(backup.name());
    backups.emplace(std::move(label),
                    backup.Validate().ok()
                        ? std::move(backup)
                        : objects::Backup::Make(env.velero_namespace, backup.name()));
  }
  if (!backups.contains(velero::ValidLabelValue(running.name()))) {
    return absl::FailedPreconditionError(absl::StrCat(
        "Backup ", running.name(), " is running and not seen in namespace ", env.velero_namespace));
  }
  return backups;
}

absl::StatusOr<SweepResult> SweepOrphans(const CallContext& ctx, const Environment& env,
                                         const objects::Backup& running,
                                         const velero::PluginConfig& config) {
  if (!config.sweep_orphans) {
    return SweepResult();
  }
  const k8s::ListOptions of_this_velero = {
      .label_selector = absl::StrCat(objects::kCsiDeltaLabel, "=", env.velero_namespace)};
  auto snapshots = objects::List<VolumeSnapshot>(ctx, env.api, "", of_this_velero);
  if (absl::IsNotFound(snapshots.status())) {
    return SweepResult();
  }
  RETURN_IF_ERROR(snapshots.status());
  const Groups groups =
      ListedOrLogged(objects::ListGroupKind<VolumeGroupSnapshot>(ctx, env.api, "", of_this_velero),
                     "volume groups");
  const auto marked = ListedOrLogged(
      objects::List<PersistentVolumeClaim>(
          ctx, env.api, "", {.label_selector = objects::kGroupMarkLabel, .may_be_old = true}),
      "claims with labels");
  const std::string running_label = velero::ValidLabelValue(running.name());
  std::vector<Snapshot> candidates;
  const auto is_left = [&](const auto& one) {
    return IsCandidate(one) && one.Label(objects::kBackupNameLabel) != running_label;
  };
  for (const VolumeGroupSnapshot& group : groups.value_or(std::vector<VolumeGroupSnapshot>())) {
    if (IsLate(group) || is_left(group)) {
      candidates.emplace_back(group);
    }
  }
  for (VolumeSnapshot& snapshot : *snapshots) {
    if (IsLate(snapshot) || (is_left(snapshot) && !BelongsTo(groups, snapshot))) {
      candidates.emplace_back(std::move(snapshot));
    }
  }
  if (candidates.empty() && (!marked.has_value() || marked->empty())) {
    return SweepResult();
  }
  ASSIGN_OR_RETURN(const Backups backups, ListBackups(ctx, env, running));
  Sweep sweep(ctx, env, config, backups);
  RETURN_IF_ERROR(sweep.FindBusyHandles(candidates));
  for (const Snapshot& snapshot : candidates) {
    RETURN_IF_ERROR(ctx.Check());
    sweep.SweepOne(snapshot);
  }
  SweepResult result = sweep.result();
  result.unmarked = marked.has_value() ? Unmark(ctx, env, config, backups, *marked) : 0;
  return result;
}

}  // namespace csidelta::csi
