#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/finding.h"
#include "csi/snapshot_state.h"
#include "objects/persistent_volume.h"
#include "objects/storage_class.h"
#include "objects/volume_snapshot.h"

// Checks before a PVC is made that it can be made of a VolumeSnapshot: a PVC that cannot be filled
// stays Pending, and only its events say why. Pure.
//
// Every row that holds is returned, in this order:
//
//   code              when
//   ----------------  ---------------------------------------------------------------------------
//   NotReady          its state is Creating, Uploading, or Error and the driver is asked again
//   Unusable          its state is Deleting, Lost, or Error that the driver means
//   NotMutual         its content belongs to another VolumeSnapshot; where the binding must be
//                     proven also: it is not bound, its content was not read, or does not name its
//                     uid
//   BadName           the name of the PVC is no name that Kubernetes takes
//   NameTaken         a PVC of that name exists
//   NoStorageClass    none was named and none can be chosen; the named one is ""
//   NoSuchClass       the named StorageClass does not exist
//   OtherDriver       the provisioner of the StorageClass is not the driver of the content
//   NoSize            none was given, and the driver does not say how large the snapshot is
//   TooSmall          smaller than the restoreSize of the VolumeSnapshot or of its content
//   OtherMode         not the mode of the source volume, and the content does not allow a change
//   BadAccessMode     an access mode that Kubernetes does not know, ReadWriteOncePod besides others
//
// A VolumeSnapshot that is Unverified may be promoted: the provisioner finds out. Objects that
// cannot be read (the content, StorageClasses) decide nothing, unless the binding must be proven.
namespace csidelta::snapshots {

// The caller's options. PlanPvc() fills in those that are empty.
struct PvcOptions {
  std::string namespace_name;  // of the PVC
  std::string name;
  std::optional<std::string> storage_class = {};
  std::optional<int64_t> size_bytes = {};
  std::optional<objects::VolumeMode> mode = {};
  std::vector<std::string> access_modes = {};
};

// Objects related to a VolumeSnapshot. Borrows what it points to.
struct PromotionSurroundings {
  csi::ContentReading content = {};
  // The PVC that it was taken of, as it is now; null: it does not exist, or cannot be read.
  const objects::PersistentVolumeClaim* source_pvc = nullptr;
  // All of the cluster; null: they cannot be listed.
  const std::vector<objects::StorageClass>* storage_classes = nullptr;
  // The PVC that has the name already; null: none.
  const objects::PersistentVolumeClaim* taken_by = nullptr;
  bool must_prove_binding = false;
};

// The PVC that would be made.
struct PlannedPvc {
  std::string namespace_name;
  std::string name;
  std::string storage_class;  // "" if none can be chosen
  int64_t size_bytes = 0;     // 0 if it is not known
  objects::VolumeMode mode = objects::VolumeMode::kFilesystem;
  std::vector<std::string> access_modes;
};

// `options`, and for those that are empty:
//   StorageClass  that of the source PVC; else, of those of the content's driver, the default class
//                 of the cluster, or the only one
//   size          the larger of restoreSize, rounded up to MiB, and what the source PVC requests
//   mode          the content's source mode; else that of the source PVC; else Filesystem
//   access modes  those of the source PVC; else ReadWriteOnce
PlannedPvc PlanPvc(const objects::VolumeSnapshot& snapshot, const PvcOptions& options,
                   const PromotionSurroundings& around);

// The codes that callers compare with.
inline constexpr absl::string_view kNameTakenCode = "NameTaken";
inline constexpr absl::string_view kTooSmallCode = "TooSmall";

// NotMutual, unless the content names the VolumeSnapshot by its uid. Pure.
std::optional<Finding> CheckMutual(const objects::VolumeSnapshot& snapshot,
                                   const objects::VolumeSnapshotContent& content);

// An empty result: the PVC can be made, as far as that can be known.
std::vector<Finding> CheckPromotion(const objects::VolumeSnapshot& snapshot, const PlannedPvc& pvc,
                                    const PromotionSurroundings& around);

// --- Its name

// The name of a PVC that is made of a VolumeSnapshot. The first row that applies:
//
//   said                name                              of
//   ------------------  --------------------------------  ----------------------------------------
//   replica_of          <template>-<replica_of>-<number>  the source PVC <template>-<old>-<number>
//   prefix or suffix    <prefix><source PVC><suffix>
//   neither             that of the VolumeSnapshot
//
// The number is `ordinal` if it is given, else that of the source PVC. The StatefulSet <old> is the
// workload that the VolumeSnapshot was taken of, else `replica_of` itself.
struct PvcNaming {
  std::string replica_of = {};  // a StatefulSet
  std::optional<int64_t> ordinal = {};
  std::string prefix = {};
  std::string suffix = {};
};

// FAILED_PRECONDITION, naming the VolumeSnapshot, if the source PVC is not known or is not one of
// that StatefulSet. Pure.
absl::StatusOr<std::string> PvcNameFor(const objects::VolumeSnapshot& snapshot,
                                       const PvcNaming& naming);

}  // namespace csidelta::snapshots
