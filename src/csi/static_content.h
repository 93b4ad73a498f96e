#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "base/status_macros.h"
#include "csi/environment.h"
#include "k8s/api_client.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/persistent_volume.h"
#include "objects/storage_class.h"
#include "objects/volume_group_snapshot.h"
#include "objects/volume_snapshot.h"

// Contents for existing snapshots of a driver, and for groups of them.
//
// Protocol facts: external-snapshotter 8.6.0. A pre-provisioned content of a group lists the
// handles of the group and of its members; all of these are immutable. The sidecar reads the group
// from the driver and fills in the status, but makes no VolumeSnapshots for the members. The
// creator of the content makes them too. They belong to the group by the group handle that the
// driver reports for each.
namespace csidelta::csi {

// The fields of a content of an existing snapshot, or group.
struct StaticContent {
  std::string version = {};  // of the kinds of a group, as the cluster serves them
  std::string name = {};
  std::string driver = {};
  std::string handle = {};
  std::vector<std::string> member_handles = {};  // of a group: of its snapshots
  std::string snapshot_namespace = {};  // of the VolumeSnapshot, or group, that may bind to it
  std::string snapshot_name = {};
  std::string deletion_policy = "Retain";        // or Delete
  std::string class_name = {};                   // "" for none
  std::optional<objects::VolumeMode> mode = {};  // of the source volume; nothing: not written
  std::map<std::string, std::string> labels = {};
  std::map<std::string, std::string> annotations = {};
  std::vector<std::string> finalizers = {};
};

// For another content of the same snapshot: driver, handle, class, the Secret for deleting it, and
// the node whose sidecar owns it with distributed snapshotting. The caller sets the names. Pure.
StaticContent ContentBeside(const objects::VolumeSnapshotContent& content);

// Makes the content, unless one of its name exists, whatever made that. A `version` makes it a
// group's. REQUIRES a name, a policy, and members for a group.
absl::Status EnsureStaticContent(const CallContext& ctx, k8s::ApiClient& api,
                                 const StaticContent& content);

// The object to create. Pure.
objects::VolumeSnapshotContent MakeStaticContent(const StaticContent& content);
objects::VolumeGroupSnapshotContent MakeStaticGroup(const StaticContent& group);

// The annotations of `object`, a VolumeSnapshotContent or an archived VolumeSnapshot, that name the
// Secret for deleting, under the keys of today's snapshot controller. Empty if it names none. Pure.
std::map<std::string, std::string> DeletionSecretAnnotations(const objects::Object& object);

// Removes these, under every spelling. Returns true if anything was removed. Pure.
bool RemoveDeletionSecret(objects::Object& object);

// True for what Velero <= 1.15 and its former CSI plugin replaced a content by when they finished a
// backup: it refers to "name-<uid>" in "ns-<uid>", so that nothing can bind to it. Pure.
bool IsParked(const objects::VolumeSnapshotContent& content);

// The class that gives a static content of `driver` its Secrets. `preferred`, if it is among
// `classes` and is the driver's; else the driver's first in the order of the list; else "". Pure.
std::string ClassOfDriver(const std::vector<objects::VolumeSnapshotClass>& classes,
                          absl::string_view driver, absl::string_view preferred);
// The same for a group; null if not found. Borrowed from `classes`. Pure.
const objects::VolumeGroupSnapshotClass* GroupClassOf(
    const std::vector<objects::VolumeGroupSnapshotClass>& classes, absl::string_view driver,
    absl::string_view preferred);

// Turns `content`, as the host read it from an archive, into a static content called `new_name`. It
// binds to the VolumeSnapshot `new_name` in `snapshot_namespace`. It is Retain, has the handle of
// `from_backup` as source, and lacks marks of controllers and backups that must not travel. Other
// fields stay. FAILED_PRECONDITION if the archive has no handle. Pure.
absl::Status RewriteForRestore(const objects::VolumeSnapshotContent& from_backup,
                               absl::string_view new_name, absl::string_view snapshot_namespace,
                               objects::VolumeSnapshotContent& content);

// Removes from archived metadata what would cause errors when it is restored. These are progress
// marks of the snapshot controller, labels by which a running backup finds its VolumeSnapshots, and
// the membership of a group. A member's finalizer would never be removed without its group. Returns
// true if anything was removed. Pure.
bool StripMarks(objects::Object& object);

// All VolumeSnapshotClasses; an empty list if the kind is not served.
absl::StatusOr<std::vector<objects::VolumeSnapshotClass>> ListSnapshotClasses(
    const CallContext& ctx, const Environment& env);

// Whether the cluster has the driver: one of `classes`, of snapshots or of groups, names it, or its
// CSIDriver exists. A class that a restore brought proves no driver. True if CSIDrivers may not be
// read. At most one request.
template <typename Class>
absl::StatusOr<bool> HasDriver(const CallContext& ctx, const Environment& env,
                               const std::vector<Class>& classes, const std::string& driver) {
  if (std::any_of(classes.begin(), classes.end(), [&](const Class& one) {
        return one.driver() == driver && !one.HasLabel(objects::kRestoreNameLabel);
      })) {
    return true;
  }
  const auto found = objects::Find<objects::CsiDriver>(ctx, env.api, "", driver);
  if (absl::IsPermissionDenied(found.status())) {
    return true;
  }
  RETURN_IF_ERROR(found.status());
  return found->has_value();
}

}  // namespace csidelta::csi
