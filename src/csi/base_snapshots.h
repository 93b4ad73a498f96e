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
#include "k8s/informer.h"
#include "objects/volume_snapshot.h"

namespace csidelta::csi {

// Whose base it is. Stands in the content's annotations from its creation, see OwnerAnnotations().
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

// For the content that may become a base, to be created with (ExposeRequest::annotations). Later is
// too late: when its VolumeSnapshot is deleted, the snapshot controller replaces all annotations of
// the content by those it remembers and one more (external-snapshotter 8.6.0,
// setAnnVolumeSnapshotBeingDeleted), and what was added a moment ago is lost. Labels stay.
std::map<std::string, std::string> OwnerAnnotations(const BaseOwner& owner);

// What a content with the label of bases says of itself.
BaseSnapshot ReadBase(const objects::VolumeSnapshotContent& content);
// Takes out what ReadBase() does not look at, which is half of it; whether it is being deleted
// stays.
void ReduceToBase(objects::VolumeSnapshotContent& content);

// Makes the content `content_name`, which ExposeSnapshot() made with the annotations of `owner`,
// the base of its volume, and drops the older ones with the driver's snapshots. `is_needed`: the
// driver has said that it cannot list changes since a snapshot that is gone, whatever was thought
// of it before. NOT_FOUND when the content is gone. Idempotent. The older ones are those of the
// index of `env`, where it has one: what that does not know yet is dropped after the next upload.
absl::Status KeepAsBase(const CallContext& ctx, const Environment& env,
                        absl::string_view content_name, const BaseOwner& owner,
                        bool is_needed = false);

// Drops all bases of a volume. For one whose driver keeps none any more.
absl::Status DropBases(const CallContext& ctx, const Environment& env, const BaseOwner& owner);

// Whether a base of `driver`, of whichever volume, is known to be needed.
absl::StatusOr<bool> NeedsBases(const CallContext& ctx, const Environment& env,
                                absl::string_view driver);

// The contents that are bases.
k8s::WatchedObjects BaseContents();

// All bases, of one Velero namespace; "" for all. Those being deleted are none.
absl::StatusOr<std::vector<BaseSnapshot>> ListBases(const CallContext& ctx, const Environment& env,
                                                    absl::string_view velero_namespace);

// The base of a volume: the newest, where there are two. A volume is told by its claim's uid.
absl::StatusOr<std::optional<BaseSnapshot>> FindBase(const CallContext& ctx, const Environment& env,
                                                     const BaseOwner& owner);

// Has the driver drop the snapshot of a base, and the content with it. True when it is gone or
// being deleted; false when it is left for later, because a PVC is being filled from it. A content
// that is no base is left alone: FAILED_PRECONDITION. Does not wait for the driver.
absl::StatusOr<bool> DropBase(const CallContext& ctx, const Environment& env,
                              absl::string_view content_name);

}  // namespace csidelta::csi
