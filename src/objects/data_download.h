#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "objects/data_transfer.h"

namespace csidelta::objects {

// Velero's: fill a PVC with what was moved.
class DataDownload : public ObjectOf<DataDownload, DataTransfer> {
 public:
  static constexpr KindName kKind = {"velero.io", "v2alpha1", "datadownloads", "DataDownload"};

  // As DataUpload::Validate(). A DataDownload names a PersistentVolume only if an annotation says
  // that it is restored in place, so that a data mover which does not know that refuses it.
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
  // The moved snapshot, and which data mover has it where: from the text in which Velero describes
  // a DataUpload of the archive to a restore. INVALID_ARGUMENT if that is no JSON object.
  absl::Status SetSource(absl::string_view upload_result);
};

}  // namespace csidelta::objects
