#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "objects/persistent_volume.h"

// What an in-place restore by swap of volumes writes on both PersistentVolumes, as JSON in the
// annotation snapshot.csi-delta.io/in-place-record. Whatever happens to the PVC, to the program or
// to the other volume, it says what the volume is and how to go on. Pure.
//
//   field        on both volumes
//   -----------  ---------------------------------------------------------------------------------
//   side         original: the volume that the PVC had; restored: that made of the VolumeSnapshot
//   namespace    and pvc: the PVC
//   snapshot     and snapshotUid: the VolumeSnapshot
//   policy       the reclaim policy that the volume had, and gets again when the PVC has it for
//   good peer         name of the other volume
//
//   field        on the original alone
//   -----------  ---------------------------------------------------------------------------------
//   goal         restored, or original after --undo: the volume that the PVC is to have
//   at           RFC 3339: when the restore took place
//   pvcUid       of the PVC that had it
//   safety       the VolumeSnapshot that was taken before; "" for none
//   claim        metadata and spec of the PVC, from which it is made again
namespace csidelta::objects {

enum class SwapSide { kOriginal, kRestored };

// "original", "restored".
std::string ToString(SwapSide side);

struct SwapRecord {
  SwapSide side = SwapSide::kOriginal;
  std::string namespace_name;
  std::string pvc;
  std::string snapshot;
  std::string snapshot_uid = {};
  std::string policy;
  std::string peer;
  // The rest is of the original.
  SwapSide goal = SwapSide::kRestored;
  std::optional<absl::Time> at = {};
  std::string pvc_uid = {};
  std::string safety = {};
  std::optional<PersistentVolumeClaim> claim = {};
};

// The text of the annotation.
std::string FormatSwapRecord(const SwapRecord& record);

// Whether a volume says that it is one of an in-place restore.
bool HasSwapRecord(const PersistentVolume& volume);

// FAILED_PRECONDITION, naming the volume, when it has no record, or one that is not complete: such
// a volume is not touched.
absl::StatusOr<SwapRecord> ParseSwapRecord(const PersistentVolume& volume);

// The purpose of the temporary PVC of such a restore, as JSON in the same annotation.
struct TemporaryRecord {
  std::string pvc_uid;
  std::string snapshot;
  std::string snapshot_uid;
};

std::string FormatTemporaryRecord(const TemporaryRecord& record);
// With "" for what is missing.
TemporaryRecord ParseTemporaryRecord(const PersistentVolumeClaim& pvc);

// The finalizers of a PVC that other programs put there, in its order: nothing may be deleted
// before those programs agree. Kubernetes puts its own ones there again by itself.
std::vector<std::string> ForeignFinalizers(const PersistentVolumeClaim& pvc);

// The PVC to create again. It has name, namespace, labels, owners, ForeignFinalizers(), and the
// spec without the volume. Annotations of the binding and of restores in place are omitted.
// `volume`: that it is to be bound to; "" for none.
PersistentVolumeClaim ClaimToMake(const PersistentVolumeClaim& pvc, const std::string& volume);

}  // namespace csidelta::objects
