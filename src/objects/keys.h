#pragma once

// Every durable key: the labels, annotations, finalizers and class parameters that this project
// reads or writes on objects of a cluster or of an archive. A key here is a format: its text never
// changes, and one that is no longer written is still read. docs/cluster-objects.md shows them as
// tables, and a test compares the two.
//
// "Archived" says that the key stands on the item in the archive of a backup. The actors: *plugin*
// is the program that Velero starts, *mover* the controller of the data mover, *worker* the Pod
// that it starts for a volume, *doctor* and *mover-key* are verbs of csi-delta; *sidecar* is
// csi-snapshotter, *provisioner* is csi-provisioner, *you* are the operator.
namespace csidelta::objects {

// --- Ours: backups and restores ------------------------------------------------------------------
// Keys of this project on what the plugin makes or archives.

// Label on the ConfigMap that configures the plugin; written by you; read by Velero, plugin.
// Together with velero.io/csi-delta it marks the one ConfigMap of settings.
inline constexpr char kPluginConfigLabel[] = "velero.io/plugin-config";

// Label on the ConfigMap of settings, and each object that the plugin makes; written by you,
// plugin; read by plugin, mover. On a VolumeSnapshot or its content the value is the namespace of
// Velero, so that several Veleros in one cluster tell theirs apart.
inline constexpr char kCsiDeltaLabel[] = "velero.io/csi-delta";

// Label on PVC; written by plugin; read by snapshot controller, plugin. Only while a group
// snapshot of it is being made; in no archive. <uid of the Backup>.<8 hexadecimal digits of the
// group>, the selector of the VolumeGroupSnapshot.
inline constexpr char kGroupMarkLabel[] = "velero.io/csi-delta-group";

// Label, annotation on VolumeSnapshotContent, VolumeGroupSnapshotContent, VolumeSnapshot; written
// by plugin; read by plugin. The name of the VolumeGroupSnapshot that a member belongs to. A label
// of contents, whose annotations the snapshot controller replaces by those it remembers; an
// annotation of the VolumeSnapshot.
inline constexpr char kGroupNameLabel[] = "velero.io/csi-delta-volume-group";

// Label on archived VolumeSnapshotContent of a group member; written by plugin; read by plugin.
// The backup of a member. Not velero.io/backup-name: Velero 1.14 and newer deletes alone whatever
// carries that.
inline constexpr char kMemberOfBackupLabel[] = "velero.io/csi-delta-backup-name";

// Annotation on VolumeSnapshot, VolumeGroupSnapshot; written by plugin; read by plugin. Uid of the
// Backup at whose end the plugin retains the content and removes the object, because no action of
// Velero does.
inline constexpr char kFinalizeAnnotation[] = "velero.io/csi-delta-finalize";

// Annotation on archived VolumeSnapshot; written by plugin; read by plugin. true: its content was
// gone when the backup was finalized, so nothing proves its handle; only the archived content does.
inline constexpr char kHandleUnprovenAnnotation[] = "velero.io/csi-delta-handle-unproven";

// Annotation on VolumeGroupSnapshot; written by plugin; read by plugin. Velero was told to archive
// it, which is asked for once.
inline constexpr char kGroupAdoptedAnnotation[] = "velero.io/csi-delta-handed-over";

// Annotation on DataUpload; written by plugin, mover; read by plugin, mover. awaited from the
// beginning, true once the DataUpload is written into the archive of its backup. A Completed one
// that is still awaited when its backup is over is in no archive.
inline constexpr char kArchivedAnnotation[] = "velero.io/csi-delta-archived";
inline constexpr char kArchiveAwaited[] = "awaited";

// Annotation on VolumeSnapshot, VolumeGroupSnapshot; written by plugin; read by plugin. RFC 3339:
// when the snapshot was requested.
inline constexpr char kAskedAtAnnotation[] = "velero.io/csi-delta-asked-at";

// Annotation on VolumeSnapshot, VolumeGroupSnapshot; written by plugin; read by plugin, you. RFC
// 3339: when the driver took the snapshot.
inline constexpr char kTakenAtAnnotation[] = "velero.io/csi-delta-cut-at";

// Annotation on VolumeSnapshot; written by plugin; read by you. RFC 3339: when the snapshot became
// ready to use.
inline constexpr char kReadyAtAnnotation[] = "velero.io/csi-delta-ready-at";

// Annotation on VolumeGroupSnapshot; written by plugin; read by plugin, mover. RFC 3339: when the
// answer of the driver was seen. The snapshots were taken before it.
inline constexpr char kAnsweredAtAnnotation[] = "velero.io/csi-delta-answered-at";

// Annotation on VolumeGroupSnapshot, VolumeGroupSnapshotContent; written by plugin; read by
// plugin. A JSON list of {"claim", "claimUid", "volumeHandle", "snapshotHandle"}. The last is
// missing on a VolumeGroupSnapshot, which was requested before the driver gave any.
inline constexpr char kGroupMembersAnnotation[] = "velero.io/csi-delta-group-members";

// Annotation on VolumeGroupSnapshot, VolumeSnapshotContent; written by plugin; read by plugin,
// mover. <label key>=<label value> of the PVCs of the group.
inline constexpr char kGroupOfAnnotation[] = "velero.io/csi-delta-group-of";

// Annotation on VolumeGroupSnapshot; written by plugin; read by plugin, mover. true: the data mover
// moves the members.
inline constexpr char kGroupToBeMovedAnnotation[] = "velero.io/csi-delta-to-be-moved";

// Annotation on VolumeSnapshot that stands for a member of a moved group; Lease of a volume; record
// of a kept snapshot; written by plugin, mover; read by plugin, mover, doctor, status verb. The
// PVC: its name on a VolumeSnapshot, else <namespace>/<name>.
inline constexpr char kMemberClaimAnnotation[] = "velero.io/csi-delta-claim";

// Annotation on Lease of a volume; written by plugin; read by plugin. The backup that holds the
// volume.
inline constexpr char kLeaseBackupAnnotation[] = "velero.io/csi-delta-backup";

// Annotation on VolumeSnapshotContent of a group member; written by plugin; read by plugin. JSON:
// what it takes to delete the group.
inline constexpr char kGroupContentOfMemberAnnotation[] = "velero.io/csi-delta-group-content";

// Annotation on VolumeSnapshot, VolumeGroupSnapshot, Lease of a native snapshot; written by plugin;
// read by plugin. RFC 3339: since when its Backup has not been seen. Written and removed by the
// orphan sweep, so that the time is one of observed absence.
inline constexpr char kBackupMissingSinceAnnotation[] = "velero.io/csi-delta-backup-missing-since";

// Annotation on VolumeSnapshot; written by plugin; read by plugin. true: its Backup was seen
// Completed or PartiallyFailed; the orphan sweep leaves it for good.
inline constexpr char kOwnedByBackupAnnotation[] = "velero.io/csi-delta-owned-by-backup";

// Annotation on restored VolumeSnapshot, VolumeSnapshotContent; written by plugin; read by plugin.
// true: its backup was deleted while a PVC was being filled from it; it is deleted, with the
// snapshot of the driver, once no PVC needs it.
inline constexpr char kDeleteWhenFilledAnnotation[] = "velero.io/csi-delta-delete-when-filled";

// Annotation on Restore; written by plugin; read by status verb, doctor. A JSON list of
// {"namespace", "name", "uid", "command"}: the PVCs that existed before and so have none of its
// data, and the command that brings it.
inline constexpr char kWithoutDataAnnotation[] = "velero.io/csi-delta-without-data";

// Finalizer on VolumeSnapshotContent, VolumeGroupSnapshotContent; written by plugin; read by
// plugin. The content was made to have a snapshot or a group deleted; it stays until the driver is
// proven to have done so.
inline constexpr char kDeletionFinalizer[] = "velero.io/csi-delta-deletion";

// --- Ours: the data mover ------------------------------------------------------------------------
// Keys of this project on what the controller of the data mover makes or moves.

// Label on everything made for one DataUpload, DataDownload, DataDeletion or check; written by
// mover; read by mover, doctor. The name of the VolumeTask.
inline constexpr char kMoverTaskLabel[] = "mover.csi-delta.io/task";

// Label, annotation on everything made for one transfer, Secret of a restored PVC (label); delta
// base, Secret of keys (annotation); written by mover; read by mover. The namespace of the Velero
// that it is for.
inline constexpr char kMoverVeleroNamespaceLabel[] = "mover.csi-delta.io/velero-namespace";

// Label on Backup, Restore; written by try verb; read by try verb. The namespace that csi-delta try
// backs up and restores: the verb removes what has it.
inline constexpr char kTrialLabel[] = "mover.csi-delta.io/try";

// Label on VolumeSnapshotContent; written by mover; read by mover, doctor, status verb. The record
// of a snapshot that a backup keeps on the storage. first: made while the backup ran; later: made
// to ask the storage again; last: the same, when the Backup was gone; present, left, gone,
// not-ready: the answer for a native snapshot of Longhorn.
inline constexpr char kKeptLabel[] = "mover.csi-delta.io/kept";

// Label on VolumeSnapshotContent; written by mover; read by mover. true: the delta base, the
// snapshot that the next backup of its volume is compared with. At most one per volume and
// location, but for the moment in which the newer replaces the older.
inline constexpr char kBaseLabel[] = "mover.csi-delta.io/base";

// Label on VolumeSnapshotContent; written by mover; read by mover. true: a delta base that a
// transfer reads now.
inline constexpr char kBaseNeededLabel[] = "mover.csi-delta.io/base-needed";

// Annotation on delta base, Secret of keys; written by mover; read by mover. The name of the
// BackupStorageLocation.
inline constexpr char kMoverLocationAnnotation[] = "mover.csi-delta.io/location";

// Annotation on delta base; written by mover; read by mover. The uid of the PVC that it is a
// snapshot of.
inline constexpr char kMoverClaimUidAnnotation[] = "mover.csi-delta.io/claim-uid";

// Annotation on delta base; written by mover; read by mover. The uid of the cluster.
inline constexpr char kMoverClusterAnnotation[] = "mover.csi-delta.io/cluster";

// Annotation on objects in the namespace of the mover, delta base; written by mover; read by
// mover, provisioner. The namespace of the PVC that they are made for. A StorageClass can name
// Secrets by it.
inline constexpr char kMoverClaimNamespaceAnnotation[] = "mover.csi-delta.io/claim-namespace";

// Annotation on objects in the namespace of the mover, delta base; written by mover; read by
// mover, provisioner. The name of that PVC.
inline constexpr char kMoverClaimAnnotation[] = "mover.csi-delta.io/claim";

// Annotation on VolumeSnapshotContent, DataUpload; written by mover; read by mover, you. RFC 3339:
// when the driver took the snapshot.
inline constexpr char kMoverTakenAtAnnotation[] = "mover.csi-delta.io/cut-at";

// Annotation on DataUpload; written by mover; read by you. RFC 3339: when the DataUpload was made.
inline constexpr char kMoverAskedAtAnnotation[] = "mover.csi-delta.io/asked-at";

// Annotation on VolumeSnapshotContent, DataUpload; written by mover; read by mover, you. RFC 3339:
// when the snapshot became ready to use.
inline constexpr char kMoverReadyAtAnnotation[] = "mover.csi-delta.io/ready-at";

// Annotation on VolumeSnapshotContent; written by mover; read by mover. The uid of the
// VolumeSnapshot that it was made of, for when that is gone.
inline constexpr char kSourceUidAnnotation[] = "mover.csi-delta.io/source-uid";

// Annotation on VolumeSnapshotContent; written by mover; read by mover. The size of the volume that
// is made of the snapshot, in bytes.
inline constexpr char kSourceSizeAnnotation[] = "mover.csi-delta.io/size-bytes";

// Annotation on VolumeSnapshotContent; written by mover; read by mover. The size, in bytes, that is
// requested once the driver has refused the first.
inline constexpr char kOtherSizeAnnotation[] = "mover.csi-delta.io/other-size-bytes";

// Annotation on VolumeSnapshotContent; written by mover; read by mover. The StorageClass of the
// source volume.
inline constexpr char kSourceStorageClassAnnotation[] = "mover.csi-delta.io/storage-class";

// Annotation on VolumeSnapshotContent; written by mover; read by mover. JSON: the nodes that the
// source volume can be used on.
inline constexpr char kSourceNodeAffinityAnnotation[] = "mover.csi-delta.io/node-affinity";

// Annotation on VolumeSnapshotContent; written by mover; read by mover. refused: the driver made
// no PVC for many readers.
inline constexpr char kReadOnlyManyAnnotation[] = "mover.csi-delta.io/read-only-many";

// Label on VolumeSnapshotContent of a group member, anchor content of the group; written by mover,
// plugin; read by mover, plugin. The name of the anchor content of a moved group.
inline constexpr char kMovedGroupLabel[] = "mover.csi-delta.io/group";

// Label on VolumeSnapshotContent of a group member; written by mover; read by mover. true: no
// transfer and no base needs its snapshot any more.
inline constexpr char kReleasedLabel[] = "mover.csi-delta.io/released";

// Annotation on anchor content of a moved group; written by plugin; read by mover, plugin. JSON:
// the members of the group.
inline constexpr char kGroupPlanAnnotation[] = "mover.csi-delta.io/group-plan";

// Annotation on anchor content of a moved group; written by plugin; read by mover, plugin. The
// backup that took the group.
inline constexpr char kGroupBackupAnnotation[] = "mover.csi-delta.io/group-backup";

// Annotation on VolumeSnapshotContent of a group member; written by plugin; read by mover. The
// value of the label that makes the group.
inline constexpr char kMovedGroupNameAnnotation[] = "mover.csi-delta.io/group-name";

// Annotation on VolumeSnapshotContent of a group member; written by plugin; read by mover. The
// name of the VolumeGroupSnapshot.
inline constexpr char kMovedGroupSnapshotAnnotation[] = "mover.csi-delta.io/group-snapshot";

// Annotation on VolumeSnapshotContent of a group member; written by plugin; read by mover. RFC
// 3339: when the driver took the group.
inline constexpr char kMovedGroupTakenAtAnnotation[] = "mover.csi-delta.io/group-cut-at";

// Annotation on VolumeSnapshotContent of a group member; written by plugin; read by mover. How
// many members the group has.
inline constexpr char kMovedGroupSizeAnnotation[] = "mover.csi-delta.io/group-members";

// Annotation on PersistentVolume; written by mover; read by mover. The transfer that fills it,
// until it is bound to its PVC.
inline constexpr char kVolumeOfAnnotation[] = "mover.csi-delta.io/volume-of";

// Annotation on PersistentVolume; written by mover; read by mover. The reclaim policy that it gets
// once it is bound to its PVC.
inline constexpr char kReclaimPolicyAnnotation[] = "mover.csi-delta.io/reclaim-policy";

// Annotation on DataDownload; written by mover; read by mover. The uid of the PVC that was the
// target when it was first seen.
inline constexpr char kTargetUidAnnotation[] = "mover.csi-delta.io/target-uid";

// Annotation on DataDownload; written by mover; read by mover. The PersistentVolume that was
// filled.
inline constexpr char kRestoredVolumeAnnotation[] = "mover.csi-delta.io/volume";

// Annotation on DataDownload; written by mover; read by mover. The file system that was found on
// the restored volume.
inline constexpr char kRestoredFileSystemAnnotation[] = "mover.csi-delta.io/file-system";

// Annotation on DataDownload; written by restore verb; read by mover, restore verb. The uid of the
// PVC whose volume the mover writes into, in place; else it fills a new one.
inline constexpr char kIntoAnnotation[] = "mover.csi-delta.io/into";

// Annotation on DataDownload; written by mover; read by mover. The value of into when it was
// accepted. It decides; later changes of into are ignored.
inline constexpr char kInPlaceAnnotation[] = "mover.csi-delta.io/in-place";

// Annotation on PVC; written by mover; read by status verb, doctor. RFC 3339: when the newest
// complete restore wrote into its volume in place.
inline constexpr char kRestoredAtAnnotation[] = "mover.csi-delta.io/restored-at";

// Annotation on PVC; written by restore verb; read by mover, restore verb, doctor. The uid of the
// DataDownload that may write into its volume, once: the consent of one who may change the PVC.
inline constexpr char kMayWriteAnnotation[] = "mover.csi-delta.io/may-write";

// Annotation on DataDownload; written by restore verb; read by mover. RFC 3339: later it does not
// begin to write in place; at most 35 minutes after it was made.
inline constexpr char kStartBeforeAnnotation[] = "mover.csi-delta.io/start-before";

// Annotation on DataDownload; written by restore verb; read by mover. The DataUpload whose data it
// is.
inline constexpr char kIntoUploadAnnotation[] = "mover.csi-delta.io/upload";

// Annotation on DataDownload; written by mover; read by restore verb. JSON: what the worker
// compared and wrote in place, in bytes.
inline constexpr char kRestoredBytesAnnotation[] = "mover.csi-delta.io/restored-bytes";

// Annotation on PersistentVolume, PVC; written by mover; read by mover. The PersistentVolume whose
// volume this one stands for as well, while the mover writes into it: it is never deleted with its
// data.
inline constexpr char kAliasOfAnnotation[] = "mover.csi-delta.io/alias-of";

// Annotation on DataDownload; written by mover; read by mover. The StorageClass of the PVC.
inline constexpr char kTargetClassAnnotation[] = "mover.csi-delta.io/target-class";

// Annotation on DataDownload; written by mover; read by mover. RFC 3339: since when the volume is
// being bound to its PVC.
inline constexpr char kRebindingAtAnnotation[] = "mover.csi-delta.io/handing-over-at";

// Annotation on DataUpload, DataDownload; written by mover; read by mover. RFC 3339: since when
// the transfer is admitted.
inline constexpr char kAdmittedAtAnnotation[] = "mover.csi-delta.io/turn-at";

// Annotation on DataUpload, DataDownload; written by mover; read by mover. RFC 3339: the transfer
// waits without an admission for what its Pod needs, or for its PVC to be bound; when it had its
// last one.
inline constexpr char kAwaitingAtAnnotation[] = "mover.csi-delta.io/awaiting-at";

// Annotation on DataUpload, DataDownload; written by mover; read by mover. RFC 3339: when no node
// was seen to have room for its Pod.
inline constexpr char kNoRoomAtAnnotation[] = "mover.csi-delta.io/no-room-at";

// Annotation on DataUpload, DataDownload; written by mover; read by mover. RFC 3339: since when the
// API server refuses to make what the Pod of the transfer needs; the time to prepare counts from
// then.
inline constexpr char kRefusedSinceAnnotation[] = "mover.csi-delta.io/refused-since";

// Annotation on DataUpload, DataDownload; written by mover; read by mover. The API server's last
// refusal.
inline constexpr char kRefusalAnnotation[] = "mover.csi-delta.io/refusal";

// Annotation on DataUpload, DataDownload, VolumeTask; written by mover; read by mover. RFC 3339:
// since when the transfer is being ended.
inline constexpr char kStoppingAtAnnotation[] = "mover.csi-delta.io/stopping-at";

// Annotation on DataUpload, DataDownload; written by mover; read by mover. Why the transfer has
// failed, while it is being ended.
inline constexpr char kFailureAnnotation[] = "mover.csi-delta.io/failure";

// Annotation on DataUpload; written by mover; read by mover, you. false while no copy of the key
// that the data is encrypted with was confirmed.
inline constexpr char kKeyConfirmedAnnotation[] = "mover.csi-delta.io/key-confirmed";

// Annotation on DataUpload; written by mover; read by mover, you. The address of the repository
// that the data is stored in.
inline constexpr char kAddressAnnotation[] = "mover.csi-delta.io/address";

// Annotation on DataUpload; written by mover; read by mover. The CSI driver of the volume.
inline constexpr char kMoverDriverAnnotation[] = "mover.csi-delta.io/driver";

// Annotation on DataUpload; written by mover; read by mover. The fingerprint of the key that the
// worker was given.
inline constexpr char kMoverKeyAnnotation[] = "mover.csi-delta.io/key";

// Annotation on DataUpload; written by mover; read by mover. RFC 3339: when the worker was made.
inline constexpr char kUploadingAtAnnotation[] = "mover.csi-delta.io/uploading-at";

// Annotation on DataUpload; written by mover; read by you. How the volume was backed up:
// incremental, full, and so on.
inline constexpr char kUploadModeAnnotation[] = "mover.csi-delta.io/mode";

// Annotation on DataUpload; written by mover; read by you. Why in that mode.
inline constexpr char kUploadReasonAnnotation[] = "mover.csi-delta.io/reason";

// Annotation on DataUpload; written by mover; read by you. The snapshot that the volume was
// compared with. On a VolumeSnapshotContent the same key is a label.
inline constexpr char kUploadBaseAnnotation[] = "mover.csi-delta.io/base";

// Annotation on DataUpload; written by mover; read by you. Listed extents, rounded out to chunks.
inline constexpr char kChangedBytesAnnotation[] = "mover.csi-delta.io/changed-bytes";

// Annotation on DataUpload; written by mover; read by you. Bytes read from the volume, without
// those of the audit.
inline constexpr char kReadBytesAnnotation[] = "mover.csi-delta.io/read-bytes";

// Annotation on DataUpload; written by mover; read by you. Bytes that the audit read again.
inline constexpr char kAuditBytesAnnotation[] = "mover.csi-delta.io/audit-bytes";

// Annotation on DataUpload; written by mover; read by you. Bytes put into the bucket, metadata
// included.
inline constexpr char kStoredBytesAnnotation[] = "mover.csi-delta.io/stored-bytes";

// Annotation on DataUpload; written by mover; read by mover, you. The size of the repository.
inline constexpr char kRepositoryBytesAnnotation[] = "mover.csi-delta.io/repository-bytes";

// Annotation on DataUpload; written by mover; read by mover, you. How many repository snapshots it
// holds.
inline constexpr char kRepositorySnapshotsAnnotation[] = "mover.csi-delta.io/repository-snapshots";

// Annotation on DataUpload; written by mover; read by you. The node that the worker ran on.
inline constexpr char kUploadNodeAnnotation[] = "mover.csi-delta.io/node";

// Annotation on DataUpload; written by mover; read by you. RFC 3339: when the worker finished.
inline constexpr char kUploadedAtAnnotation[] = "mover.csi-delta.io/uploaded-at";

// Annotation on DataUpload; written by mover; read by mover, you. The volume group that the
// snapshot is a member of.
inline constexpr char kUploadGroupAnnotation[] = "mover.csi-delta.io/volume-group";

// Annotation on DataUpload; written by mover; read by you. Its VolumeGroupSnapshot.
inline constexpr char kUploadGroupSnapshotAnnotation[] = "mover.csi-delta.io/volume-group-snapshot";

// Annotation on DataUpload; written by mover; read by mover, you. RFC 3339: when the driver took
// the group.
inline constexpr char kUploadGroupTakenAtAnnotation[] = "mover.csi-delta.io/volume-group-cut-at";

// Annotation on VolumeTask; written by mover; read by mover, worker. The uid of the worker Pod.
inline constexpr char kTaskPodAnnotation[] = "mover.csi-delta.io/pod";

// Annotation on VolumeTask; written by mover; read by mover, worker. The uid of a worker Pod that
// is gone without its end having been seen.
inline constexpr char kUnseenEndAnnotation[] = "mover.csi-delta.io/unseen-end";

// Annotation on VolumeTask; written by mover; read by mover. How many worker Pods were counted.
inline constexpr char kAttemptsAnnotation[] = "mover.csi-delta.io/attempts";

// Annotation on VolumeTask; written by mover; read by mover. RFC 3339: when the next worker Pod
// may come.
inline constexpr char kAttemptAtAnnotation[] = "mover.csi-delta.io/attempt-at";

// Annotation on VolumeTask; written by mover; read by mover. How the last worker Pod ended.
inline constexpr char kLastEndAnnotation[] = "mover.csi-delta.io/last-end";

// Annotation on VolumeTask; written by mover; read by mover. How many worker Pods in a row were
// lost that count: five end the task.
inline constexpr char kLostPodsAnnotation[] = "mover.csi-delta.io/lost-pods";

// Annotation on VolumeTask; written by mover; read by mover. How far a lost worker Pod had come
// when that counted as progress last: the stage and its bytes.
inline constexpr char kFurthestAnnotation[] = "mover.csi-delta.io/furthest";

// Annotation on DataDeletion; written by deletions verb, you; read by mover. Any value: the next
// attempt is due now, also of one that was given up. The mover removes it.
inline constexpr char kRetryAnnotation[] = "mover.csi-delta.io/retry";

// Annotation on worker Pod; written by mover; read by mover. The repository that it works on.
inline constexpr char kRepositoryAnnotation[] = "mover.csi-delta.io/repository";

// Label on worker Pod; written by mover; read by scheduler. A number below the limit per node; no
// node runs two Pods of one number.
inline constexpr char kSlotLabel[] = "mover.csi-delta.io/slot";

// Annotation on Secret of keys; written by mover; read by mover. The fingerprint of the newest
// key.
inline constexpr char kNewestKeyAnnotation[] = "mover.csi-delta.io/newest";

// Annotation on Secret of keys; written by mover-key; read by mover. The fingerprints whose copies
// were confirmed, with commas.
inline constexpr char kConfirmedKeysAnnotation[] = "mover.csi-delta.io/confirmed";

// Annotation on Secret of keys; written by mover-key; read by mover-key. The fingerprints that
// were exported, with commas: those that can be confirmed.
inline constexpr char kExportedKeysAnnotation[] = "mover.csi-delta.io/exported";

// Finalizer on DataUpload, DataDownload; written by mover; read by mover. From Accepted to the
// last phase.
inline constexpr char kMoverFinalizer[] = "mover.csi-delta.io/finalizer";

// Finalizer on PVC; written by mover; read by mover. On PVCs of the mover whose StorageClass
// retains volumes, until the PersistentVolume is set to go with the PVC.
inline constexpr char kVolumeFinalizer[] = "mover.csi-delta.io/volume";

// --- Ours: snapshots of people -------------------------------------------------------------------
// Keys of this project on VolumeSnapshots that `csi-delta snapshot` makes. None of them carries
// velero.io/csi-delta: backups see them as those of a person.

// Label on VolumeSnapshot, VolumeSnapshotContent; written by snapshot verbs; read by snapshot
// verbs. csi-delta: made by these verbs, so that prune may touch it.
inline constexpr char kMadeByLabel[] = "snapshot.csi-delta.io/made-by";
inline constexpr char kMadeByVerbs[] = "csi-delta";

// Label on VolumeSnapshotContent; written by snapshot verbs; read by snapshot verbs. Delete: asked
// for with import. The spec says so only once the VolumeSnapshot exists.
inline constexpr char kImportPolicyLabel[] = "snapshot.csi-delta.io/policy";

// Label on VolumeSnapshot; written by snapshot verbs; read by snapshot verbs. The name of the set
// that was taken together.
inline constexpr char kSnapshotSetLabel[] = "snapshot.csi-delta.io/set";

// Label on PVC; written by snapshot verbs; read by snapshot controller, snapshot verbs. Only while
// a group snapshot of it is being made: the name of the group, its selector.
inline constexpr char kPersonsGroupLabel[] = "snapshot.csi-delta.io/group";

// Annotation on Lease of a volume; written by snapshot verbs; read by plugin, snapshot verbs. The
// VolumeSnapshot that is being taken, where it is not of a backup; restore/ID of a restore that
// takes none.
inline constexpr char kLeaseSnapshotAnnotation[] = "snapshot.csi-delta.io/taking";

// Annotation on PVC; written by mover; read by snapshot verbs, mover, doctor. JSON:
// the restore that writes into its volume in place, or was not finished.
inline constexpr char kCopyRecordAnnotation[] = "snapshot.csi-delta.io/copy-record";

// Label on VolumeSnapshot; written by you; read by snapshot verbs. true: it is neither pruned nor
// deleted.
inline constexpr char kKeepLabel[] = "snapshot.csi-delta.io/keep";

// Label on VolumeSnapshot; written by snapshot verbs; read by snapshot verbs. The schedule that
// took it, and whose prune counts it.
inline constexpr char kSnapshotScheduleLabel[] = "snapshot.csi-delta.io/schedule";

// Annotation on VolumeSnapshot; written by snapshot verbs; read by snapshot verbs. RFC 3339: when
// the snapshot was requested.
inline constexpr char kSnapshotAskedAtAnnotation[] = "snapshot.csi-delta.io/asked-at";

// Annotation on VolumeSnapshot; written by snapshot verbs; read by snapshot verbs. The workload
// that it was taken of, such as StatefulSet/db.
inline constexpr char kSnapshotWorkloadAnnotation[] = "snapshot.csi-delta.io/workload";

// Annotation on VolumeSnapshot; written by snapshot verbs; read by you. A remark.
inline constexpr char kSnapshotNoteAnnotation[] = "snapshot.csi-delta.io/note";

// Label on PersistentVolume, PVC; written by snapshot verbs; read by snapshot verbs. The volumes of
// an in-place restore that is not finished, and the temporary PVC: the same for all of one PVC,
// derived from its namespace and name.
inline constexpr char kInPlaceLabel[] = "snapshot.csi-delta.io/in-place";

// Annotation on PersistentVolume, PVC; written by snapshot verbs; read by snapshot verbs. On a
// PersistentVolume JSON: what it is in an in-place restore, and how to go on. On the temporary PVC
// the uids of PVC and VolumeSnapshot; on the PVC that was made again the name of the other volume.
inline constexpr char kInPlaceRecordAnnotation[] = "snapshot.csi-delta.io/in-place-record";

// Annotation on CSIDriver; written by you; read by plugin, snapshot verbs. true: when the driver's
// provisioner binds a PVC that is made of a VolumeSnapshot, its volume has the data.
inline constexpr char kFilledWhenBoundAnnotation[] = "snapshot.csi-delta.io/filled-when-bound";

// Annotation on SnapshotMetadataService; written by you; read by worker, program, doctor. The name
// in the certificate of the service, if it is not the host of spec.address.
inline constexpr char kMetadataServerNameAnnotation[] =
    "snapshot.csi-delta.io/metadata-server-name";

// --- Ours: Longhorn's native snapshots -----------------------------------------------------------
// Keys of this project on objects of Longhorn.

// Label on Snapshot of Longhorn; written by plugin; read by plugin, doctor. csi-delta: a native
// snapshot of a backup, which is archived with it.
inline constexpr char kLonghornMadeByLabel[] = "longhorn.csi-delta.io/made-by";

// Label on archived PVC; written by plugin; read by plugin. true: the backup has of its volume a
// native snapshot of Longhorn.
inline constexpr char kLonghornNativeLabel[] = "longhorn.csi-delta.io/native";

// Annotation on archived PVC; written by plugin; read by plugin. NAMESPACE/NAME of the native
// snapshot.
inline constexpr char kLonghornSnapshotAnnotation[] = "longhorn.csi-delta.io/snapshot";

// Annotation on archived PVC; written by plugin; read by plugin. The uid of the native snapshot.
inline constexpr char kLonghornSnapshotUidAnnotation[] = "longhorn.csi-delta.io/snapshot-uid";

// Annotation on archived PVC; written by plugin; read by plugin. The name of the Volume of Longhorn
// that the native snapshot is in.
inline constexpr char kLonghornVolumeAnnotation[] = "longhorn.csi-delta.io/volume";

// Annotation on archived PVC; written by plugin; read by you. RFC 3339: when the native snapshot
// was taken, by the clock of Longhorn.
inline constexpr char kLonghornTakenAtAnnotation[] = "longhorn.csi-delta.io/taken-at";

// Engine label on Snapshot of Longhorn, and its volume; written by plugin; read by doctor, you. The
// backup, through ValidLabelValue(). Longhorn keeps it in the volume.
inline constexpr char kLonghornEngineBackupLabel[] = "csi-delta-backup";

// Engine label on Snapshot of Longhorn, and its volume; written by plugin; read by you. The uid of
// the Backup.
inline constexpr char kLonghornEngineBackupUidLabel[] = "csi-delta-backup-uid";

// Engine label on Snapshot of Longhorn, and its volume; written by plugin; read by plugin, you.
// NAMESPACE/NAME of the PVC.
inline constexpr char kLonghornEnginePvcLabel[] = "csi-delta-claim";

// --- Velero's ------------------------------------------------------------------------------------
// Words of Velero and of its former CSI plugin. Backups cross over between Velero's own actions
// and ours, so these never change.

// Label, annotation on VolumeSnapshot, VolumeSnapshotContent, DataUpload, archived PVC, Secret,
// Snapshot of Longhorn (label); record of a kept snapshot (annotation); written by Velero, plugin,
// mover; read by Velero, plugin, mover, doctor, status verb. The backup that it belongs to, through
// ValidLabelValue().
inline constexpr char kBackupNameLabel[] = "velero.io/backup-name";

// Label on VolumeSnapshot, VolumeGroupSnapshot, DataUpload, Snapshot of Longhorn; written by
// Velero, plugin; read by Velero, plugin, mover. The uid of the Backup.
inline constexpr char kBackupUidLabel[] = "velero.io/backup-uid";

// Label on everything restored; written by Velero, plugin; read by Velero, plugin. Through
// ValidLabelValue().
inline constexpr char kRestoreNameLabel[] = "velero.io/restore-name";

// Label on DataDownload, ConfigMaps of a restore, VolumeGroupSnapshot; written by Velero, plugin;
// read by Velero, plugin. The uid of the Restore.
inline constexpr char kRestoreUidLabel[] = "velero.io/restore-uid";

// Label on VolumeSnapshot, DataUpload, Snapshot of Longhorn, Lease of a native snapshot; written by
// Velero, plugin; read by plugin, mover. The uid of the PVC.
inline constexpr char kPvcUidLabel[] = "velero.io/pvc-uid";

// Label on DataUpload, DataDownload; written by Velero, plugin; read by Velero, plugin.
inline constexpr char kAsyncOperationIdLabel[] = "velero.io/async-operation-id";

// Label on archived PVC; written by Velero, plugin; read by Velero, plugin. The name of its
// VolumeSnapshot, as it is: it may be too long for a label.
inline constexpr char kVolumeSnapshotNameLabel[] = "velero.io/volume-snapshot-name";

// Annotation on archived PVC; written by Velero, plugin; read by Velero, plugin. The name of its
// VolumeSnapshot.
inline constexpr char kVolumeSnapshotNameAnnotation[] = "velero.io/volume-snapshot-name";

// Label on any; written by you, plugin, mover; read by Velero, plugin. true keeps it out of
// backups.
inline constexpr char kExcludeFromBackupLabel[] = "velero.io/exclude-from-backup";

// Label on VolumeSnapshotClass; written by you; read by Velero, plugin. Use this class for its
// driver, whatever the value.
inline constexpr char kVolumeSnapshotClassLabel[] = "velero.io/csi-volumesnapshot-class";

// Label on ConfigMaps of a restore; written by Velero; read by plugin. <namespace>.<PVC> through
// ValidLabelValue(): the action on DataUploads tells the action on PVCs what the archive holds.
inline constexpr char kPvcNamespaceNameLabel[] = "velero.io/pvc-namespace-name";

// Label on ConfigMaps of a restore; written by Velero; read by plugin. DataUpload.
inline constexpr char kResourceUsageLabel[] = "velero.io/resource-usage";

// Label on selector of a restored PVC; written by Velero, plugin; read by Velero, plugin, mover.
// While a data mover fills its volume.
inline constexpr char kDynamicPvRestoreLabel[] = "velero.io/dynamic-pv-restore";

// Label on PVC; written by you; read by Velero, plugin. The default of
// spec.volumeGroupSnapshotLabelKey.
inline constexpr char kVolumeGroupLabel[] = "velero.io/volume-group";

// Label on VolumeGroupSnapshotClass; written by you; read by Velero, plugin. true: use this class
// for its driver.
inline constexpr char kGroupSnapshotClassLabel[] = "velero.io/csi-volumegroupsnapshot-class";

// Annotation on archived PVC; written by Velero, plugin; read by Velero, plugin.
// <namespace>/<DataUpload>: a data mover took the volume.
inline constexpr char kDataUploadNameAnnotation[] = "velero.io/data-upload-name";

// Annotation on PVC; written by you; read by Velero, plugin. The VolumeSnapshotClass for this PVC.
inline constexpr char kVolumeSnapshotClassAnnotation[] = "velero.io/csi-volumesnapshot-class";

// Annotation on PVC; written by you; read by Velero, plugin. The VolumeGroupSnapshotClass for the
// group of this PVC.
inline constexpr char kGroupSnapshotClassAnnotation[] = "velero.io/csi-volume-group-snapshot-class";

// Annotation on archived PVC; written by Velero; read by plugin.
inline constexpr char kSkippedNoCsiPvAnnotation[] = "backup.velero.io/skipped-no-csi-pv";

// Annotation on the item that a backup action returns; written by Velero, plugin; read by Velero.
// true: its additional items pass every filter of the backup.
inline constexpr char kMustIncludeAnnotation[] = "backup.velero.io/must-include-additional-items";

// Annotation on the item that a backup action returns; written by plugin; read by Velero. true: the
// item is left out of the backup, by Velero 1.18.1 and newer; older ones archive it.
inline constexpr char kSkipFromBackupAnnotation[] = "velero.io/skip-from-backup";

// Annotation on the item that a restore action returns; written by Velero, plugin; read by Velero.
// true: its additional items pass every filter of the restore. Velero 1.18.3 and newer removes it;
// older ones do not know it and restore it.
inline constexpr char kRestoreMustIncludeAnnotation[] =
    "restore.velero.io/must-include-additional-items";

// Annotation on archived VolumeSnapshot; written by Velero, plugin; read by Velero, plugin. The
// handle of the driver.
inline constexpr char kVolumeSnapshotHandleAnnotation[] = "velero.io/csi-volumesnapshot-handle";

// Annotation on archived VolumeSnapshot; written by Velero, plugin; read by Velero, plugin.
inline constexpr char kDriverNameAnnotation[] = "velero.io/csi-driver-name";

// Annotation on archived VolumeSnapshot; written by Velero, plugin; read by Velero, plugin. A
// quantity as FormatBinaryQuantity() writes it; absent when the driver did not say.
inline constexpr char kRestoreSizeAnnotation[] = "velero.io/csi-volumesnapshot-restore-size";

// Annotation on archived VolumeSnapshot; written by releases 0.7 of the former CSI plugin; read by
// plugin.
inline constexpr char kMisspeltRestoreSizeAnnotation[] =
    "velero.io/vsi-volumesnapshot-restore-size";

// Annotation on archived VolumeSnapshot; written by Velero, plugin; read by Velero, plugin.
inline constexpr char kDeletionPolicyAnnotation[] = "velero.io/csi-vsc-deletion-policy";

// Annotation on archived VolumeSnapshot, VolumeGroupSnapshot, VolumeGroupSnapshotContent; written
// by Velero, plugin; read by Velero, plugin.
inline constexpr char kGroupSnapshotHandleAnnotation[] = "velero.io/csi-volumegroupsnapshot-handle";

// Annotation on archived VolumeSnapshot, VolumeSnapshotContent; written by Velero up to 1.15; read
// by plugin.
inline constexpr char kDeleteSecretNameAnnotation[] = "velero.io/csi-deletesnapshotsecret-name";

// Annotation on archived VolumeSnapshot, VolumeSnapshotContent; written by Velero up to 1.15; read
// by plugin.
inline constexpr char kDeleteSecretNamespaceAnnotation[] =
    "velero.io/csi-deletesnapshotsecret-namespace";

// Annotation prefix on Backup; written by you; read by Velero, plugin. Followed by the provisioner
// in lower case: the VolumeSnapshotClass for it.
inline constexpr char kBackupSnapshotClassAnnotationPrefix[] =
    "velero.io/csi-volumesnapshot-class_";

// Annotation prefix on Backup; written by you; read by Velero, plugin. Followed by the driver as
// its volumes name it: the VolumeGroupSnapshotClass for it.
inline constexpr char kBackupGroupSnapshotClassAnnotationPrefix[] =
    "velero.io/csi-volumegroupsnapshot-class_";

// Annotation on Backup, Restore; written by Velero; read by Velero, plugin. A Go duration.
inline constexpr char kResourceTimeoutAnnotation[] = "velero.io/resource-timeout";

// Annotation on Backup; written by Velero; read by Velero, plugin. The ConfigMap whose volume
// policies hold for every backup.
inline constexpr char kGlobalVolumePolicyAnnotation[] =
    "velero.io/global-backup-volume-policy-configmap";

// Annotation on Pod; written by you; read by Velero, plugin. Names of volumes, with commas and
// without spaces.
inline constexpr char kVolumesToBackupAnnotation[] = "backup.velero.io/backup-volumes";

// Annotation on Pod; written by you; read by Velero, plugin. The same.
inline constexpr char kVolumesToExcludeAnnotation[] = "backup.velero.io/backup-volumes-excludes";

// --- Longhorn's ----------------------------------------------------------------------------------
// Words of Longhorn.

// Label on CustomResourceDefinition; written by Longhorn; read by doctor. On each of Longhorn's
// own, with an empty value.
inline constexpr char kLonghornDefinitionLabel[] = "longhorn-manager";

// Label on Snapshot of Longhorn; written by Longhorn; read by plugin, longhorn verbs. The name of
// its Volume.
inline constexpr char kLonghornVolumeLabel[] = "longhornvolume";

// Label prefix on Volume of Longhorn; written by Longhorn, you; read by longhorn verbs. Followed by
// the name of a RecurringJob. enabled: the job applies to the volume.
inline constexpr char kLonghornJobLabelPrefix[] = "recurring-job.longhorn.io/";

// Label prefix on Volume of Longhorn; written by Longhorn, you; read by longhorn verbs. Followed by
// the name of a group. enabled: the RecurringJobs of the group apply to the volume.
inline constexpr char kLonghornJobGroupLabelPrefix[] = "recurring-job-group.longhorn.io/";

// Label on Volume of Longhorn; written by Longhorn; read by longhorn verbs. The Snapshot that the
// volume is a linked clone of, which may not be deleted.
inline constexpr char kLonghornLinkedCloneLabel[] = "longhorn.io/linked-clone-source-snapshot";

// --- Of Kubernetes and CSI -----------------------------------------------------------------------
// Words of Kubernetes, the snapshot controller and the CSI sidecars.

// Annotation on PVC; written by scheduler; read by provisioner, plugin, snapshot verbs.
inline constexpr char kSelectedNodeAnnotation[] = "volume.kubernetes.io/selected-node";

// Annotation on PVC; written by Kubernetes; read by Kubernetes, plugin.
inline constexpr char kBindCompletedAnnotation[] = "pv.kubernetes.io/bind-completed";

// Annotation on PVC, PersistentVolume; written by Kubernetes; read by Kubernetes, plugin.
inline constexpr char kBoundByControllerAnnotation[] = "pv.kubernetes.io/bound-by-controller";

// Annotation on PVC; written by Kubernetes; read by provisioner, plugin.
inline constexpr char kStorageProvisionerAnnotation[] = "volume.kubernetes.io/storage-provisioner";

// Annotation on PVC; written by Kubernetes; read by provisioner, plugin.
inline constexpr char kBetaStorageProvisionerAnnotation[] =
    "volume.beta.kubernetes.io/storage-provisioner";

// Annotation on PersistentVolume; written by provisioner; read by plugin, mover.
inline constexpr char kProvisionedByAnnotation[] = "pv.kubernetes.io/provisioned-by";

// Annotation on StorageClass; written by you; read by Kubernetes, snapshot verbs. true: the class
// of PVCs that name none.
inline constexpr char kDefaultStorageClassAnnotation[] =
    "storageclass.kubernetes.io/is-default-class";

// Annotation on StorageClass; written by you; read by Kubernetes, snapshot verbs. The same, as it
// was called at first.
inline constexpr char kBetaDefaultStorageClassAnnotation[] =
    "storageclass.beta.kubernetes.io/is-default-class";

// Label on VolumeSnapshotContent; written by snapshot controller, plugin, mover; read by sidecar.
// The node whose sidecar owns it, with distributed snapshotting.
inline constexpr char kManagedByLabel[] = "snapshot.storage.kubernetes.io/managed-by";

// Label on DifferentialSnapshot; written by worker; read by mover.
inline constexpr char kAppManagedByLabel[] = "app.kubernetes.io/managed-by";

// Label on Namespace; written by you; read by Kubernetes, doctor.
inline constexpr char kPodSecurityLabel[] = "pod-security.kubernetes.io/enforce";

// Annotation on VolumeSnapshotContent; written by mover, snapshot verbs, you; read by provisioner,
// snapshot verbs. Without it the provisioner makes no block device from the snapshot of a file
// system.
inline constexpr char kModeChangeAnnotation[] =
    "snapshot.storage.kubernetes.io/allow-volume-mode-change";

// Annotation on VolumeSnapshotContent; written by sidecar; read by sidecar, plugin. A
// CreateSnapshot is under way.
inline constexpr char kBeingCreatedAnnotation[] =
    "snapshot.storage.kubernetes.io/volumesnapshot-being-created";

// Annotation on VolumeSnapshotContent; written by snapshot controller, plugin, mover; read by
// sidecar. The deletion is meant.
inline constexpr char kContentBeingDeletedAnnotation[] =
    "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";

// Annotation on VolumeGroupSnapshotContent; written by snapshot controller, plugin; read by
// sidecar. The deletion is meant.
inline constexpr char kGroupBeingDeletedAnnotation[] =
    "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-deleted";

// Annotation on VolumeSnapshotContent of a group member; written by snapshot controller; read by
// sidecar, plugin. The handle of the group.
inline constexpr char kGroupHandleOfMemberAnnotation[] =
    "groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle";

// Annotation on VolumeSnapshotContent; written by sidecar, plugin, mover, snapshot verbs; read by
// sidecar.
inline constexpr char kDeletionSecretNameAnnotation[] =
    "snapshot.storage.kubernetes.io/deletion-secret-name";

// Annotation on VolumeSnapshotContent; written by sidecar, plugin, mover, snapshot verbs; read by
// sidecar.
inline constexpr char kDeletionSecretNamespaceAnnotation[] =
    "snapshot.storage.kubernetes.io/deletion-secret-namespace";

// Annotation on VolumeGroupSnapshotContent; written by sidecar, plugin, mover; read by sidecar.
inline constexpr char kGroupDeletionSecretNameAnnotation[] =
    "groupsnapshot.storage.kubernetes.io/deletion-secret-name";

// Annotation on VolumeGroupSnapshotContent; written by sidecar, plugin, mover; read by sidecar.
inline constexpr char kGroupDeletionSecretNamespaceAnnotation[] =
    "groupsnapshot.storage.kubernetes.io/deletion-secret-namespace";

// Annotation on VolumeSnapshotClass; written by you; read by snapshot controller, plugin.
inline constexpr char kDefaultSnapshotClassAnnotation[] =
    "snapshot.storage.kubernetes.io/is-default-class";

// Annotation on VolumeGroupSnapshotClass; written by you; read by snapshot controller, plugin.
inline constexpr char kDefaultGroupSnapshotClassAnnotation[] =
    "groupsnapshot.storage.kubernetes.io/is-default-class";

// Class parameter, annotation on VolumeSnapshotClass (parameter), archived VolumeSnapshotClass and
// VolumeSnapshotContent (annotation); written by you, Velero; read by sidecar, plugin.
inline constexpr char kSnapshotterSecretName[] = "csi.storage.k8s.io/snapshotter-secret-name";

// Class parameter, annotation on VolumeSnapshotClass (parameter), archived VolumeSnapshotClass and
// VolumeSnapshotContent (annotation); written by you, Velero; read by sidecar, plugin.
inline constexpr char kSnapshotterSecretNamespace[] =
    "csi.storage.k8s.io/snapshotter-secret-namespace";

// Class parameter, annotation on VolumeSnapshotClass (parameter), archived VolumeSnapshotClass and
// VolumeSnapshotContent (annotation); written by you, Velero; read by sidecar, plugin.
inline constexpr char kSnapshotterListSecretName[] =
    "csi.storage.k8s.io/snapshotter-list-secret-name";

// Class parameter, annotation on VolumeSnapshotClass (parameter), archived VolumeSnapshotClass and
// VolumeSnapshotContent (annotation); written by you, Velero; read by sidecar, plugin.
inline constexpr char kSnapshotterListSecretNamespace[] =
    "csi.storage.k8s.io/snapshotter-list-secret-namespace";

// Class parameter on VolumeGroupSnapshotClass; written by you; read by sidecar, plugin.
inline constexpr char kGroupSnapshotterSecretName[] =
    "csi.storage.k8s.io/group-snapshotter-secret-name";

// Class parameter on VolumeGroupSnapshotClass; written by you; read by sidecar, plugin.
inline constexpr char kGroupSnapshotterSecretNamespace[] =
    "csi.storage.k8s.io/group-snapshotter-secret-namespace";

// Class parameter on VolumeGroupSnapshotClass; written by you; read by sidecar, plugin.
inline constexpr char kGroupSnapshotterGetSecretName[] =
    "csi.storage.k8s.io/group-snapshotter-get-secret-name";

// Class parameter on VolumeGroupSnapshotClass; written by you; read by sidecar, plugin.
inline constexpr char kGroupSnapshotterGetSecretNamespace[] =
    "csi.storage.k8s.io/group-snapshotter-get-secret-namespace";

// Finalizer on VolumeSnapshotContent; written by snapshot controller, plugin; read by snapshot
// controller, plugin.
inline constexpr char kContentBoundProtectionFinalizer[] =
    "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";

// Finalizer on VolumeSnapshot; written by snapshot controller; read by snapshot controller.
inline constexpr char kSnapshotBoundProtectionFinalizer[] =
    "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection";

// Finalizer on VolumeSnapshot; written by snapshot controller; read by snapshot controller. A PVC
// that is not bound yet is being filled from it.
inline constexpr char kSnapshotSourceProtectionFinalizer[] =
    "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection";

// Finalizer on VolumeSnapshot; written by provisioner; read by provisioner, snapshot verbs. It
// fills a PVC from it, and goes on although the VolumeSnapshot is being deleted.
inline constexpr char kProvisionerSourceProtectionFinalizer[] =
    "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection";

// Finalizer on VolumeSnapshot; written by snapshot controller; read by snapshot controller,
// plugin. A member of a VolumeGroupSnapshot, which goes with it and not before.
inline constexpr char kSnapshotInGroupFinalizer[] =
    "snapshot.storage.kubernetes.io/volumesnapshot-in-group-protection";

// Finalizer on VolumeGroupSnapshotContent; written by snapshot controller, plugin; read by
// snapshot controller, plugin.
inline constexpr char kGroupContentBoundProtectionFinalizer[] =
    "groupsnapshot.storage.kubernetes.io/volumegroupsnapshotcontent-bound-protection";

// Finalizer on VolumeGroupSnapshot; written by snapshot controller; read by snapshot controller.
inline constexpr char kGroupSnapshotBoundProtectionFinalizer[] =
    "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-bound-protection";

}  // namespace csidelta::objects
