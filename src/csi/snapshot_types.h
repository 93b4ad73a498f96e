#pragma once

#include "absl/strings/string_view.h"
#include "k8s/api_client.h"

// The kinds that a volume snapshot's life touches, by short names: Kind::Type() and Kind::Key().
namespace csidelta::csi {

const k8s::ResourceType& VolumeSnapshotType();
const k8s::ResourceType& VolumeSnapshotContentType();
const k8s::ResourceType& VolumeSnapshotClassType();
const k8s::ResourceType& PersistentVolumeClaimType();
const k8s::ResourceType& PersistentVolumeType();
const k8s::ResourceType& VolumeAttachmentType();
const k8s::ResourceType& StorageClassType();
const k8s::ResourceType& PodType();
const k8s::ResourceType& StatefulSetType();
const k8s::ResourceType& SecretType();
const k8s::ResourceType& ConfigMapType();
const k8s::ResourceType& LeaseType();
const k8s::ResourceType& EventType();
const k8s::ResourceType& ResourceQuotaType();
const k8s::ResourceType& BackupType();
const k8s::ResourceType& DataUploadType();
const k8s::ResourceType& DataDownloadType();

k8s::ObjectKey VolumeSnapshotKey(absl::string_view namespace_name, absl::string_view name);
k8s::ObjectKey VolumeSnapshotContentKey(absl::string_view name);
k8s::ObjectKey ClaimKey(absl::string_view namespace_name, absl::string_view name);
k8s::ObjectKey VolumeKey(absl::string_view name);  // PersistentVolume

}  // namespace csidelta::csi
