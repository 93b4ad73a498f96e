#pragma once

#include "absl/strings/string_view.h"
#include "k8s/api_client.h"
#include "objects/backup.h"
#include "objects/core.h"
#include "objects/data_deletion.h"
#include "objects/data_transfer.h"
#include "objects/event.h"
#include "objects/persistent_volume.h"
#include "objects/storage_class.h"
#include "objects/volume_group_snapshot.h"
#include "objects/volume_snapshot.h"
#include "objects/workload.h"

// Short names for the kinds that a volume snapshot's life touches, as tests write them often.
namespace csidelta {

inline const k8s::ResourceType& VolumeSnapshotType() { return objects::VolumeSnapshot::Type(); }
inline const k8s::ResourceType& VolumeSnapshotContentType() {
  return objects::VolumeSnapshotContent::Type();
}
inline const k8s::ResourceType& VolumeSnapshotClassType() {
  return objects::VolumeSnapshotClass::Type();
}
inline const k8s::ResourceType& PersistentVolumeClaimType() {
  return objects::PersistentVolumeClaim::Type();
}
inline const k8s::ResourceType& PersistentVolumeType() { return objects::PersistentVolume::Type(); }
inline const k8s::ResourceType& VolumeAttachmentType() { return objects::VolumeAttachment::Type(); }
inline const k8s::ResourceType& StorageClassType() { return objects::StorageClass::Type(); }
inline k8s::ResourceType VolumeAttributesClassType() {
  return {"storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass", false};
}
inline const k8s::ResourceType& PodType() { return objects::Pod::Type(); }
inline const k8s::ResourceType& StatefulSetType() { return objects::StatefulSet::Type(); }
inline const k8s::ResourceType& SecretType() { return objects::Secret::Type(); }
inline const k8s::ResourceType& ConfigMapType() { return objects::ConfigMap::Type(); }
inline const k8s::ResourceType& LeaseType() { return objects::Lease::Type(); }
inline const k8s::ResourceType& EventType() { return objects::Event::Type(); }
inline const k8s::ResourceType& ResourceQuotaType() { return objects::ResourceQuota::Type(); }
inline const k8s::ResourceType& BackupType() { return objects::Backup::Type(); }
inline const k8s::ResourceType& DataUploadType() { return objects::DataUpload::Type(); }
inline const k8s::ResourceType& DataDeletionType() { return objects::DataDeletion::Type(); }
inline const k8s::ResourceType& DataDownloadType() { return objects::DataDownload::Type(); }

inline k8s::ObjectKey VolumeSnapshotKey(absl::string_view namespace_name, absl::string_view name) {
  return objects::VolumeSnapshot::Key(namespace_name, name);
}
inline k8s::ObjectKey VolumeSnapshotContentKey(absl::string_view name) {
  return objects::VolumeSnapshotContent::Key("", name);
}
inline k8s::ObjectKey ClaimKey(absl::string_view namespace_name, absl::string_view name) {
  return objects::PersistentVolumeClaim::Key(namespace_name, name);
}
inline k8s::ObjectKey VolumeKey(absl::string_view name) {
  return objects::PersistentVolume::Key("", name);
}

inline k8s::ResourceType VolumeGroupSnapshotType(absl::string_view version) {
  return objects::VolumeGroupSnapshot::kKind.TypeOf(version);
}
inline k8s::ResourceType VolumeGroupSnapshotContentType(absl::string_view version) {
  return objects::VolumeGroupSnapshotContent::kKind.TypeOf(version);
}
inline k8s::ResourceType VolumeGroupSnapshotClassType(absl::string_view version) {
  return objects::VolumeGroupSnapshotClass::kKind.TypeOf(version);
}
inline k8s::ObjectKey GroupContentKey(absl::string_view version, absl::string_view name) {
  return objects::VolumeGroupSnapshotContent::Key(version, "", name);
}

}  // namespace csidelta
