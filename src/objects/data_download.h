#pragma once

#include <cstdint>
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

  void SetDataMover(absl::string_view name) { Set({"spec", "datamover"}, std::string(name)); }
  void SetMovedSnapshot(absl::string_view id) { Set({"spec", "snapshotID"}, std::string(id)); }
  void SetStorageLocation(absl::string_view name) {
    Set({"spec", "backupStorageLocation"}, std::string(name));
  }
  void SetSourceNamespace(absl::string_view name) {
    Set({"spec", "sourceNamespace"}, std::string(name));
  }
  void SetOperationTimeout(absl::string_view duration) {  // as Go reads it: "10m"
    Set({"spec", "operationTimeout"}, std::string(duration));
  }
  // `volume`: see target_volume().
  void SetTarget(absl::string_view pvc_namespace, absl::string_view pvc, absl::string_view volume);
  // What to fill it with, and who has moved that.
  void SetSource(const DataUploadResult& upload) {
    for (const auto& [field, value] : upload.spec().items()) {
      Set({"spec", field}, value);
    }
  }

 private:
  using ObjectOf::ObjectOf;
};

// What a restore in place did with the bytes of its volume: kRestoredBytesAnnotation.
struct RestoredBytes {
  int64_t logical = 0;
  int64_t compared = 0;
  int64_t written = 0;
  int64_t zero = 0;
  int64_t kept = 0;
};

// The annotation's text: a JSON object.
std::string FormatRestoredBytes(const RestoredBytes& bytes);

}  // namespace csidelta::objects
