#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "objects/volume_snapshot.h"

namespace csidelta::snapshots {

// How the PVC is called that is made of a VolumeSnapshot. The first row that applies:
//
//   said                name                              of
//   ------------------  --------------------------------  ----------------------------------------
//   replica_of          <template>-<replica_of>-<number>  the source PVC <template>-<old>-<number>
//   prefix or suffix    <prefix><source PVC><suffix>
//   neither             that of the VolumeSnapshot
//
// The number is `ordinal` where it is given, else that of the source PVC. The StatefulSet <old> is
// the workload that the VolumeSnapshot was taken of, else `replica_of` itself.
struct PvcNaming {
  std::string replica_of = {};  // a StatefulSet
  std::optional<int64_t> ordinal = {};
  std::string prefix = {};
  std::string suffix = {};
};

// FAILED_PRECONDITION, naming the VolumeSnapshot, when the source PVC is not known or is not one of
// that StatefulSet. Pure.
absl::StatusOr<std::string> PvcNameFor(const objects::VolumeSnapshot& snapshot,
                                       const PvcNaming& naming);

}  // namespace csidelta::snapshots
