#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "csi/group/group_lifecycle.h"
#include "csi/snapshot_lifecycle.h"
#include "k8s/api_client.h"
#include "objects/volume_group_snapshot.h"
#include "objects/volume_snapshot.h"

// A volume group that a data mover moves, member by member, while the driver's group lives as one:
//
//   VolumeGroupSnapshot of TakeGroup(), ready
//       |  AdoptGroup
//       v
//   RECORD: a VolumeGroupSnapshotContent with the handles of the group and of all members, bound to
//   nothing, Retain; and for each member a VolumeSnapshotContent and VolumeSnapshot of its own, as
//   single snapshots have them
//       |  exposed, uploaded, kept as a base: its content has the record's name as a label
//       |  not needed: GiveUpMember
//       v
//   all members given up --FinalizeMovedGroup--> the record is deleted with Delete: one group call;
//                                              then the members' contents go
//
// Protocol facts: external-snapshotter 8.6.0. The sidecar deletes a pre-provisioned group by its
// handle and those of all members, and drivers may refuse to delete a member alone. A content whose
// snapshot the driver reports as part of a group becomes ready only while a
// VolumeGroupSnapshotContent has that handle in its status.
namespace csidelta::csi {

// The group of a member, as annotations of the member's content keep it from its creation.
struct MovedGroup {
  std::string name;   // "<namespace>/<label value>"
  std::string label;  // "<label key>=<label value>"
  std::string
      snapshot;  // the VolumeGroupSnapshot's name: the same for all that were taken together
  std::optional<absl::Time> snapshot_taken_at;
  std::size_t members = 0;

  bool operator==(const MovedGroup&) const = default;
};

// The record's name; "" for a content that is of no moved group. For a record, its own. Pure.
std::string MovedGroupOf(const objects::Object& content);
// True if the content is of a moved group and was given up: GiveUpMember(). Pure.
bool HasBeenGivenUp(const objects::VolumeSnapshotContent& content);
// Nothing for a content that is of no moved group. Pure.
std::optional<MovedGroup> ReadMovedGroup(const objects::VolumeSnapshotContent& content);
// Labels and annotations of `content` that a further content of the same member needs. Pure.
std::map<std::string, std::string> MovedGroupLabels(const objects::VolumeSnapshotContent& content);
std::map<std::string, std::string> MovedGroupAnnotations(
    const objects::VolumeSnapshotContent& content);

// Turns a group into a record and single snapshots of the members, by the PVCs' uids, named as
// TakeSnapshot() names them. Waits until the driver's group is ready, for the backup's
// csiSnapshotTimeout at most. Resumes an interrupted call. After an error nothing of the group is
// left, or the message names what is.
absl::StatusOr<std::map<std::string, TakenSnapshot>> AdoptGroup(const CallContext& ctx,
                                                                const Environment& env,
                                                                const GroupRequest& request,
                                                                const TakenGroup& taken);

// The snapshot that AdoptGroup() made of a PVC for this backup; nothing if not found. One
// request, or two if there is one.
absl::StatusOr<std::optional<TakenSnapshot>> FindAdopted(const CallContext& ctx,
                                                         const Environment& env,
                                                         const SnapshotRequest& request);

// Resumes, for one PVC, an AdoptGroup() that was interrupted after the group had its record.
// Nothing if this backup has no record with the PVC. `version`: of the group kinds, as they are
// served. One request if there is nothing.
absl::StatusOr<std::optional<TakenSnapshot>> ContinueAdoption(const CallContext& ctx,
                                                              const Environment& env,
                                                              const SnapshotRequest& request,
                                                              const std::string& version);

// Cleans up after an AdoptGroup() whose process died, once its backup is over, or an hour after the
// record was made. Gives up members without a VolumeSnapshot; deletes a record without members,
// with the driver's group. Returns true if it deleted the record.
absl::StatusOr<bool> DeleteOrphanedRecord(const CallContext& ctx, const Environment& env,
                                          const objects::VolumeGroupSnapshotContent& record);

// Checks the group of `content`, a member's. Once all members were moved, or failed, older groups
// of the same label, location and namespace give up their remaining bases. The next backup of those
// PVCs is full. Once all members were given up, the driver's group is deleted, with the Secret of
// the class that fits now. Waits for nothing. Idempotent.
absl::Status FinalizeMovedGroup(const CallContext& ctx, const Environment& env,
                                const objects::VolumeSnapshotContent& content);

}  // namespace csidelta::csi
