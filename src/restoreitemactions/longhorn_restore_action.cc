#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/log.h"
#include "base/quantity.h"
#include "base/status_macros.h"
#include "csi/drop.h"
#include "csi/retry.h"
#include "csi/snapshot_need.h"
#include "csi/static_content.h"
#include "k8s/api_client.h"
#include "longhorn/native_snapshot.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/persistent_volume.h"
#include "objects/volume_snapshot.h"
#include "restoreitemactions/actions.h"
#include "restoreitemactions/claim_operation.h"
#include "restoreitemactions/claim_rewrite.h"
#include "velero/labels.h"
#include "velero/volume_decision.h"

namespace csidelta::restoreitemactions {
namespace {

using objects::PersistentVolumeClaim;

// How long the API server may take to tell whether the snapshot is there.
constexpr absl::Duration kAnswerTimeMax = absl::Seconds(30);
constexpr char kLivesInItsVolume[] =
    "such a snapshot is inside its volume and cluster, and dies with them: restore from a backup "
    "that moved the data";

// The native snapshot that an archived PVC names.
struct NativeSource {
  std::string namespace_name;
  std::string snapshot_name;
  std::string snapshot_uid;
  std::string volume;
};

absl::StatusOr<NativeSource> ReadSource(const PersistentVolumeClaim& pvc) {
  const std::vector<std::string> snapshot =
      absl::StrSplit(pvc.Annotation(objects::kLonghornSnapshotAnnotation), '/');
  const std::string uid = pvc.Annotation(objects::kLonghornSnapshotUidAnnotation);
  const std::string volume = pvc.Annotation(objects::kLonghornVolumeAnnotation);
  if (snapshot.size() != 2 || snapshot[0].empty() || snapshot[1].empty() || uid.empty() ||
      volume.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the archive does not name its native snapshot, by the annotations ",
        objects::kLonghornSnapshotAnnotation, ", ", objects::kLonghornSnapshotUidAnnotation,
        " and ", objects::kLonghornVolumeAnnotation));
  }
  return NativeSource{.namespace_name = snapshot[0],
                      .snapshot_name = snapshot[1],
                      .snapshot_uid = uid,
                      .volume = volume};
}

// Every writer of a PVC may name any snapshot in it; Longhorn's objects are written by it and by
// administrators.
bool IsTakenOf(const longhorn::Snapshot& snapshot, const PersistentVolumeClaim& pvc_in_backup,
               const objects::Restore& restore) {
  const auto labels = snapshot.engine_labels();
  const auto pvc = labels.find(objects::kLonghornEnginePvcLabel);
  return !snapshot.Label(objects::kLonghornMadeByLabel).empty() &&
         snapshot.Label(objects::kBackupNameLabel) ==
             velero::ValidLabelValue(restore.backup_name()) &&
         pvc != labels.end() &&
         pvc->second == absl::StrCat(pvc_in_backup.namespace_name(), "/", pvc_in_backup.name());
}

// What the backup's action wrote is of no use in the cluster, and would be mistaken by a later
// backup.
bool StripNativeMarks(PersistentVolumeClaim& item) {
  bool changed = item.RemoveLabel(objects::kLonghornNativeLabel);
  for (const char* key :
       {objects::kLonghornSnapshotAnnotation, objects::kLonghornSnapshotUidAnnotation,
        objects::kLonghornVolumeAnnotation, objects::kLonghornTakenAtAnnotation}) {
    changed |= item.RemoveAnnotation(key);
  }
  return changed;
}

// Where it is canceled, the PVC goes on waiting for its volume.
class LonghornRestoreAction : public velero::ActionOn<velero::RestoreItemAction> {
 public:
  explicit LonghornRestoreAction(const csi::Environment& env)
      : ActionOn("persistentvolumeclaims", absl::StrCat(objects::kLonghornNativeLabel, "=true")),
        env_(env) {}

  absl::StatusOr<velero::RestoreItemResult> Execute(const CallContext& ctx,
                                                    const objects::Object& item,
                                                    const objects::Object& item_from_backup,
                                                    const objects::Object& restore_object) override;
  absl::StatusOr<velero::OperationProgress> Progress(
      const CallContext& ctx, absl::string_view operation_id,
      const objects::Object& restore_object) override;
  absl::Status Cancel(const CallContext& ctx, absl::string_view operation_id,
                      const objects::Object& /*restore_object*/) override {
    return CancelClaim(ctx, env_, operation_id);
  }

 private:
  // Makes `pvc` one that is filled from its native snapshot. Longhorn makes a volume of it only at
  // the size that the source has now.
  absl::Status Fill(const CallContext& ctx, const objects::Restore& restore,
                    const std::string& target, const PersistentVolumeClaim& item_from_backup,
                    PersistentVolumeClaim& pvc, velero::RestoreItemResult& result);

  // The size that it has now, in bytes.
  absl::StatusOr<int64_t> RequireVolume(const CallContext& ctx, const NativeSource& source);

  // Longhorn lists no snapshots to the sidecar, which therefore takes any handle for one that is
  // there: what is gone must be noticed here.
  absl::Status RequireSnapshot(const CallContext& ctx, const NativeSource& source,
                               const PersistentVolumeClaim& item_from_backup,
                               const objects::Restore& restore);

  // The VolumeSnapshot `name` of the native snapshot, and its content, which is also called so.
  // Retain: whatever happens to them, the snapshot stays.
  absl::Status MakeSource(const CallContext& ctx, const objects::Restore& restore,
                          const std::string& target, const NativeSource& source,
                          const std::string& name);

  // Of a PVC that has its volume. Longhorn copies it from the native snapshot, which the content
  // leaves where it is. What fails is said: the PVC is restored all the same.
  void RemoveSource(const CallContext& ctx, const objects::Restore& restore,
                    const ClaimOperation& operation);
  absl::Status TryRemoveSource(const CallContext& ctx, const objects::Restore& restore,
                               const ClaimOperation& operation);

  // Or takes the one that an interrupted call of this restore made: the name is derived from its
  // uid.
  template <typename Kind>
  absl::Status Make(const CallContext& ctx, const Kind& object);

  const csi::Environment env_;
};

absl::StatusOr<velero::RestoreItemResult> LonghornRestoreAction::Execute(
    const CallContext& ctx, const objects::Object& item, const objects::Object& item_from_backup,
    const objects::Object& restore_object) {
  ASSIGN_OR_RETURN(const objects::Restore restore, objects::Restore::Parse(restore_object));
  ASSIGN_OR_RETURN(PersistentVolumeClaim pvc, PersistentVolumeClaim::From(item));
  ASSIGN_OR_RETURN(const PersistentVolumeClaim archived,
                   PersistentVolumeClaim::From(item_from_backup));
  const std::string target = restore.MapNamespace(archived.namespace_name());
  velero::RestoreItemResult result;
  StripBackupMarks(pvc);
  StripNativeMarks(pvc);
  const bool is_of_backup =
      archived.Label(objects::kBackupNameLabel) == velero::ValidLabelValue(restore.backup_name());
  if (is_of_backup && restore.is_without_data()) {
    ClearVolume(pvc);
  } else if (is_of_backup) {
    ASSIGN_OR_RETURN(const auto existing,
                     objects::Find<PersistentVolumeClaim>(ctx, env_.api, target, archived.name()));
    if (existing.has_value()) {
      ReportWithoutData(ctx, env_, restore, archived, *existing, "");
      if (restore.updates_existing()) {
        KeepVolume(*existing, pvc);
        result.item = std::move(pvc);
      }
      return result;
    }
    RETURN_IF_ERROR(
        Annotate(Fill(ctx.WithTimeout(kAnswerTimeMax), restore, target, archived, pvc, result),
                 absl::StrCat("PVC ", target, "/", archived.name(), " cannot be restored")));
  }
  result.item = std::move(pvc);
  return result;
}

absl::StatusOr<velero::OperationProgress> LonghornRestoreAction::Progress(
    const CallContext& ctx, absl::string_view operation_id, const objects::Object& restore_object) {
  velero::OperationProgress progress = CheckClaim(ctx, env_, operation_id);
  const absl::StatusOr<objects::Restore> restore = objects::Restore::Parse(restore_object);
  if (restore.ok() && progress.description == kClaimIsBound) {
    RemoveSource(ctx, *restore, *DecodeOperation(operation_id));
  }
  return progress;
}

absl::Status LonghornRestoreAction::Fill(const CallContext& ctx, const objects::Restore& restore,
                                         const std::string& target,
                                         const PersistentVolumeClaim& item_from_backup,
                                         PersistentVolumeClaim& pvc,
                                         velero::RestoreItemResult& result) {
  ASSIGN_OR_RETURN(const NativeSource source, ReadSource(item_from_backup));
  ASSIGN_OR_RETURN(const int64_t size_bytes, RequireVolume(ctx, source));
  RETURN_IF_ERROR(RequireSnapshot(ctx, source, item_from_backup, restore));
  RETURN_IF_ERROR(RequireClass(ctx, env_, restore, pvc, velero::kLonghornDriver));
  RETURN_IF_ERROR(RequireVolumeIsNotReserved(ctx, env_, target, item_from_backup));
  const std::string name = velero::RestoredSnapshotName(restore.uid(), source.snapshot_name);
  RETURN_IF_ERROR(MakeSource(ctx, restore, target, source, name));
  StripBinding(pvc);
  pvc.SetSourceSnapshot(name);
  pvc.SetRequestedQuantity(FormatBinaryQuantity(size_bytes));
  result.operation_id = EncodeOperation(
      {.namespace_name = target, .claim_name = item_from_backup.name(), .snapshot_name = name});
  return absl::OkStatus();
}

absl::StatusOr<int64_t> LonghornRestoreAction::RequireVolume(const CallContext& ctx,
                                                             const NativeSource& source) {
  ASSIGN_OR_RETURN(const auto volume, objects::Find<longhorn::Volume>(
                                          ctx, env_.api, source.namespace_name, source.volume));
  const std::string text = absl::StrCat("Longhorn's Volume ", source.volume);
  if (!volume.has_value()) {
    return absl::NotFoundError(absl::StrCat(text, " is not here; ", kLivesInItsVolume));
  }
  if (volume->is_being_deleted()) {
    return absl::NotFoundError(absl::StrCat(text, " is being deleted; ", kLivesInItsVolume));
  }
  const std::optional<int64_t> size_bytes = volume->size_bytes();
  if (!size_bytes.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(text, " does not tell its size"));
  }
  return *size_bytes;
}

absl::Status LonghornRestoreAction::RequireSnapshot(const CallContext& ctx,
                                                    const NativeSource& source,
                                                    const PersistentVolumeClaim& item_from_backup,
                                                    const objects::Restore& restore) {
  const k8s::ObjectKey key = longhorn::Snapshot::Key(source.namespace_name, source.snapshot_name);
  ASSIGN_OR_RETURN(const auto snapshot, objects::Find<longhorn::Snapshot>(ctx, env_.api, key));
  if (!snapshot.has_value()) {
    return absl::NotFoundError(
        absl::StrCat(k8s::ToString(key), " is not here; ", kLivesInItsVolume));
  }
  if (snapshot->uid() != source.snapshot_uid || snapshot->volume() != source.volume) {
    return absl::NotFoundError(absl::StrCat(
        k8s::ToString(key), " is another one than that of the backup; ", kLivesInItsVolume));
  }
  if (!IsTakenOf(*snapshot, item_from_backup, restore)) {
    return absl::PermissionDeniedError(
        absl::StrCat(k8s::ToString(key), " was not taken of this PVC by this backup"));
  }
  switch (longhorn::StateOf(&*snapshot, source.snapshot_uid)) {
    case longhorn::NativeState::kReady:
      return absl::OkStatus();
    case longhorn::NativeState::kGone:
      return absl::NotFoundError(absl::StrCat(k8s::ToString(key), " is being deleted"));
    case longhorn::NativeState::kPending:
    case longhorn::NativeState::kTaken:
      break;
  }
  return absl::FailedPreconditionError(
      absl::StrCat(k8s::ToString(key), " is not ready: ", snapshot->error()));
}

absl::Status LonghornRestoreAction::MakeSource(const CallContext& ctx,
                                               const objects::Restore& restore,
                                               const std::string& target,
                                               const NativeSource& source,
                                               const std::string& name) {
  const std::map<std::string, std::string> labels = {
      {objects::kRestoreNameLabel, velero::ValidLabelValue(restore.name())}};
  const objects::VolumeSnapshotContent content =
      csi::MakeStaticContent({.name = name,
                              .driver = velero::kLonghornDriver,
                              .handle = absl::StrCat(longhorn::kSnapshotHandlePrefix, source.volume,
                                                     "/", source.snapshot_name),
                              .snapshot_namespace = target,
                              .snapshot_name = name,
                              .labels = labels});
  RETURN_IF_ERROR(Make(ctx, content));
  auto snapshot = objects::VolumeSnapshot::Make(target, name);
  snapshot.SetLabels(labels);
  snapshot.SetSourceContent(name);
  const absl::Status made = Make(ctx, snapshot);
  if (!made.ok()) {
    const absl::Status removed =
        k8s::IgnoreGone(env_.api.Delete(csi::CleanUpContext(env_.clock), content.key(), {}));
    if (!removed.ok()) {
      CSIDELTA_LOG(kWarn, "a VolumeSnapshotContent is left", {"content", name},
                   {"status", removed.ToString()});
    }
  }
  return made;
}

void LonghornRestoreAction::RemoveSource(const CallContext& ctx, const objects::Restore& restore,
                                         const ClaimOperation& operation) {
  const absl::Status removed =
      TryRemoveSource(ctx.WithTimeout(velero::kProgressTimeMax), restore, operation);
  if (!removed.ok()) {
    CSIDELTA_LOG(kWarn, "the VolumeSnapshot that a PVC was restored from is left, and its content",
                 {"namespace", operation.namespace_name},
                 {"volume_snapshot", operation.snapshot_name}, {"status", removed.ToString()});
  }
}

absl::Status LonghornRestoreAction::TryRemoveSource(const CallContext& ctx,
                                                    const objects::Restore& restore,
                                                    const ClaimOperation& operation) {
  ASSIGN_OR_RETURN(const auto snapshot,
                   objects::Find<objects::VolumeSnapshot>(ctx, env_.api, operation.namespace_name,
                                                          operation.snapshot_name));
  const bool is_made_here =
      snapshot.has_value() &&
      snapshot->Label(objects::kRestoreNameLabel) == velero::ValidLabelValue(restore.name()) &&
      snapshot->source_content() == operation.snapshot_name;
  if (!is_made_here) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const bool is_needed, csi::IsStillNeeded(ctx, env_, *snapshot));
  return is_needed ? absl::FailedPreconditionError("another PVC is being filled from it")
                   : csi::DropSnapshot(ctx, env_.api, *snapshot, csi::Data::kRetain);
}

template <typename Kind>
absl::Status LonghornRestoreAction::Make(const CallContext& ctx, const Kind& object) {
  const absl::Status made = objects::Create(ctx, env_.api, object).status();
  if (absl::IsNotFound(made)) {
    return absl::FailedPreconditionError(
        absl::StrCat(made.message(),
                     "; volumes are made of native snapshots by VolumeSnapshots, which need "
                     "their CRDs and the snapshot controller in the cluster"));
  }
  if (!absl::IsAlreadyExists(made)) {
    return made;
  }
  ASSIGN_OR_RETURN(const auto there, objects::Get<Kind>(ctx, env_.api, object.key()));
  return there.HasSourceOf(object) ? absl::OkStatus()
                                   : absl::AlreadyExistsError(absl::StrCat(
                                         k8s::ToString(object.key()), " is of another snapshot"));
}

}  // namespace

std::unique_ptr<velero::RestoreItemAction> MakeLonghornRestoreAction(const csi::Environment& env) {
  return std::make_unique<LonghornRestoreAction>(env);
}

}  // namespace csidelta::restoreitemactions
