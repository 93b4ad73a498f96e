#include "csi/snapshot_types.h"

#include "objects/backup.h"
#include "objects/config_map.h"
#include "objects/data_download.h"
#include "objects/data_upload.h"
#include "objects/event.h"
#include "objects/lease.h"
#include "objects/persistent_volume.h"
#include "objects/persistent_volume_claim.h"
#include "objects/resource_quota.h"
#include "objects/secret.h"
#include "objects/storage_class.h"
#include "objects/volume_attachment.h"
#include "objects/volume_snapshot.h"
#include "objects/workload.h"

namespace csidelta::csi {

const k8s::ResourceType& VolumeSnapshotType() { return objects::VolumeSnapshot::Type(); }
const k8s::ResourceType& VolumeSnapshotContentType() {
  return objects::VolumeSnapshotContent::Type();
}
const k8s::ResourceType& VolumeSnapshotClassType() { return objects::VolumeSnapshotClass::Type(); }
const k8s::ResourceType& PersistentVolumeClaimType() {
  return objects::PersistentVolumeClaim::Type();
}
const k8s::ResourceType& PersistentVolumeType() { return objects::PersistentVolume::Type(); }
const k8s::ResourceType& VolumeAttachmentType() { return objects::VolumeAttachment::Type(); }
const k8s::ResourceType& StorageClassType() { return objects::StorageClass::Type(); }
const k8s::ResourceType& PodType() { return objects::Pod::Type(); }
const k8s::ResourceType& StatefulSetType() { return objects::StatefulSet::Type(); }
const k8s::ResourceType& SecretType() { return objects::Secret::Type(); }
const k8s::ResourceType& ConfigMapType() { return objects::ConfigMap::Type(); }
const k8s::ResourceType& LeaseType() { return objects::Lease::Type(); }
const k8s::ResourceType& EventType() { return objects::Event::Type(); }
const k8s::ResourceType& ResourceQuotaType() { return objects::ResourceQuota::Type(); }
const k8s::ResourceType& BackupType() { return objects::Backup::Type(); }
const k8s::ResourceType& DataUploadType() { return objects::DataUpload::Type(); }
const k8s::ResourceType& DataDownloadType() { return objects::DataDownload::Type(); }

k8s::ObjectKey VolumeSnapshotKey(absl::string_view namespace_name, absl::string_view name) {
  return objects::VolumeSnapshot::Key(namespace_name, name);
}

k8s::ObjectKey VolumeSnapshotContentKey(absl::string_view name) {
  return objects::VolumeSnapshotContent::Key("", name);
}

k8s::ObjectKey ClaimKey(absl::string_view namespace_name, absl::string_view name) {
  return objects::PersistentVolumeClaim::Key(namespace_name, name);
}

k8s::ObjectKey VolumeKey(absl::string_view name) {
  return objects::PersistentVolume::Key("", name);
}

}  // namespace csidelta::csi
