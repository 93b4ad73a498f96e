#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

// The labels, annotations and finalizers that we read or write, by what they stand on. The words
// are Velero's, Kubernetes' and the snapshot controller's: backups cross over between Velero's own
// CSI actions and ours, so a key here is a format, and its text never changes.
namespace csidelta::velero {

// --- Labels -------------------------------------------------------------------------------------
// VolumeSnapshot, VolumeSnapshotContent, the archived claim: the backup it belongs to, through
// ValidLabelValue().
inline constexpr char kBackupNameLabel[] = "velero.io/backup-name";
// VolumeSnapshot: uid of the Backup object.
inline constexpr char kBackupUidLabel[] = "velero.io/backup-uid";
// Everything restored; value through ValidLabelValue().
inline constexpr char kRestoreNameLabel[] = "velero.io/restore-name";
inline constexpr char kRestoreUidLabel[] = "velero.io/restore-uid";
inline constexpr char kPvcUidLabel[] = "velero.io/pvc-uid";
inline constexpr char kAsyncOperationIdLabel[] = "velero.io/async-operation-id";
// The archived claim carries this key as a label (raw name) and as an annotation.
inline constexpr char kVolumeSnapshotNameLabel[] = "velero.io/volume-snapshot-name";
// Anything: "true" keeps it out of backups.
inline constexpr char kExcludeFromBackupLabel[] = "velero.io/exclude-from-backup";
// VolumeSnapshotClass: use this class for its driver, whatever the value.
inline constexpr char kVolumeSnapshotClassLabel[] = "velero.io/csi-volumesnapshot-class";
// ConfigMaps in which Velero's action on DataUploads tells the claim's action of one restore what
// the archive holds: "<namespace>.<claim>" through ValidLabelValue(), and "DataUpload".
inline constexpr char kPvcNamespaceNameLabel[] = "velero.io/pvc-namespace-name";
inline constexpr char kResourceUsageLabel[] = "velero.io/resource-usage";
// A restored claim's selector while a data mover fills its volume.
inline constexpr char kDynamicPvRestoreLabel[] = "velero.io/dynamic-pv-restore";
// Default key of spec.volumeGroupSnapshotLabelKey on claims.
inline constexpr char kVolumeGroupLabel[] = "velero.io/volume-group";
// Both on the one ConfigMap that configures us.
inline constexpr char kPluginConfigLabel[] = "velero.io/plugin-config";
// On our ConfigMap, and on every cluster object that we create; on a VolumeSnapshot or its content
// the value is Velero's namespace, so that several Veleros in one cluster tell theirs apart.
inline constexpr char kCsiDeltaLabel[] = "velero.io/csi-delta";
// Claim, while a VolumeGroupSnapshot of ours is being made of it: "<uid of the Backup>.<8
// hexadecimal digits of the group>". The selector of the VolumeGroupSnapshot; in no archive.
inline constexpr char kGroupMarkLabel[] = "velero.io/csi-delta-group";
// Member of a group of ours: the name of its VolumeGroupSnapshot. A label of the
// VolumeSnapshotContent, whose annotations the snapshot controller replaces by those it remembers,
// and of the VolumeGroupSnapshotContent; an annotation of the VolumeSnapshot.
inline constexpr char kGroupNameLabel[] = "velero.io/csi-delta-volume-group";
// Member of a group of ours, its VolumeSnapshotContent in an archive: the backup it belongs to. Not
// by kBackupNameLabel: Velero (1.14 and newer) has what carries that deleted alone.
inline constexpr char kMemberOfBackupLabel[] = "velero.io/csi-delta-backup-name";
// VolumeGroupSnapshotClass, "true": use this class for its driver.
inline constexpr char kGroupSnapshotClassLabel[] = "velero.io/csi-volumegroupsnapshot-class";
// VolumeSnapshotContent: the node whose sidecar owns it, with distributed snapshotting.
inline constexpr char kManagedByLabel[] = "snapshot.storage.kubernetes.io/managed-by";

// --- Annotations: DataUploads -------------------------------------------------------------------
// Ours: "awaited" from the beginning, "true" once the DataUpload is written into the archive of its
// backup. One that is Completed, and still awaited when its backup is over, is in no archive.
inline constexpr char kArchivedAnnotation[] = "velero.io/csi-delta-archived";
inline constexpr char kArchiveAwaited[] = "awaited";

// --- Annotations: claims ------------------------------------------------------------------------
inline constexpr char kVolumeSnapshotNameAnnotation[] = "velero.io/volume-snapshot-name";
// "<namespace>/<DataUpload>": a data mover of Velero's took the volume.
inline constexpr char kDataUploadNameAnnotation[] = "velero.io/data-upload-name";
// Name of the VolumeSnapshotClass that the user wants for this claim.
inline constexpr char kVolumeSnapshotClassAnnotation[] = "velero.io/csi-volumesnapshot-class";
// Name of the VolumeGroupSnapshotClass that the user wants for this claim's group.
inline constexpr char kGroupSnapshotClassAnnotation[] = "velero.io/csi-volume-group-snapshot-class";
inline constexpr char kSkippedNoCsiPvAnnotation[] = "backup.velero.io/skipped-no-csi-pv";
inline constexpr char kSelectedNodeAnnotation[] = "volume.kubernetes.io/selected-node";
inline constexpr char kBindCompletedAnnotation[] = "pv.kubernetes.io/bind-completed";
inline constexpr char kBoundByControllerAnnotation[] = "pv.kubernetes.io/bound-by-controller";
inline constexpr char kStorageProvisionerAnnotation[] = "volume.kubernetes.io/storage-provisioner";
inline constexpr char kBetaStorageProvisionerAnnotation[] =
    "volume.beta.kubernetes.io/storage-provisioner";

// --- Annotations: results of actions ------------------------------------------------------------
// "true" on a backup action's result: its additional items pass every filter of the backup.
inline constexpr char kMustIncludeAnnotation[] = "backup.velero.io/must-include-additional-items";
// The same for a restore action's result, on Velero that knows it.
inline constexpr char kRestoreMustIncludeAnnotation[] =
    "restore.velero.io/must-include-additional-items";

// --- Annotations: VolumeSnapshots ---------------------------------------------------------------
inline constexpr char kVolumeSnapshotHandleAnnotation[] = "velero.io/csi-volumesnapshot-handle";
inline constexpr char kDriverNameAnnotation[] = "velero.io/csi-driver-name";
// A quantity as FormatBinaryQuantity() writes it; absent when the driver did not say.
inline constexpr char kRestoreSizeAnnotation[] = "velero.io/csi-volumesnapshot-restore-size";
// How releases 0.7 of Velero's former CSI plugin spelt it. Read only.
inline constexpr char kMisspeltRestoreSizeAnnotation[] =
    "velero.io/vsi-volumesnapshot-restore-size";
inline constexpr char kDeletionPolicyAnnotation[] = "velero.io/csi-vsc-deletion-policy";
inline constexpr char kGroupSnapshotHandleAnnotation[] = "velero.io/csi-volumegroupsnapshot-handle";
// Written by Velero <= 1.15 and the former plugin. Read only.
inline constexpr char kDeleteSecretNameAnnotation[] = "velero.io/csi-deletesnapshotsecret-name";
inline constexpr char kDeleteSecretNamespaceAnnotation[] =
    "velero.io/csi-deletesnapshotsecret-namespace";
// Ours, RFC 3339: when the snapshot was asked for, cut by the driver, ready to use.
inline constexpr char kAskedAtAnnotation[] = "velero.io/csi-delta-asked-at";
inline constexpr char kCutAtAnnotation[] = "velero.io/csi-delta-cut-at";
inline constexpr char kReadyAtAnnotation[] = "velero.io/csi-delta-ready-at";
// Ours, RFC 3339, VolumeGroupSnapshot: when the driver's answer was seen, which the cut came
// before.
inline constexpr char kAnsweredAtAnnotation[] = "velero.io/csi-delta-answered-at";

// --- Annotations: VolumeGroupSnapshots and their contents ---------------------------------------
// A JSON list of {"claim", "claimUid", "volumeHandle", "snapshotHandle"}: who was cut together. The
// last is missing on a VolumeGroupSnapshot, which was asked for before the driver gave any.
inline constexpr char kGroupMembersAnnotation[] = "velero.io/csi-delta-group-members";
// "<label key>=<label value>" of the claims of a VolumeGroupSnapshot of ours.
inline constexpr char kGroupOfAnnotation[] = "velero.io/csi-delta-group-of";
// "true" on a VolumeGroupSnapshot of ours whose members a data mover moves.
inline constexpr char kGroupToBeMovedAnnotation[] = "velero.io/csi-delta-to-be-moved";
// On a VolumeSnapshot that stands for a member of a group which is moved: the claim it is of.
inline constexpr char kMemberClaimAnnotation[] = "velero.io/csi-delta-claim";
inline constexpr char kGroupDeletionSecretNameAnnotation[] =
    "groupsnapshot.storage.kubernetes.io/deletion-secret-name";
inline constexpr char kGroupDeletionSecretNamespaceAnnotation[] =
    "groupsnapshot.storage.kubernetes.io/deletion-secret-namespace";
// Tells the sidecar that the deletion of a VolumeSnapshotContent is meant.
inline constexpr char kContentBeingDeletedAnnotation[] =
    "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";
// The group controller's, on the VolumeSnapshotContent of a member: the group's handle.
inline constexpr char kGroupHandleOfMemberAnnotation[] =
    "groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle";
// Tells the sidecar that the deletion of a VolumeGroupSnapshotContent is meant.
inline constexpr char kGroupBeingDeletedAnnotation[] =
    "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-deleted";

// --- Annotations: contents and classes ----------------------------------------------------------
inline constexpr char kDeletionSecretNameAnnotation[] =
    "snapshot.storage.kubernetes.io/deletion-secret-name";
inline constexpr char kDeletionSecretNamespaceAnnotation[] =
    "snapshot.storage.kubernetes.io/deletion-secret-namespace";
// Keys of external-snapshotter's class parameters, which Velero also reads as annotations.
inline constexpr char kSnapshotterSecretName[] = "csi.storage.k8s.io/snapshotter-secret-name";
inline constexpr char kSnapshotterSecretNamespace[] =
    "csi.storage.k8s.io/snapshotter-secret-namespace";
inline constexpr char kSnapshotterListSecretName[] =
    "csi.storage.k8s.io/snapshotter-list-secret-name";
inline constexpr char kSnapshotterListSecretNamespace[] =
    "csi.storage.k8s.io/snapshotter-list-secret-namespace";
inline constexpr char kDefaultSnapshotClassAnnotation[] =
    "snapshot.storage.kubernetes.io/is-default-class";

inline constexpr char kGroupSnapshotterSecretName[] =
    "csi.storage.k8s.io/group-snapshotter-secret-name";
inline constexpr char kGroupSnapshotterSecretNamespace[] =
    "csi.storage.k8s.io/group-snapshotter-secret-namespace";
inline constexpr char kGroupSnapshotterGetSecretName[] =
    "csi.storage.k8s.io/group-snapshotter-get-secret-name";
inline constexpr char kGroupSnapshotterGetSecretNamespace[] =
    "csi.storage.k8s.io/group-snapshotter-get-secret-namespace";
inline constexpr char kDefaultGroupSnapshotClassAnnotation[] =
    "groupsnapshot.storage.kubernetes.io/is-default-class";

// --- Annotations: Backups -----------------------------------------------------------------------
// Followed by the provisioner in lower case: the class to use for it.
inline constexpr char kBackupSnapshotClassAnnotationPrefix[] =
    "velero.io/csi-volumesnapshot-class_";
// Followed by the driver as its volumes name it: the VolumeGroupSnapshotClass to use for it.
inline constexpr char kBackupGroupSnapshotClassAnnotationPrefix[] =
    "velero.io/csi-volumegroupsnapshot-class_";
// A Go duration.
inline constexpr char kResourceTimeoutAnnotation[] = "velero.io/resource-timeout";
// Name of the ConfigMap whose volume policies apply to every backup.
inline constexpr char kGlobalVolumePolicyAnnotation[] =
    "velero.io/global-backup-volume-policy-configmap";

// --- Annotations: pods --------------------------------------------------------------------------
// Comma-separated names of pod volumes, without spaces.
inline constexpr char kVolumesToBackupAnnotation[] = "backup.velero.io/backup-volumes";
inline constexpr char kVolumesToExcludeAnnotation[] = "backup.velero.io/backup-volumes-excludes";

// --- Finalizers ---------------------------------------------------------------------------------
inline constexpr char kContentBoundProtectionFinalizer[] =
    "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";
inline constexpr char kSnapshotBoundProtectionFinalizer[] =
    "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection";
inline constexpr char kSnapshotSourceProtectionFinalizer[] =
    "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection";
// A member of a VolumeGroupSnapshot, which goes with it and not before.
inline constexpr char kSnapshotInGroupFinalizer[] =
    "snapshot.storage.kubernetes.io/volumesnapshot-in-group-protection";
// Ours, on a content that was made to have a driver's snapshot or group deleted, until the driver
// is proven to have done so.
inline constexpr char kDeletionFinalizer[] = "velero.io/csi-delta-deletion";
inline constexpr char kGroupContentBoundProtectionFinalizer[] =
    "groupsnapshot.storage.kubernetes.io/volumegroupsnapshotcontent-bound-protection";
inline constexpr char kGroupSnapshotBoundProtectionFinalizer[] =
    "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-bound-protection";

// What a label value may hold, in bytes.
inline constexpr std::size_t kLabelValueBytesMax = 63;

// `name` where it fits a label value; otherwise its first 57 bytes and the first 6 hexadecimal
// digits of its SHA-256. Velero's own rule for names of backups and restores in labels, and for
// operation ids. Pure.
std::string ValidLabelValue(absl::string_view name);

// The name under which a VolumeSnapshot of a backup, and its VolumeSnapshotContent, are restored:
// 64 hexadecimal digits derived from the Restore's uid and the VolumeSnapshot's name in the
// backup. Good as an object's name, one byte too long for a label value. Pure.
std::string RestoredSnapshotName(absl::string_view restore_uid, absl::string_view original_name);

}  // namespace csidelta::velero
