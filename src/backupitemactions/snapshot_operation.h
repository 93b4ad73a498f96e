#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace csidelta::backupitemactions {

// The asynchronous operation "until this VolumeSnapshot is ready to use", or a VolumeGroupSnapshot
// with its members, or a native snapshot of Longhorn, as its id says it. The id is all that a later
// process is given, maybe of a later version: every form ever written stays readable.
struct SnapshotOperation {
  enum class Kind { kVolumeSnapshot, kGroup, kLonghorn };
  Kind kind = Kind::kVolumeSnapshot;
  std::string namespace_name;
  std::string snapshot_name;
  std::string snapshot_uid;
  absl::Time started_at;
};

// "1/<namespace>/<name>/<uid>/<RFC 3339 time>"; "g1/..." for a group, "l1/..." for
// a native snapshot. Pure.
std::string EncodeOperationId(const SnapshotOperation& operation);

// INVALID_ARGUMENT when `id` is none that EncodeOperationId() writes for that kind. Pure.
absl::StatusOr<SnapshotOperation> DecodeOperationId(
    absl::string_view id, SnapshotOperation::Kind kind = SnapshotOperation::Kind::kVolumeSnapshot);

}  // namespace csidelta::backupitemactions
