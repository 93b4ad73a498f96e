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

void DataUpload::SetSource(absl::string_view pvc_namespace, absl::string_view pvc,
                           absl::string_view storage_class) {
  Set({"spec", "sourceNamespace"}, pvc_namespace);
  Set({"spec", "sourcePVC"}, pvc);
  Set({"spec", "csiSnapshot", "storageClass"}, storage_class);
}

void DataUpload::SetSnapshot(absl::string_view volume_snapshot, absl::string_view snapshot_class,
                             absl::string_view driver) {
  Set({"spec", "snapshotType"}, "CSI");
  // Velero reads csiSnapshot without looking whether it is there.
  Set({"spec", "csiSnapshot", "volumeSnapshot"}, volume_snapshot);
  Set({"spec", "csiSnapshot", "snapshotClass"}, snapshot_class);
  Set({"spec", "csiSnapshot", "driver"}, driver);
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
