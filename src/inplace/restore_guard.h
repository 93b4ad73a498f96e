#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/finding.h"
#include "csi/snapshot_state.h"
#include "k8s/api_client.h"
#include "objects/backup.h"
#include "objects/persistent_volume.h"
#include "objects/volume_snapshot.h"
#include "objects/workload.h"

// Checks, before anything is written, that other data may replace that of a PVC. It finds all that
// would fail half-way, or take data from under an application. Every row that holds is returned, in
// this order:
//
//   code               exit  when
//   -----------------  ----  ---------------------------------------------------------------------
//   NotReady              1  the VolumeSnapshot is Creating, Uploading, or Error and retried
//   Unusable              1  it is Deleting, Lost, or Error that the driver means
//   NotMutual             1  it and its content do not name each other, by its uid
//   NoPvc                 1  the PVC does not exist
//   PvcNotBound           1  it is Pending or Lost
//   PvcBeingDeleted       1  its deletion was requested
//   VolumeNotItsOwn       1  its PersistentVolume does not exist, or names another PVC
//   OtherDriver           1  the volume is not of the driver of the content, or not of CSI
//   TooSmall             22  the restoreSize is larger than the volume
//   OtherMode             1  the source volume was in another mode than the PVC
//   SharedVolume          1  its volume is written into, in mode Filesystem and ReadWriteMany
//   UnsafeDriver          1  its volume is written into, and is of csi.vsphere.vmware.com
//   InUse                 1  a Pod that is Pending or Running names the PVC
//   StatefulSetMakes      1  a StatefulSet has it among its templates, and replicas for it
//   StatefulSetDeletes    1  one that has no replica for it deletes such PVCs
//   Busy                 11  a snapshot of it is being taken, its Lease is held, or the data mover
//                            writes into it; not for an earlier run of this restore
//   InBackup              1  a backup of Velero that has not left volumes includes its namespace
//   Unfinished            1  an earlier restore into it was neither finished nor completed
//
// Objects that cannot be read decide nothing and are reported, except the PVC: if that cannot be
// read, reading fails. A VolumeSnapshot that is Unverified may be used: the volume made of it is
// checked before anything is replaced.
namespace csidelta::inplace {

// The code that other checks use, too.
inline constexpr absl::string_view kBusyCode = "Busy";

// Objects of one namespace, for all restores into it. A missing member cannot be read.
struct RestoreSurroundings {
  std::string namespace_name;
  std::optional<std::vector<objects::Pod>> pods = {};
  std::optional<std::vector<objects::StatefulSet>> stateful_sets = {};
  std::optional<std::vector<objects::VolumeSnapshot>> snapshots = {};
  std::optional<std::vector<objects::Backup>> backups = {};  // that have not left volumes
  absl::Time now;
  std::vector<std::string> not_checked = {};  // "Velero backups not checked: ..."
};

// An in-place restore by swap of volumes that was begun and not finished: inplace/volume_swap.h.
struct UnfinishedRestore {
  std::string volume;    // a PersistentVolume that has its record
  std::string snapshot;  // that it restores, by name
};

// One VolumeSnapshot, and the PVC that it is to be restored into.
struct RestoreInfo {
  objects::VolumeSnapshot snapshot;
  csi::ContentReading::Kind content_kind = csi::ContentReading::Kind::kUnknown;
  std::optional<objects::VolumeSnapshotContent> content = {};  // with kPresent
  bool is_handle_gone = false;                                 // as in ContentReading
  std::string pvc_name;
  std::optional<objects::PersistentVolumeClaim> pvc = {};  // nothing: it does not exist
  bool is_volume_read = false;
  std::optional<objects::PersistentVolume> volume = {};  // nothing: it does not exist
  std::string lease_held_for = {};                       // "": the Lease of its volume is free
  std::optional<UnfinishedRestore> unfinished = {};
  // The volume itself is written into, with data of no VolumeSnapshot: rows about one are left out.
  bool is_written_into = false;
  // The uid of the DataDownload of this restore, which does not count as another restore; "" for
  // none.
  std::string own_transfer = {};
  // The DataDownload of the PVC's record is over or gone, and nothing of it is left.
  bool is_transfer_over = false;
  std::vector<std::string> not_checked = {};  // "binding not checked: ..."
};

struct RestoreVerdict {
  std::vector<Finding> refusals;         // none: the restore may be done, as far as known
  std::vector<std::string> not_checked;  // of this PVC: read, but inconclusive
};

// The table above. Pure.
RestoreVerdict CheckRestore(const RestoreSurroundings& around, const RestoreInfo& info);

// OK if there are none. IsVolumeBusy() if Busy is the only refusal; else FAILED_PRECONDITION, with
// all messages after "PVC shop/data is not restored: ". Pure.
absl::Status RefusalStatus(absl::string_view namespace_name, absl::string_view pvc_name,
                           const std::vector<Finding>& refusals);
// True if TooSmall is the only refusal, which a larger volume solves: exit code 22. Pure.
bool IsTooSmallAlone(const std::vector<Finding>& refusals);

// The Pods among `pods` that use the PVC and have not ended. Pure.
std::vector<const objects::Pod*> UsersOf(const std::vector<objects::Pod>& pods,
                                         absl::string_view pvc_name);
// "StatefulSet/db uses it (Pod db-0 is Running); kubectl scale statefulset/db --replicas=0 -n
// shop", for the first of them. REQUIRES one. Pure.
std::string UseText(const std::vector<const objects::Pod*>& users);
// The same text for the Pods that use the PVC now, by one LIST; "" if none does.
absl::StatusOr<std::string> ReadUse(const CallContext& ctx, k8s::ApiClient& api,
                                    absl::string_view namespace_name, absl::string_view pvc_name);

// The name of the VolumeSnapshot that a restore takes of the PVC before it changes anything. It is
// the same in each run, so that the Lease of an earlier run does not block the next. Pure.
std::string SafetySnapshotName(const objects::PersistentVolumeClaim& pvc,
                               const objects::VolumeSnapshot& snapshot);

// The label value of the PersistentVolumes and temporary objects of an in-place restore. It leads
// from the PVC to them, even while the PVC does not exist. Pure.
std::string RestoreLabelValue(absl::string_view namespace_name, absl::string_view pvc_name);

// One LIST of Pods, StatefulSets, VolumeSnapshots and Backups each.
absl::StatusOr<RestoreSurroundings> ReadRestoreSurroundings(const CallContext& ctx,
                                                            k8s::ApiClient& api,
                                                            absl::string_view namespace_name);

// True if the data mover writes no more although the record of the PVC names a DataDownload. That
// object is gone or has its last phase, and no second PersistentVolume of the volume
// (inplace/in_place_volume.h) is left. An object that cannot be read may exist.
absl::StatusOr<bool> IsTransferOver(const CallContext& ctx, k8s::ApiClient& api,
                                    const objects::PersistentVolumeClaim& pvc);

// FAILED_PRECONDITION if the data mover may be writing into the volume; else OK.
absl::Status CheckNotWrittenByMover(const CallContext& ctx, k8s::ApiClient& api,
                                    const objects::PersistentVolumeClaim& pvc);

// A GET of the content, the PVC, its volume and its Lease each, and a LIST of the volumes with the
// label of the PVC. PERMISSION_DENIED if the PVC cannot be read.
absl::StatusOr<RestoreInfo> ReadRestoreInfo(const CallContext& ctx, k8s::ApiClient& api,
                                            const objects::VolumeSnapshot& snapshot,
                                            absl::string_view pvc_name);
// The same for a volume that is written into; reads no VolumeSnapshot.
absl::StatusOr<RestoreInfo> ReadPvcInfo(const CallContext& ctx, k8s::ApiClient& api,
                                        absl::string_view namespace_name,
                                        absl::string_view pvc_name);

}  // namespace csidelta::inplace
