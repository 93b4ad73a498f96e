#include "csi/snapshot_types.h"

#include "base/rfc3339.h"
#include "objects/object.h"

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

std::string BoundContentName(const Json& snapshot) {
  return GetString(snapshot, {"status", "boundVolumeSnapshotContentName"});
}

std::string SourceClaimName(const Json& snapshot) {
  return GetString(snapshot, {"spec", "source", "persistentVolumeClaimName"});
}

std::string SnapshotHandle(const Json& content) {
  return GetString(content, {"status", "snapshotHandle"});
}

bool IsPreProvisioned(const Json& content) {
  return !GetString(content, {"spec", "source", "snapshotHandle"}).empty();
}

std::optional<int64_t> RestoreSizeBytes(const Json& content) {
  const int64_t size_bytes = GetInt(content, {"status", "restoreSize"});
  return size_bytes > 0 ? std::optional(size_bytes) : std::nullopt;
}

std::optional<absl::Time> CutTime(const Json& content) {
  const int64_t nanoseconds = GetInt(content, {"status", "creationTime"});
  return nanoseconds > 0 ? std::optional(absl::FromUnixNanos(nanoseconds)) : std::nullopt;
}

bool ReadyToUse(const Json& object) { return GetBool(object, {"status", "readyToUse"}); }

std::string ErrorMessage(const Json& object) {
  const Json* const error = FindJson(object, {"status", "error"});
  if (error == nullptr || !error->is_object()) {
    return "";
  }
  const std::string message = GetString(*error, {"message"});
  return message.empty() ? "an error without a message" : message;
}

std::optional<absl::Time> ReadyTime(const Json& object) {
  if (!ReadyToUse(object)) {
    return std::nullopt;
  }
  for (const Json& entry : objects::JsonArrayAt(object, {"metadata", "managedFields"})) {
    if (FindJson(entry, {"fieldsV1", "f:status", "f:readyToUse"}) != nullptr) {
      return ParseRfc3339(GetString(entry, {"time"}));
    }
  }
  return std::nullopt;
}

}  // namespace csidelta::csi
