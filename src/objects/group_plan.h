#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "objects/volume_group_snapshot.h"
#include "objects/volume_snapshot.h"

namespace csidelta::objects {

// A member of a volume group that was asked for: an entry of kGroupMembersAnnotation.
struct PlannedGroupMember {
  std::string pvc = {};  // "" with its uid: not known, of a group that an archive has
  std::string pvc_uid = {};
  std::string volume_handle = {};
  std::string snapshot_handle = {};  // "" where the content alone tells it, and until it is taken

  bool operator==(const PlannedGroupMember&) const = default;
};

// The annotation's text: a JSON array. What is not known of a PVC, or a snapshot, is left out.
std::string FormatGroupPlan(const std::vector<PlannedGroupMember>& members);
// Of any other text: nothing. A field that is missing is "".
std::vector<PlannedGroupMember> ParseGroupPlan(absl::string_view text);

// A member of a group that is moved; of its content no more than Essence() and the names of
// Secrets.
struct MovedGroupMember {
  std::string pvc;
  VolumeSnapshotContent content;
};

// What a record of a moved group keeps (kGroupPlanAnnotation), so that the move goes on once the
// group's own objects may be gone.
struct MovedGroupPlan {
  std::string namespace_name;
  std::string label_key;  // of the PVCs that are of the group
  std::string label_value;
  VolumeGroupSnapshot group;  // Essence() of it
  VolumeGroupSnapshotContent content;
  std::map<std::string, MovedGroupMember> members;  // by the PVC's uid
};

// The annotation's text. Of `content` the time is written; `members` as they are.
std::string FormatMovedGroupPlan(const MovedGroupPlan& plan);
// Of a record, whose driver and handle are the group's; nothing where it has no plan, or one that
// names a snapshot which the record does not.
std::optional<MovedGroupPlan> ParseMovedGroupPlan(const VolumeGroupSnapshotContent& record);

}  // namespace csidelta::objects
