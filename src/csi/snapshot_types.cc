#include "csi/snapshot_types.h"

#include <string>

namespace csidelta::csi {
namespace {

constexpr char kSnapshotGroup[] = "snapshot.storage.k8s.io";

}  // namespace

const k8s::ResourceType& VolumeSnapshotType() {
  static const k8s::ResourceType type{kSnapshotGroup, "v1", "volumesnapshots", "VolumeSnapshot",
                                      true};
  return type;
}

const k8s::ResourceType& VolumeSnapshotContentType() {
  static const k8s::ResourceType type{kSnapshotGroup, "v1", "volumesnapshotcontents",
                                      "VolumeSnapshotContent", false};
  return type;
}

const k8s::ResourceType& VolumeSnapshotClassType() {
  static const k8s::ResourceType type{kSnapshotGroup, "v1", "volumesnapshotclasses",
                                      "VolumeSnapshotClass", false};
  return type;
}

const k8s::ResourceType& PersistentVolumeClaimType() {
  static const k8s::ResourceType type{"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim",
                                      true};
  return type;
}

const k8s::ResourceType& PersistentVolumeType() {
  static const k8s::ResourceType type{"", "v1", "persistentvolumes", "PersistentVolume", false};
  return type;
}

const k8s::ResourceType& VolumeAttachmentType() {
  static const k8s::ResourceType type{"storage.k8s.io", "v1", "volumeattachments",
                                      "VolumeAttachment", false};
  return type;
}

const k8s::ResourceType& StorageClassType() {
  static const k8s::ResourceType type{"storage.k8s.io", "v1", "storageclasses", "StorageClass",
                                      false};
  return type;
}

const k8s::ResourceType& PodType() {
  static const k8s::ResourceType type{"", "v1", "pods", "Pod", true};
  return type;
}

const k8s::ResourceType& StatefulSetType() {
  static const k8s::ResourceType type{"apps", "v1", "statefulsets", "StatefulSet", true};
  return type;
}

const k8s::ResourceType& SecretType() {
  static const k8s::ResourceType type{"", "v1", "secrets", "Secret", true};
  return type;
}

const k8s::ResourceType& ConfigMapType() {
  static const k8s::ResourceType type{"", "v1", "configmaps", "ConfigMap", true};
  return type;
}

const k8s::ResourceType& LeaseType() {
  static const k8s::ResourceType type{"coordination.k8s.io", "v1", "leases", "Lease", true};
  return type;
}

const k8s::ResourceType& ResourceQuotaType() {
  static const k8s::ResourceType type{"", "v1", "resourcequotas", "ResourceQuota", true};
  return type;
}

const k8s::ResourceType& EventType() {
  static const k8s::ResourceType type{"", "v1", "events", "Event", true};
  return type;
}

const k8s::ResourceType& BackupType() {
  static const k8s::ResourceType type{"velero.io", "v1", "backups", "Backup", true};
  return type;
}

const k8s::ResourceType& DataUploadType() {
  static const k8s::ResourceType type{"velero.io", "v2alpha1", "datauploads", "DataUpload", true};
  return type;
}

const k8s::ResourceType& DataDownloadType() {
  static const k8s::ResourceType type{"velero.io", "v2alpha1", "datadownloads", "DataDownload",
                                      true};
  return type;
}

k8s::ObjectKey VolumeSnapshotKey(absl::string_view namespace_name, absl::string_view name) {
  return {.type = VolumeSnapshotType(),
          .namespace_name = std::string(namespace_name),
          .name = std::string(name)};
}

k8s::ObjectKey VolumeSnapshotContentKey(absl::string_view name) {
  return {.type = VolumeSnapshotContentType(), .namespace_name = "", .name = std::string(name)};
}

k8s::ObjectKey ClaimKey(absl::string_view namespace_name, absl::string_view name) {
  return {.type = PersistentVolumeClaimType(),
          .namespace_name = std::string(namespace_name),
          .name = std::string(name)};
}

k8s::ObjectKey VolumeKey(absl::string_view name) {
  return {.type = PersistentVolumeType(), .namespace_name = "", .name = std::string(name)};
}

}  // namespace csidelta::csi
