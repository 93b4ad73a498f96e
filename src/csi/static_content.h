#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "objects/volume_snapshot.h"

namespace csidelta::csi {

// What a VolumeSnapshotContent for an existing snapshot is made from.
struct StaticContent {
  std::string name;
  std::string driver;
  std::string handle;
  std::string snapshot_namespace;  // of the VolumeSnapshot that may bind to it
  std::string snapshot_name;
  std::string deletion_policy;  // Retain or Delete
  std::string class_name;       // "" for none
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  std::vector<std::string> finalizers;
};

// The object to create. Pure.
objects::VolumeSnapshotContent MakeStaticContent(const StaticContent& content);

// The annotations of `object`, a VolumeSnapshotContent or an archived VolumeSnapshot, that name the
// Secret for deleting, under the keys that today's snapshot controller reads. Empty when it names
// none. Pure.
std::map<std::string, std::string> DeletionSecretAnnotations(const objects::Object& object);

// The class that gives a static content of `driver` its Secrets: `preferred` when it is among
// `classes` and the driver's, else the first of the driver's in the order of the list, else "".
// Pure.
std::string ClassOfDriver(const std::vector<objects::VolumeSnapshotClass>& classes,
                          absl::string_view driver, absl::string_view preferred);

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
