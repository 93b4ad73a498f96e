#include "objects/data_upload.h"

namespace csidelta::objects {

absl::Status DataUpload::Validate() const {
  static constexpr FieldRule kRules[] = {
      {"spec.sourcePVC", IsTextThatIsSet},
      {"spec.csiSnapshot.volumeSnapshot", IsTextThatIsSet},
      {"spec.csiSnapshot.storageClass", IsText},
      {"spec.csiSnapshot.snapshotClass", IsText},
      {"spec.csiSnapshot.driver", IsText},
  };
  return ValidateTransfer(kRules, kKind.kind);
}

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

void DataUpload::ReduceTo(absl::string_view label, absl::string_view annotation) {
  const std::string label_text = Label(label);
  const std::string annotation_text = Annotation(annotation);
  Set({"metadata"}, PickAt("metadata", {"name", "namespace", "uid", "ownerReferences"}));
  if (!label_text.empty()) {
    SetLabels({{std::string(label), label_text}});
  }
  if (!annotation_text.empty()) {
    SetAnnotation(annotation, annotation_text);
  }
  const std::string snapshot = volume_snapshot();
  Set({"spec"},
      PickAt("spec", {"datamover", "backupStorageLocation", "sourceNamespace", "sourcePVC"}));
  if (!snapshot.empty()) {
    Set({"spec", "csiSnapshot", "volumeSnapshot"}, snapshot);
  }
  Set({"status"}, {{"phase", phase()}, {"snapshotID", snapshot_id()}});
}

}  // namespace csidelta::objects
