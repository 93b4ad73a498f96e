#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "base/quantity.h"
#include "base/status_macros.h"
#include "csi/environment.h"
#include "csi/expose/data_transfer.h"
#include "k8s/event_recorder.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/event.h"
#include "objects/keys.h"
#include "objects/persistent_volume.h"
#include "objects/volume_snapshot.h"
#include "restoreitemactions/actions.h"
#include "restoreitemactions/claim_operation.h"
#include "restoreitemactions/claim_rewrite.h"
#include "restoreitemactions/data_download.h"
#include "velero/labels.h"

namespace csidelta::restoreitemactions {
namespace {

using objects::PersistentVolumeClaim;
using objects::VolumeSnapshot;

// What the host waits longer than we do, so that our error is the one that is shown.
constexpr absl::Duration kReadyTimeoutSlack = absl::Seconds(30);
constexpr char kDownloadPrefix[] = "dd-";

// One claim on its way into the cluster.
struct ClaimRestore {
  objects::Restore restore;
  std::string original_namespace;
  std::string target_namespace;
  std::string claim_name;
  std::string original_snapshot;          // the VolumeSnapshot's name in the backup
  std::string data_upload;                // "<namespace>/<name>" in the backup's cluster, or ""
  std::string provisioner;                // that made its volume; "" when the archive does not say
  std::optional<int64_t> capacity_bytes;  // in the backup
};

// The VolumeSnapshot that this backup took of the claim's volume, by its name in the archive; ""
// when it took none. A claim that was restored once, and whose volume this backup did not take, may
// still carry the annotation of its earlier backup; then the label beside it is that backup's too.
std::string SnapshotInBackup(const PersistentVolumeClaim& item_from_backup,
                             const std::string& backup_name) {
  const std::string label = item_from_backup.Label(objects::kBackupNameLabel);
  const bool of_this_backup =
      label.empty() || label == backup_name || label == velero::ValidLabelValue(backup_name);
  return of_this_backup ? item_from_backup.Annotation(objects::kVolumeSnapshotNameAnnotation) : "";
}

// The DataUpload that moved the claim's volume in this backup; "" when none exists, as far as the
// claim tells. Without a VolumeSnapshot beside it only the backup's own label makes it count.
std::string UploadInBackup(const PersistentVolumeClaim& item_from_backup,
                           const ClaimRestore& claim) {
  const std::string label = item_from_backup.Label(objects::kBackupNameLabel);
  const bool counts = !claim.original_snapshot.empty() ||
                      label == velero::ValidLabelValue(claim.restore.backup_name());
  return counts ? item_from_backup.Annotation(objects::kDataUploadNameAnnotation) : "";
}

std::string ProvisionerOf(const PersistentVolumeClaim& claim) {
  const std::string provisioner = claim.Annotation(objects::kStorageProvisionerAnnotation);
  return provisioner.empty() ? claim.Annotation(objects::kBetaStorageProvisionerAnnotation)
                             : provisioner;
}

// The VolumeSnapshot that Velero's own action has made the claim's source, "" when it has not:
// under the restored name, or, as Velero 1.14 and 1.15 do, under the original one.
std::string SourceSetByVelero(const PersistentVolumeClaim& item, const ClaimRestore& claim) {
  const std::optional<objects::DataSource> source = item.data_source();
  if (!item.volume_name().empty() || !source.has_value() ||
      source->kind != VolumeSnapshot::kKind.kind) {
    return "";
  }
  const std::string& name = source->name;
  const std::string restored =
      velero::RestoredSnapshotName(claim.restore.uid(), claim.original_snapshot);
  return name == restored || name == claim.original_snapshot ? name : "";
}

// The size of the snapshot as the restored VolumeSnapshot tells it; nothing when it does not.
std::optional<int64_t> RestoreSizeOf(const VolumeSnapshot& snapshot) {
  for (const char* const key :
       {objects::kRestoreSizeAnnotation, objects::kMisspeltRestoreSizeAnnotation}) {
    const absl::StatusOr<int64_t> size_bytes = ParseQuantity(snapshot.Annotation(key));
    if (size_bytes.ok() && *size_bytes > 0) {
      return *size_bytes;
    }
  }
  return snapshot.restore_size_bytes();
}

// Drivers refuse a volume smaller than its snapshot, and some a larger one. If a resize was pending
// in the backup, the snapshot has the size before it.
bool FitRequest(const CallContext& ctx, const csi::Environment& env, const ClaimRestore& claim,
                const VolumeSnapshot& snapshot, PersistentVolumeClaim& item) {
  const int64_t requested = item.requested_bytes().value_or(0);
  const int64_t had = std::min(requested, claim.capacity_bytes.value_or(requested));
  const int64_t fitting = std::max(had, RestoreSizeOf(snapshot).value_or(requested));
  if (fitting == requested) {
    return false;
  }
  item.SetRequestedQuantity(FormatBinaryQuantity(fitting));
  if (fitting < requested) {
    const std::string text = absl::StrCat(
        "PVC ", claim.target_namespace, "/", claim.claim_name, " is restored with ",
        FormatBinaryQuantity(fitting), ", which it had in the backup; when it is bound, request ",
        FormatBinaryQuantity(requested), " again");
    CSIDELTA_LOG(kWarn, "a resize was pending in the backup", {"reason", text});
    objects::TryEmitEvent(ctx, env.api, claim.restore, k8s::EventType::kWarning, "ResizeWasPending",
                          text);
  }
  return true;
}

// Its Pod refuses one that was not made for it, and Kubernetes makes that.
bool IsOfEphemeralVolume(const PersistentVolumeClaim& archived) {
  const std::vector<objects::OwnerReference> owners = archived.owners();
  return std::any_of(owners.begin(), owners.end(), [&](const objects::OwnerReference& owner) {
    return owner.is_controller && owner.kind == "Pod" &&
           absl::StartsWith(archived.name(), absl::StrCat(owner.name, "-"));
  });
}

// Kubernetes fills a PVC from its source if the backup has no data of it and brings no volume.
void ReportSource(const CallContext& ctx, const csi::Environment& env, const ClaimRestore& claim,
                  const PersistentVolumeClaim& item) {
  const std::optional<objects::DataSource> ref = item.data_source_ref();
  const std::optional<objects::DataSource> source = ref.has_value() ? ref : item.data_source();
  if (!source.has_value()) {
    return;
  }
  if (source->kind == VolumeSnapshot::kKind.kind) {
    const auto found =
        objects::Find<VolumeSnapshot>(ctx, env.api, claim.target_namespace, source->name);
    if (found.ok() && found->has_value()) {
      return;
    }
  }
  const std::string text = absl::StrCat(
      "the backup has no data of PVC ", claim.target_namespace, "/", claim.claim_name,
      ", whose source is ", source->kind, " ", source->name,
      ": if neither the archive nor the cluster has that, it stays Pending without a volume");
  CSIDELTA_LOG(kWarn, "a PVC without data waits for its source", {"reason", text});
  objects::TryEmitEvent(ctx, env.api, claim.restore, k8s::EventType::kWarning, "SourceMayBeMissing",
                        text);
}

class PvcAction : public velero::ActionOn<velero::RestoreItemAction> {
 public:
  explicit PvcAction(const csi::Environment& env) : ActionOn("persistentvolumeclaims"), env_(env) {}

  absl::StatusOr<velero::RestoreItemResult> Execute(const CallContext& ctx,
                                                    const objects::Object& item,
                                                    const objects::Object& item_from_backup,
                                                    const objects::Object& restore_object) override;
  absl::StatusOr<velero::OperationProgress> Progress(
      const CallContext& ctx, absl::string_view operation_id,
      const objects::Object& restore_object) override;

  // Where no data mover is at work the claim goes on waiting for its volume.
  absl::Status Cancel(const CallContext& ctx, absl::string_view operation_id,
                      const objects::Object& restore_object) override;
  absl::StatusOr<bool> AreAdditionalItemsReady(const CallContext& ctx,
                                               const std::vector<velero::ResourceIdentifier>& items,
                                               const objects::Object& restore_object) override;

 private:
  static bool IsDownload(absl::string_view operation_id) {
    return absl::StartsWith(operation_id, kDownloadPrefix);
  }

  static csi::Transfer<objects::DataDownload> OperationOf(const objects::Object& restore,
                                                          absl::string_view operation_id);

  // Without an answer in time the claim is made. The host would make an error of it.
  absl::StatusOr<bool> WaitedLongEnough(const CallContext& ctx, const VolumeSnapshot& snapshot);
  // The backup, if a data mover holds what it took of the claim.
  absl::StatusOr<std::optional<objects::Backup>> FindMovingBackup(const CallContext& ctx,
                                                                  const ClaimRestore& claim);
  // The command that brings the data into a claim that exists; "" where none is known.
  std::string CommandFor(const CallContext& ctx, const ClaimRestore& claim,
                         const PersistentVolumeClaim& archived);
  absl::StatusOr<bool> FillFromBackup(const CallContext& ctx, const ClaimRestore& claim,
                                      const PersistentVolumeClaim& item_from_backup,
                                      PersistentVolumeClaim& item,
                                      velero::RestoreItemResult& result);

  // A data mover holds the data, and brings the volume. Returns whether the item changed.
  absl::StatusOr<bool> FillByMover(const CallContext& ctx, const ClaimRestore& claim,
                                   const MovedClaim& moved, PersistentVolumeClaim& item,
                                   velero::RestoreItemResult& result);

  // Makes the VolumeSnapshot the claim's source. Returns whether the item changed.
  absl::StatusOr<bool> FillFromSnapshot(const CallContext& ctx, const ClaimRestore& claim,
                                        PersistentVolumeClaim& item,
                                        velero::RestoreItemResult& result);

  // Fails when the driver says that it has no such snapshot. When it says nothing in time, the
  // claim is made all the same and its operation goes on looking.
  absl::Status RequireSnapshot(const CallContext& ctx, const ClaimRestore& claim,
                               const VolumeSnapshot& snapshot);

  const csi::Environment env_;
};

absl::StatusOr<velero::RestoreItemResult> PvcAction::Execute(
    const CallContext& ctx, const objects::Object& item, const objects::Object& item_from_backup,
    const objects::Object& restore_object) {
  ClaimRestore claim;
  ASSIGN_OR_RETURN(claim.restore, objects::Restore::Parse(restore_object));
  ASSIGN_OR_RETURN(PersistentVolumeClaim changed_item, PersistentVolumeClaim::From(item));
  ASSIGN_OR_RETURN(const PersistentVolumeClaim archived,
                   PersistentVolumeClaim::From(item_from_backup));
  claim.original_namespace = archived.namespace_name();
  claim.target_namespace = claim.restore.MapNamespace(claim.original_namespace);
  claim.claim_name = archived.name();
  claim.original_snapshot = SnapshotInBackup(archived, claim.restore.backup_name());
  claim.data_upload = UploadInBackup(archived, claim);
  claim.provisioner = ProvisionerOf(archived);
  claim.capacity_bytes = archived.capacity_bytes();

  bool changed = StripBackupMarks(changed_item);
  velero::RestoreItemResult result;
  if (claim.restore.RestoresPods() && IsOfEphemeralVolume(archived)) {
    CSIDELTA_LOG(kWarn, "a generic ephemeral volume is not restored: its Pod gets a new one",
                 {"namespace", claim.target_namespace}, {"pvc", claim.claim_name});
    result.skip_restore = true;
    return result;
  }
  const bool without_data = claim.restore.is_without_data();
  if (without_data || !claim.original_snapshot.empty() || !claim.data_upload.empty()) {
    ASSIGN_OR_RETURN(const auto existing,
                     objects::Find<PersistentVolumeClaim>(ctx, env_.api, claim.target_namespace,
                                                          claim.claim_name));
    // Velero keeps it, too. Data of a backup must not get below an application that may run.
    if (existing.has_value()) {
      if (!without_data) {
        ReportWithoutData(ctx, env_, claim.restore, archived, *existing,
                          CommandFor(ctx, claim, archived));
      }
      if (claim.restore.updates_existing()) {
        KeepVolume(*existing, changed_item);
        result.item = std::move(changed_item);
      }
      return result;
    }
    ASSIGN_OR_RETURN(const bool rewritten,
                     without_data ? absl::StatusOr<bool>(ClearVolume(changed_item))
                                  : FillFromBackup(ctx, claim, archived, changed_item, result));
    changed |= rewritten;
  } else {
    ReportSource(ctx, env_, claim, changed_item);
  }
  if (changed) {
    result.item = std::move(changed_item);
  }
  return result;
}

absl::StatusOr<velero::OperationProgress> PvcAction::Progress(
    const CallContext& ctx, absl::string_view operation_id, const objects::Object& restore_object) {
  if (IsDownload(operation_id)) {
    return OperationOf(restore_object, operation_id).Progress(ctx, env_);
  }
  return CheckClaim(ctx, env_, operation_id);
}

absl::Status PvcAction::Cancel(const CallContext& ctx, absl::string_view operation_id,
                               const objects::Object& restore_object) {
  return IsDownload(operation_id) ? OperationOf(restore_object, operation_id).Cancel(ctx, env_.api)
                                  : CancelClaim(ctx, env_, operation_id);
}

absl::StatusOr<bool> PvcAction::AreAdditionalItemsReady(
    const CallContext& ctx, const std::vector<velero::ResourceIdentifier>& items,
    const objects::Object& restore_object) {
  ASSIGN_OR_RETURN(const objects::Restore restore, objects::Restore::Parse(restore_object));
  for (const velero::ResourceIdentifier& item : items) {
    if (item.resource != VolumeSnapshot::Type().plural) {
      continue;
    }
    const auto snapshot =
        objects::Get<VolumeSnapshot>(ctx, env_.api, restore.MapNamespace(item.namespace_name),
                                     velero::RestoredSnapshotName(restore.uid(), item.name));
    // The operation of the claim finds out why: waiting here would fail the item.
    if (!snapshot.ok()) {
      continue;
    }
    ASSIGN_OR_RETURN(const ContentState state, InspectContent(ctx, env_, *snapshot));
    if (state.kind == ContentState::Kind::kPending) {
      ASSIGN_OR_RETURN(const bool long_enough, WaitedLongEnough(ctx, *snapshot));
      if (!long_enough) {
        return false;
      }
    }
    if (state.kind == ContentState::Kind::kGone) {
      return absl::NotFoundError(absl::StrCat("volumesnapshot ", item.namespace_name, "/",
                                              item.name, ": the driver has no snapshot ",
                                              state.handle, ": ", state.message));
    }
  }
  return true;
}

csi::Transfer<objects::DataDownload> PvcAction::OperationOf(const objects::Object& restore,
                                                            absl::string_view operation_id) {
  return {.namespace_name = restore.namespace_name(), .operation_id = std::string(operation_id)};
}

absl::StatusOr<bool> PvcAction::WaitedLongEnough(const CallContext& ctx,
                                                 const VolumeSnapshot& snapshot) {
  ASSIGN_OR_RETURN(const velero::PluginConfig config, csi::ReadPluginConfig(ctx, env_));
  const auto made = snapshot.created_at();
  return made.has_value() && env_.clock.Now() >= *made + config.restore_content_wait;
}

absl::StatusOr<std::optional<objects::Backup>> PvcAction::FindMovingBackup(
    const CallContext& ctx, const ClaimRestore& claim) {
  if (claim.data_upload.empty()) {
    return std::optional<objects::Backup>();
  }
  ASSIGN_OR_RETURN(auto backup,
                   objects::Get<objects::Backup>(ctx, env_.api, claim.restore.namespace_name(),
                                                 claim.restore.backup_name()));
  // Only where data were moved is the annotation certain to be this backup's.
  const bool is_moved = backup.snapshot_move_data() || claim.original_snapshot.empty();
  return is_moved ? std::optional(std::move(backup)) : std::nullopt;
}

std::string PvcAction::CommandFor(const CallContext& ctx, const ClaimRestore& claim,
                                  const PersistentVolumeClaim& archived) {
  const absl::StatusOr<std::optional<objects::Backup>> moving = FindMovingBackup(ctx, claim);
  if (!moving.ok()) {
    return "";
  }
  if (moving->has_value()) {
    return UploadCommand(ctx, env_, {claim.restore, **moving, archived, claim.target_namespace})
        .value_or("");
  }
  const std::string restored =
      velero::RestoredSnapshotName(claim.restore.uid(), claim.original_snapshot);
  for (const std::string& name : {restored, claim.original_snapshot}) {
    const auto found = objects::Find<VolumeSnapshot>(ctx, env_.api, claim.target_namespace, name);
    // Velero 1.14 and 1.15 keep the name, which another VolumeSnapshot may have.
    if (found.ok() && found->has_value() &&
        (name == restored || (*found)->Label(objects::kRestoreNameLabel) ==
                                 velero::ValidLabelValue(claim.restore.name()))) {
      return absl::StrCat("csi-delta snapshot restore ", name, " --into ", claim.claim_name, " -n ",
                          claim.target_namespace, " --yes");
    }
  }
  return "";
}

absl::StatusOr<bool> PvcAction::FillFromBackup(const CallContext& ctx, const ClaimRestore& claim,
                                               const PersistentVolumeClaim& item_from_backup,
                                               PersistentVolumeClaim& item,
                                               velero::RestoreItemResult& result) {
  RETURN_IF_ERROR(
      Annotate(RequireVolumeIsNotReserved(ctx, env_, claim.target_namespace, item_from_backup),
               absl::StrCat("persistentvolumeclaim ", claim.target_namespace, "/", claim.claim_name,
                            " cannot be restored")));
  ASSIGN_OR_RETURN(const std::optional<objects::Backup> moving, FindMovingBackup(ctx, claim));
  if (!moving.has_value()) {
    return FillFromSnapshot(ctx, claim, item, result);
  }
  return FillByMover(ctx, claim,
                     {.restore = claim.restore,
                      .backup = *moving,
                      .item_from_backup = item_from_backup,
                      .target_namespace = claim.target_namespace},
                     item, result);
}

absl::StatusOr<bool> PvcAction::FillByMover(const CallContext& ctx, const ClaimRestore& claim,
                                            const MovedClaim& moved, PersistentVolumeClaim& item,
                                            velero::RestoreItemResult& result) {
  if (IsAwaitedByVelero(item, moved.item_from_backup)) {
    CSIDELTA_LOG(kInfo, "claim left alone", {"namespace", claim.target_namespace},
                 {"pvc", claim.claim_name},
                 {"reason", "another action asked a data mover for its data"});
    return false;
  }
  StripBinding(item);
  item.RemoveDataSource();
  RETURN_IF_ERROR(AskForData(ctx, env_, moved, item));
  result.operation_id = DownloadOf(moved).operation_id;
  CSIDELTA_CHECK(IsDownload(result.operation_id));  // Progress() and Cancel() tell it by that.
  return true;
}

absl::StatusOr<bool> PvcAction::FillFromSnapshot(const CallContext& ctx, const ClaimRestore& claim,
                                                 PersistentVolumeClaim& item,
                                                 velero::RestoreItemResult& result) {
  std::string source = SourceSetByVelero(item, claim);
  const bool by_velero = !source.empty();
  bool changed = StripBinding(item);
  if (!by_velero) {
    source = velero::RestoredSnapshotName(claim.restore.uid(), claim.original_snapshot);
    item.SetSourceSnapshot(source);
    result.additional_items.push_back(
        velero::Identify(VolumeSnapshot::Key(claim.original_namespace, claim.original_snapshot)));
    MustIncludeAdditionalItems(item);
    changed = true;
  }
  result.operation_id = EncodeOperation({.namespace_name = claim.target_namespace,
                                         .claim_name = claim.claim_name,
                                         .snapshot_name = source});
  const auto snapshot = objects::Get<VolumeSnapshot>(ctx, env_.api, claim.target_namespace, source);
  if (absl::IsNotFound(snapshot.status())) {
    RETURN_IF_ERROR(RequireClass(ctx, env_, claim.restore, item, claim.provisioner));
    // It comes as additional item, after this call.
    ASSIGN_OR_RETURN(const velero::PluginConfig config, csi::ReadPluginConfig(ctx, env_));
    result.wait_for_additional_items = !result.additional_items.empty();
    result.additional_items_ready_timeout = config.restore_content_wait + kReadyTimeoutSlack;
    return changed;
  }
  RETURN_IF_ERROR(snapshot.status());
  RETURN_IF_ERROR(RequireClass(ctx, env_, claim.restore, item,
                               snapshot->Annotation(objects::kDriverNameAnnotation)));
  changed |= FitRequest(ctx, env_, claim, *snapshot, item);
  RETURN_IF_ERROR(RequireSnapshot(ctx, claim, *snapshot));
  return changed;
}

absl::Status PvcAction::RequireSnapshot(const CallContext& ctx, const ClaimRestore& claim,
                                        const VolumeSnapshot& snapshot) {
  ASSIGN_OR_RETURN(ContentState state, InspectContent(ctx, env_, snapshot));
  if (state.kind == ContentState::Kind::kPending) {
    ASSIGN_OR_RETURN(const velero::PluginConfig config, csi::ReadPluginConfig(ctx, env_));
    ASSIGN_OR_RETURN(state,
                     AwaitContent(ctx.WithTimeout(config.restore_content_wait), env_, snapshot));
  }
  if (state.kind != ContentState::Kind::kGone) {
    return absl::OkStatus();
  }
  const std::string message = absl::StrCat(
      "persistentvolumeclaim ", claim.target_namespace, "/", claim.claim_name,
      " cannot be restored: the driver has no snapshot ", state.handle, ": ", state.message);
  objects::TryEmitEvent(ctx, env_.api, snapshot, k8s::EventType::kWarning, "SnapshotIsGone",
                        message);
  return absl::NotFoundError(message);
}

}  // namespace

std::unique_ptr<velero::RestoreItemAction> MakePvcAction(const csi::Environment& env) {
  return std::make_unique<PvcAction>(env);
}

}  // namespace csidelta::restoreitemactions
