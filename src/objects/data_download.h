#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "objects/data_transfer.h"
#include "objects/data_upload_result.h"

namespace csidelta::objects {

// Velero's: fill a PVC with what was moved. velero::ParseDataDownload() reads its spec as a whole.
class DataDownload : public ObjectOf<DataDownload, DataTransfer> {
 public:
  static constexpr KindName kKind = {"velero.io", "v2alpha1", "datadownloads", "DataDownload"};

  // Spec.
  std::string moved_snapshot() const { return Text({"spec", "snapshotID"}); }  // of the DataUpload
  // The PersistentVolume that is written into in place; "": a new one is filled.
  std::string target_volume() const { return Text({"spec", "targetVolume", "pv"}); }

  void SetDataMover(absl::string_view name) { Set({"spec", "datamover"}, name); }
  void SetMovedSnapshot(absl::string_view id) { Set({"spec", "snapshotID"}, id); }
  void SetStorageLocation(absl::string_view name) { Set({"spec", "backupStorageLocation"}, name); }
  void SetSourceNamespace(absl::string_view name) { Set({"spec", "sourceNamespace"}, name); }
  void SetOperationTimeout(absl::string_view duration) {  // as Go reads it: "10m"
    Set({"spec", "operationTimeout"}, duration);
  }
  // `volume`: see target_volume().
  void SetTarget(absl::string_view pvc_namespace, absl::string_view pvc, absl::string_view volume) {
    Set({"spec", "targetVolume"}, {{"namespace", pvc_namespace}, {"pvc", pvc}, {"pv", volume}});
  }
  // What to fill it with, and who has moved that.
  void SetSource(const DataUploadResult& upload) {
    for (const auto& [field, value] : upload.spec().items()) {
      Set({"spec", field}, value);
    }
  }
};

}  // namespace csidelta::objects
