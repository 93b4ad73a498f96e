#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "objects/volume_group_snapshot.h"

// VolumeGroupSnapshotContents for groups that a driver holds already.
// All of it is pure.
//
// Protocol facts: external-snapshotter 8.6.0. A pre-provisioned content lists the handles of the
// group and of its members; all of these are immutable. The sidecar asks the driver about the group
// and fills in the status, but makes no VolumeSnapshots for the members: these, too, are made
// by the creator of the content, and belong to the group by the group handle that the driver
// reports for each.
namespace csidelta::csi {

struct StaticGroup {
  std::string version;  // of the kinds, as the cluster serves them
  std::string name;
  std::string driver;
  std::string handle;
  std::vector<std::string> member_handles;  // of the snapshots
  std::string group_namespace;              // of the VolumeGroupSnapshot that may bind to it
  std::string group_name;
  std::string deletion_policy;  // Retain or Delete
  std::string class_name;       // "" for none
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  std::vector<std::string> finalizers;
};

// The object to create.
objects::VolumeGroupSnapshotContent MakeStaticGroup(const StaticGroup& group);

// The class that gives a pre-provisioned content of `driver` its Secrets: `preferred` when it is
// among `classes` and the driver's, else the first of the driver's in the order of the list; null
// when none exists. Borrowed from `classes`.
const objects::VolumeGroupSnapshotClass* GroupClassOf(
    const std::vector<objects::VolumeGroupSnapshotClass>& classes, absl::string_view driver,
    absl::string_view preferred);

}  // namespace csidelta::csi
