#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "objects/field_rules.h"
#include "objects/keys.h"
#include "objects/object.h"

namespace csidelta::objects {

struct BackupFigures;

// spec.datamover of the objects that are managed.
inline constexpr char kDataMoverName[] = "csi-delta";

// Of a DataUpload that is to be full, and of a Backup (Velero 1.19).
inline constexpr char kNoParentSnapshot[] = "none";
inline constexpr char kNewestParentSnapshot[] = "auto";
inline constexpr char kFullBackup[] = "Full";

// Both kinds go through the same phases; kNew is also one that has none yet, kUnknown one that no
// Velero that we know writes.
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

// A DataUpload or a DataDownload of Velero. These kinds have no status subresource.
class DataTransfer : public Object {
 public:
  DataTransfer() = default;
  // INVALID_ARGUMENT for what is neither.
  static absl::StatusOr<DataTransfer> Of(Json json);
  static absl::StatusOr<DataTransfer> From(const Object& object) { return Of(object.json()); }

  std::string data_mover() const { return Text({"spec", "datamover"}); }
  bool is_managed() const { return data_mover() == kDataMoverName; }
  std::string storage_location() const { return Text({"spec", "backupStorageLocation"}); }
  std::string source_namespace() const { return Text({"spec", "sourceNamespace"}); }
  std::string Config(absl::string_view key) const {  // of spec.dataMoverConfig; "": not set
    return Text({"spec", "dataMoverConfig", key});
  }
  bool is_cancelled() const { return Flag({"spec", "cancel"}); }  // or is to be
  // Of a DataDownload: what Velero expects on the volume; "": it does not tell.
  std::string file_system() const { return Text({"spec", "targetVolume", "fsType"}); }
  // New, Accepted, Prepared, InProgress, Canceling, Canceled, Completed, Failed; "" for a new one.
  std::string phase() const { return Text({"status", "phase"}); }
  DataPhase known_phase() const;
  // It is not moved any more: Completed, Failed, Canceled.
  bool is_over() const;
  std::string message() const { return Text({"status", "message"}); }
  int64_t done_bytes() const { return Number({"status", "progress", "bytesDone"}); }
  int64_t total_bytes() const { return Number({"status", "progress", "totalBytes"}); }
  std::optional<absl::Time> accepted_at() const { return TimeAt({"status", "acceptedTimestamp"}); }
  std::optional<absl::Time> started_at() const { return TimeAt({"status", "startTimestamp"}); }
  std::optional<absl::Time> completed_at() const {
    return TimeAt({"status", "completionTimestamp"});
  }
  std::optional<absl::Duration> duration() const;  // from its start to its end

  void SetDataMover(absl::string_view name) { Set({"spec", "datamover"}, name); }
  void SetStorageLocation(absl::string_view name) { Set({"spec", "backupStorageLocation"}, name); }
  void SetOperationTimeout(absl::string_view duration) {  // as Go reads it: "10m"
    Set({"spec", "operationTimeout"}, duration);
  }
  void SetPhase(DataPhase phase) { Set({"status", "phase"}, ToString(phase)); }
  void SetMessage(absl::string_view message) { Set({"status", "message"}, message); }
  void SetProgress(int64_t done_bytes, int64_t total_bytes) {
    Set({"status", "progress"}, {{"bytesDone", done_bytes}, {"totalBytes", total_bytes}});
  }
  void SetAcceptedAt(absl::Time time) { SetTime("acceptedTimestamp", time); }
  void SetStartedAt(absl::Time time) { SetTime("startTimestamp", time); }
  void SetCompletedAt(absl::Time time) { SetTime("completionTimestamp", time); }
  // Of a DataUpload: what it stored, as its DataDownload is to name it.
  void SetSnapshotId(absl::string_view id) { Set({"status", "snapshotID"}, id); }
  // Of a DataUpload that is done: what the backup did, as far as annotations and status tell.
  BackupFigures figures() const;
  void SetFigures(const BackupFigures& figures);
  // For a transfer that is over: keeps names and uid, this annotation, the data mover and the
  // source PVC of the spec, and phase, message and times of the status.
  void ReduceToOutcome(absl::string_view annotation);
  void SetIncrementalBytes(int64_t bytes) { Set({"status", "incrementalBytes"}, bytes); }

 protected:
  explicit DataTransfer(Json json) : Object(std::move(json)) {}

  // Rules of both kinds, then `others`, those of one kind.
  absl::Status ValidateTransfer(absl::Span<const FieldRule> others, const char* kind) const;

 private:
  void SetTime(absl::string_view field, absl::Time time);
};

// Velero's: move what a VolumeSnapshot holds to a location.
class DataUpload : public ObjectOf<DataUpload, DataTransfer> {
 public:
  static constexpr KindName kKind = {"velero.io", "v2alpha1", "datauploads", "DataUpload"};

  // INVALID_ARGUMENT, naming the field, if it has no name, namespace or uid, lacks a field that
  // each upload needs, or has a field of the wrong type. Pure.
  absl::Status Validate() const;

  std::string source_pvc() const { return Text({"spec", "sourcePVC"}); }
  std::string pvc_uid() const { return Label(kPvcUidLabel); }  // "": Velero did not tell it
  std::string storage_class() const { return Text({"spec", "csiSnapshot", "storageClass"}); }
  std::string volume_snapshot() const { return Text({"spec", "csiSnapshot", "volumeSnapshot"}); }
  // A PVC, and its VolumeSnapshot, which is in the PVC's namespace.
  void SetSource(absl::string_view pvc_namespace, absl::string_view pvc,
                 absl::string_view storage_class);
  void SetSnapshot(absl::string_view volume_snapshot, absl::string_view snapshot_class,
                   absl::string_view driver);

  // Velero 1.19: the snapshotID of the DataUpload to build on; "auto" or "": the newest of the
  // volume, "none": a full backup.
  std::string parent_snapshot() const { return Text({"spec", "parentSnapshot"}); }
  bool is_full() const {
    return parent_snapshot() == kNoParentSnapshot || Text({"spec", "backupType"}) == kFullBackup;
  }
  void RequestFull() { Set({"spec", "parentSnapshot"}, kNoParentSnapshot); }
  // Of the volume, as its PersistentVolume names it; "": not known.
  void SetSourceFileSystem(absl::string_view name) { Set({"spec", "sourceFSType"}, name); }

  // Status: what it stored; "" until it is done.
  std::string snapshot_id() const { return Text({"status", "snapshotID"}); }

  // Keeps names, uid, owners, this label and this annotation. Of the spec it keeps the fields that
  // Validate() requires, and the data mover; of the status phase() and snapshot_id().
  void ReduceTo(absl::string_view label, absl::string_view annotation);
};

// Velero's: fill a PVC with what was moved.
class DataDownload : public ObjectOf<DataDownload, DataTransfer> {
 public:
  static constexpr KindName kKind = {"velero.io", "v2alpha1", "datadownloads", "DataDownload"};

  // As DataUpload::Validate(). A DataDownload may name a PersistentVolume only if an annotation
  // says that it is restored in place. A data mover that does not know the annotation refuses it.
  absl::Status Validate() const;

  // Spec.
  std::string moved_snapshot() const { return Text({"spec", "snapshotID"}); }  // anybody's text
  int64_t moved_bytes() const {  // of that; 0: Velero 1.17 and earlier do not tell
    return Number({"spec", "snapshotSize"});
  }
  std::string target_namespace() const { return Text({"spec", "targetVolume", "namespace"}); }
  std::string target_pvc() const { return Text({"spec", "targetVolume", "pvc"}); }
  // The PersistentVolume that is written into in place; "": a new one is filled.
  std::string target_volume() const { return Text({"spec", "targetVolume", "pv"}); }

  void SetMovedSnapshot(absl::string_view id) { Set({"spec", "snapshotID"}, id); }
  void SetSourceNamespace(absl::string_view name) { Set({"spec", "sourceNamespace"}, name); }
  // `volume`: see target_volume().
  void SetTarget(absl::string_view pvc_namespace, absl::string_view pvc, absl::string_view volume) {
    Set({"spec", "targetVolume"}, {{"namespace", pvc_namespace}, {"pvc", pvc}, {"pv", volume}});
  }
  // The moved snapshot, which data mover has it where, and the volume's file system: from the text
  // in which Velero describes a DataUpload of the archive to a restore. After SetTarget().
  // INVALID_ARGUMENT if that is no JSON object.
  absl::Status SetSource(absl::string_view upload_result);
};

}  // namespace csidelta::objects
