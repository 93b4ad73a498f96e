#include "objects/data_upload.h"

namespace csidelta::objects {

void DataUpload::SetSpec(const DataUploadSpec& spec) {
  Set({"spec"}, {{"snapshotType", "CSI"},
                 // Velero reads it without looking whether it is there.
                 {"csiSnapshot",
                  {{"volumeSnapshot", spec.volume_snapshot},
                   {"storageClass", spec.storage_class},
                   {"snapshotClass", spec.snapshot_class},
                   {"driver", spec.driver}}},
                 {"sourcePVC", spec.pvc},
                 {"sourceNamespace", spec.pvc_namespace},
                 {"datamover", spec.data_mover},
                 {"backupStorageLocation", spec.storage_location},
                 {"operationTimeout", absl::FormatDuration(spec.operation_timeout)}});
}

void DataUpload::ReduceTo(absl::string_view annotation) {
  const std::string text = Annotation(annotation);
  for (const char* field :
       {"annotations", "creationTimestamp", "finalizers", "generation", "resourceVersion"}) {
    Remove({"metadata", field});
  }
  if (!text.empty()) {
    SetAnnotation(annotation, text);
  }
  Set({"status"}, {{"phase", phase()}, {"snapshotID", snapshot_id()}});
}

}  // namespace csidelta::objects
