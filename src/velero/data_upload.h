#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/json.h"
#include "objects/object.h"

namespace csidelta::velero {

// spec.datamover of the objects that are managed.
inline constexpr char kDataMoverName[] = "csi-delta";

// Both kinds go through the same phases; kNew is also what has none yet, kUnknown what no Velero
// that we know writes.
enum class DataPhase {
  kNew,
  kAccepted,
  kPrepared,
  kInProgress,
  kCanceling,
  kCanceled,
  kCompleted,
  kFailed,
  kUnknown
};
// As it is written; "" for kUnknown.
std::string ToString(DataPhase phase);
DataPhase ParseDataPhase(absl::string_view text);
// It is not moved any more: Completed, Failed, Canceled.
bool IsTerminal(DataPhase phase);

// What a DataUpload and a DataDownload have in common.
struct DataTransfer {
  std::string name;
  std::string namespace_name;  // Velero's own namespace
  std::string uid;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  std::string data_mover;
  std::string storage_location;               // name of the BackupStorageLocation
  std::string source_namespace;               // where the claim was that was backed up
  bool cancel = false;                        // Velero, or a person, does not want it any more
  bool is_being_deleted = false;              // the object itself: the same
  std::map<std::string, std::string> config;  // spec.dataMoverConfig
  // How long one internal step of a mover may take; absent when it is not set. Velero writes the
  // backup's csiSnapshotTimeout here.
  std::optional<absl::Duration> operation_timeout;

  DataPhase phase = DataPhase::kNew;
  std::string message;
  std::optional<absl::Time> accepted_at;  // Velero 1.16 and later store it
  std::optional<absl::Time> started_at;
};

// What we read of Velero's DataUpload: move what a VolumeSnapshot holds to a location. A value.
struct DataUpload : DataTransfer {
  std::string source_claim;
  std::string claim_uid;  // from its label; "" when not told
  std::string volume_snapshot;
  std::string storage_class;
  std::string snapshot_class;
  std::string driver;  // Velero 1.17 and later tell it
};

// What we read of Velero's DataDownload: fill a claim with what was moved. A value.
struct DataDownload : DataTransfer {
  std::string target_namespace;
  std::string target_claim;
  std::string target_volume;        // whose data is replaced, in place; "": a new one is filled
  std::string snapshot_id;          // as the DataUpload's status had it; anybody's text
  int64_t snapshot_size_bytes = 0;  // Velero 1.18 and later tell it; 0: not told
};

// Read an object as the API server returns it. A DataDownload names a PersistentVolume only where
// it says that it is restored in place (mover.csi-delta.io/into), so that a data mover which does
// not know that refuses it. INVALID_ARGUMENT, naming the field, when the object
// has no name, namespace or uid, lacks what cannot be done without, or has a field of the wrong
// type. Pure.
absl::StatusOr<DataUpload> ParseDataUpload(const Json& object);
absl::StatusOr<DataDownload> ParseDataDownload(const Json& object);
inline absl::StatusOr<DataUpload> ParseDataUpload(const objects::Object& object) {
  return ParseDataUpload(object.json());
}
inline absl::StatusOr<DataDownload> ParseDataDownload(const objects::Object& object) {
  return ParseDataDownload(object.json());
}

}  // namespace csidelta::velero
