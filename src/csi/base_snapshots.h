#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "k8s/event_recorder.h"
#include "k8s/informer.h"
#include "objects/volume_snapshot.h"

namespace csidelta::csi {

// The volume that a base belongs to. It stands in the content's annotations from its creation:
// OwnerAnnotations().
struct BaseOwner {
  std::string velero_namespace;
  std::string location;  // BackupStorageLocation
  std::string claim_namespace;
  std::string claim;
  std::string claim_uid;
  std::string cluster;

  bool operator==(const BaseOwner&) const = default;
};

struct BaseSnapshot {
  std::string content_name;
  BaseOwner owner;
  std::string driver;
  std::string snapshot_handle;
  std::optional<absl::Time> snapshot_taken_at;
  std::optional<absl::Time> created_at;    // the content
  bool is_needed = false;                  // see KeepAsBase()
  std::string upload = {};                 // uid of the DataUpload that left it; "" when unknown
  std::optional<int64_t> size_bytes = {};  // of the volume

  bool operator==(const BaseSnapshot&) const = default;

  std::optional<absl::Time> taken_at() const {
    return snapshot_taken_at.has_value() ? snapshot_taken_at : created_at;
  }
};

// For the content that may become a base, to be created with (ExposeRequest::annotations). An
// annotation that is added later can be lost. When the VolumeSnapshot is deleted, the snapshot
// controller writes all annotations of the content from its own, older copy (external-snapshotter
// 8.6.0, setAnnVolumeSnapshotBeingDeleted). Labels stay.
std::map<std::string, std::string> OwnerAnnotations(const BaseOwner& owner);

// Reads a content with the label of bases.
BaseSnapshot ReadBase(const objects::VolumeSnapshotContent& content);
// Removes the half of a content that ReadBase() does not read. The mark of its deletion stays.
void ReduceToBase(objects::VolumeSnapshotContent& content);

// Makes `content_name` the base of its volume, and drops the older bases with the driver's
// snapshots. ExposeSnapshot() made that content with the annotations of `owner`. `is_needed`: the
// driver has reported that it cannot list changes since a deleted snapshot; once set, it stays. The
// older bases are read from the index of `env`, if it has one. A base that the index misses is
// dropped after the next upload. NOT_FOUND if the content is gone. Idempotent.
absl::Status KeepAsBase(const CallContext& ctx, const Environment& env,
                        absl::string_view content_name, const BaseOwner& owner,
                        bool is_needed = false);

// Drops all bases of a volume, for a driver that keeps none from now on.
absl::Status DropBases(const CallContext& ctx, const Environment& env, const BaseOwner& owner);

// True if a base of `driver`, of any volume, is known to be needed.
absl::StatusOr<bool> NeedsBases(const CallContext& ctx, const Environment& env,
                                absl::string_view driver);

// The contents that are bases.
k8s::WatchedObjects BaseContents();

// All bases of one Velero namespace; "" for all. Bases that are being deleted are omitted.
absl::StatusOr<std::vector<BaseSnapshot>> ListBases(const CallContext& ctx, const Environment& env,
                                                    absl::string_view velero_namespace);

// The newest base of a volume. A volume is identified by its PVC's uid.
absl::StatusOr<std::optional<BaseSnapshot>> FindBase(const CallContext& ctx, const Environment& env,
                                                     const BaseOwner& owner);

// Drops the oldest base of a PVC, of whichever location, because the driver has no room for another
// snapshot of its volume: `driver_error` is its answer. Spares a base that an upload under way may
// be compared with. True if one was dropped. An Event of `component` on the PVC says so. An error
// if no other base made room than one for which uploads cannot be listed.
absl::StatusOr<bool> DropBaseForRoom(const CallContext& ctx, const Environment& env,
                                     absl::string_view claim_uid, absl::string_view driver_error,
                                     absl::string_view component = k8s::kPluginComponent);

// Emits an Event about a base on its PVC, unless that is gone. An Event that cannot be written is
// only logged.
void EmitBaseEvent(const CallContext& ctx, k8s::ApiClient& api, const BaseOwner& owner,
                   k8s::EventType type, absl::string_view reason, absl::string_view message,
                   absl::string_view component);

// Deletes a base, with the driver's snapshot. True if it is gone or being deleted; false if it
// stays for now, because a PVC is being filled from it. FAILED_PRECONDITION for a content that is
// not a base. Does not wait for the driver.
absl::StatusOr<bool> DropBase(const CallContext& ctx, const Environment& env,
                              absl::string_view content_name);

}  // namespace csidelta::csi
