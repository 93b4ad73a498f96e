#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/json.h"
#include "k8s/api_client.h"

// The kinds that a volume snapshot's life touches, and how to read their objects. All reading is
// pure, never throws, and takes a value of the wrong type for a missing one.
namespace csidelta::csi {

// Built on first use; live for ever.
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

// --- VolumeSnapshot
// status.boundVolumeSnapshotContentName; "" while it is not bound.
std::string BoundContentName(const Json& snapshot);
// The claim it is taken of; "" for a VolumeSnapshot of an existing content.
std::string SourceClaimName(const Json& snapshot);

// --- VolumeSnapshotContent
// status.snapshotHandle; "" until the driver gave it.
std::string SnapshotHandle(const Json& content);
// The content was made for an existing snapshot and is not the product of a VolumeSnapshot.
bool IsPreProvisioned(const Json& content);
// status.restoreSize in bytes; nothing when unknown, which drivers also write as 0.
std::optional<int64_t> RestoreSizeBytes(const Json& content);
// status.creationTime: the instant the driver says it cut the snapshot.
std::optional<absl::Time> CutTime(const Json& content);

// --- VolumeSnapshot and VolumeSnapshotContent
bool ReadyToUse(const Json& object);
// status.error.message, or a text saying that there is none; "" when there is no status.error.
std::string ErrorMessage(const Json& object);
// When status.readyToUse was written last, from metadata.managedFields; nothing when not ready or
// not told.
std::optional<absl::Time> ReadyTime(const Json& object);

}  // namespace csidelta::csi
