#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/finding.h"
#include "csi/snapshot_protection.h"
#include "k8s/api_client.h"
#include "snapshots/snapshot_inventory.h"

// Deletion of a VolumeSnapshot, or of a group of them, on request: the effect on its data, the
// protections, and the deletion itself. For `snapshot delete`, `snapshot prune` and --make-room;
// all other callers use csi/drop.h.
namespace csidelta::snapshots {

// Effect on the data when the VolumeSnapshot is deleted:
//
//   its content                    deletionPolicy  with_data  action
//   -----------------------------  --------------  ---------  ------------
//   not bound to one               -               any        kNone
//   may not be read                -               any        kUnknown
//   does not exist                 -               any        kContentGone
//   names another VolumeSnapshot   any             any        kNotItsOwn
//   names it                       Delete          any        kDeleted
//   names it                       Retain          yes        kDeleted
//   names it                       Retain          no         kKept
//
// With kKept the driver keeps its snapshot, and only the handle leads to it. Of a member of a group
// that was read, the policy is that of the VolumeGroupSnapshotContent, which has to exist as well:
// the driver deletes a group as a whole.
enum class DataAction { kNone, kUnknown, kContentGone, kNotItsOwn, kDeleted, kKept };

// "none", "unknown", "content-gone", "not-its-own", "deleted", "kept".
absl::string_view ToString(DataAction action);

DataAction ActionOf(const SnapshotEntry& entry, bool with_data);
// Of the first one whose data is not deleted.
DataAction ActionOf(const Unit& unit, bool with_data);

struct RemovalOptions {
  bool with_data = false;  // the driver's snapshot goes, too, whatever the policy says
  bool last_too = false;   // LastReady does not count
};

// The verdict if a person names the VolumeSnapshot for deletion:
//
//   state     kept from a person   with_data  verdict
//   --------  -------------------  ---------  -------------
//   Deleting  any                  no         kBeingDeleted: there is nothing left to do (2)
//   any       for some reason (1)  any        kProtected
//   any       -                    any        kDelete
//
// (1) LastReady does not count with last_too, or if not all VolumeSnapshots of the PVC could be
// read. It also protects the newest Ready one among those chosen if no other Ready one of its PVC
// would be left. A member of a group is protected unless all its members go.
// (2) A member only waits for its group: what counts is whether that is being deleted.
enum class RemovalVerdict { kDelete, kBeingDeleted, kProtected };

struct PlannedRemoval {
  Unit unit;  // several only with kDelete
  RemovalVerdict verdict = RemovalVerdict::kDelete;
  std::vector<Finding> kept_for;  // of kProtected
  DataAction action = DataAction::kNone;
};

// Returns one plan for each position in `chosen`, and one for all members of a group that goes.
// Pure.
std::vector<PlannedRemoval> PlanRemoval(const Inventory& inventory,
                                        const std::vector<std::size_t>& chosen,
                                        const RemovalOptions& options);

struct RemovalRequest {
  csi::Requester requester = csi::Requester::kPerson;
  bool with_data = false;
  std::string mover_namespace;
};

struct Removal {
  enum class End {
    kRequested,  // the API server accepted the deletion
    kGone,       // it, or this one of its name, did not exist any more
    kKept,       // something protects it now that did not when it was read
  };
  End end = End::kRequested;
  std::vector<Finding> kept_for;  // of kKept
};

// Deletes the VolumeSnapshot as it was read: by uid and resourceVersion, so that a change since
// then (a label that keeps it, another object of the same name) prevents it. A changed
// VolumeSnapshot is read again by name, and checked again by ProtectionsOf(). With `with_data` the
// policy of its content becomes Delete first, which the API server confirms. It becomes Retain
// again if the VolumeSnapshot stays.
//
// Of members of a group their VolumeGroupSnapshot is deleted in this way, and then what the
// snapshot controller does not take along. The members are other objects than the group: they are
// read and checked again just before. REQUIRES all members that exist.
//
// Errors are those of the API server; PERMISSION_DENIED names the right. ABORTED: it changes again
// and again. FAILED_PRECONDITION: the content belongs to another VolumeSnapshot, or its policy
// stays Retain; a member is of another group by now. The message says so if the group goes and a
// member's VolumeSnapshot does not.
absl::StatusOr<Removal> RemoveAsRead(const CallContext& ctx, k8s::ApiClient& api, const Unit& unit,
                                     const RemovalRequest& request);

// Timeout of RemoveKeptContent() for a verb that does not wait otherwise.
inline constexpr absl::Duration kKeptContentWait = absl::Seconds(10);

// For kKept, after RemoveAsRead(): the snapshot controller leaves the content of a deleted
// VolumeSnapshot, and as long as it exists its handle cannot be imported. Waits until the
// VolumeSnapshot is gone, then deletes the content; the driver keeps its snapshot. Deletes nothing
// unless the content still says Retain and names this VolumeSnapshot. Of a member that of its group
// goes, too. DEADLINE_EXCEEDED from ctx.
absl::Status RemoveKeptContent(const CallContext& ctx, k8s::ApiClient& api,
                               const SnapshotEntry& entry);

// RemoveKeptContent() for each one with kKept. Returns a sentence for each content that stays.
std::vector<std::string> RemoveKeptContents(const CallContext& ctx, k8s::ApiClient& api,
                                            const Unit& unit);

// Waits until its group, if that was read, and the VolumeSnapshot are gone, and then its content if
// `with_content` and it was read. DEADLINE_EXCEEDED names what it waits for: the finalizers, and
// the state of the content if it can be read.
absl::Status AwaitRemoval(const CallContext& ctx, k8s::ApiClient& api, const SnapshotEntry& entry,
                          bool with_content);

}  // namespace csidelta::snapshots
