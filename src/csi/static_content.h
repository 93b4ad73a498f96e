#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "k8s/api_client.h"
#include "objects/volume_group_snapshot.h"
#include "objects/volume_snapshot.h"

// Contents for snapshots, and for groups of them, that a driver holds already.
//
// Protocol facts: external-snapshotter 8.6.0. A pre-provisioned content of a group lists the
// handles of the group and of its members; all of these are immutable. The sidecar asks the driver
// about the group and fills in the status, but makes no VolumeSnapshots for the members: these,
// too, are made by the creator of the content, and belong to the group by the group handle that the
// driver reports for each.
namespace csidelta::csi {

// What the content of an existing snapshot, or group, is made from.
struct StaticContent {
  std::string version = {};  // of the kinds of a group, as the cluster serves them
  std::string name = {};
  std::string driver = {};
  std::string handle = {};
  std::vector<std::string> member_handles = {};  // of a group: of its snapshots
  std::string snapshot_namespace = {};  // of the VolumeSnapshot, or group, that may bind to it
  std::string snapshot_name = {};
  std::string deletion_policy = "Retain";  // or Delete
  std::string class_name = {};             // "" for none
  std::map<std::string, std::string> labels = {};
  std::map<std::string, std::string> annotations = {};
  std::vector<std::string> finalizers = {};
};

// For the snapshot that `content` has: its driver, handle and class, the Secret for deleting it,
// and the node whose sidecar alone has it with distributed snapshotting. The names are left to the
// caller. Pure.
StaticContent ContentBeside(const objects::VolumeSnapshotContent& content);

// Makes the content, of a group if it says a version, unless one of its name exists, whatever made
// that.
absl::Status EnsureStaticContent(const CallContext& ctx, k8s::ApiClient& api,
                                 const StaticContent& content);

// The object to create. Pure.
objects::VolumeSnapshotContent MakeStaticContent(const StaticContent& content);
objects::VolumeGroupSnapshotContent MakeStaticGroup(const StaticContent& group);

// The annotations of `object`, a VolumeSnapshotContent or an archived VolumeSnapshot, that name the
// Secret for deleting, under the keys that today's snapshot controller reads. Empty when it names
// none. Pure.
std::map<std::string, std::string> DeletionSecretAnnotations(const objects::Object& object);

// The class that gives a static content of `driver` its Secrets: `preferred` when it is among
// `classes` and the driver's, else the first of the driver's in the order of the list, else "".
// Pure.
std::string ClassOfDriver(const std::vector<objects::VolumeSnapshotClass>& classes,
                          absl::string_view driver, absl::string_view preferred);
// The same of a group; null for none. Borrowed from `classes`. Pure.
const objects::VolumeGroupSnapshotClass* GroupClassOf(
    const std::vector<objects::VolumeGroupSnapshotClass>& classes, absl::string_view driver,
    absl::string_view preferred);

// Turns `content`, as the host read it from an archive, into a static content that binds to the
// VolumeSnapshot `new_name` in `snapshot_namespace`, and is itself called `new_name`: Retain, the
// handle of `from_backup` as source, without the marks of controllers and of the backup that must
// not travel. Other fields stay. FAILED_PRECONDITION when the archive holds no handle. Pure.
absl::Status RewriteForRestore(const objects::VolumeSnapshotContent& from_backup,
                               absl::string_view new_name, absl::string_view snapshot_namespace,
                               objects::VolumeSnapshotContent& content);

// Removes from archived metadata what makes trouble when it comes back: the snapshot controller's
// progress marks, the labels by which we find the volume snapshots of a running backup, and what
// says that a volume snapshot is a member of a group: the finalizer of members would never go where
// the group does not live. Returns whether anything was there. Pure.
bool StripMarks(objects::Object& object);

// All VolumeSnapshotClasses; an empty list where the kind is not served.
absl::StatusOr<std::vector<objects::VolumeSnapshotClass>> ListSnapshotClasses(
    const CallContext& ctx, const Environment& env);

}  // namespace csidelta::csi
