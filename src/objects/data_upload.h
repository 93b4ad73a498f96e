#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "objects/data_transfer.h"
#include "objects/keys.h"

namespace csidelta::objects {

// Velero's: move what a VolumeSnapshot holds to a location.
class DataUpload : public ObjectOf<DataUpload, DataTransfer> {
 public:
  static constexpr KindName kKind = {"velero.io", "v2alpha1", "datauploads", "DataUpload"};

  // INVALID_ARGUMENT, naming the field, if it has no name, namespace or uid, lacks what no upload
  // can do without, or has a field of the wrong type. Pure.
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

  // Status: what it stored; "" until it is done.
  std::string snapshot_id() const { return Text({"status", "snapshotID"}); }

  // Leaves what names it, its owners, this label and this annotation; of the spec what
  // Validate() requires, and the data mover; of the status phase() and
  // snapshot_id().
  void ReduceTo(absl::string_view label, absl::string_view annotation);
};

}  // namespace csidelta::objects
