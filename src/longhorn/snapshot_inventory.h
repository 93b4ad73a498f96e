#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/finding.h"
#include "k8s/api_client.h"

// The Snapshots of Longhorn, each as a small struct, with what belongs to them and what keeps each
// from a prune. A cluster has tens of thousands, of which 42 MB would be read as JSON and held as
// hundreds. Costs a LIST of each kind, in pages of which one is held at a time.
namespace csidelta::longhorn {

// Of 30,000 Snapshots 60 requests are made.
inline constexpr int kPageItemsMax = 500;
// Of a text that others wrote, such as an error of Longhorn. What is longer is cut.
inline constexpr std::size_t kTextBytesMax = 256;
// A Snapshot has one child, or two after a revert.
inline constexpr std::size_t kChildrenMax = 16;
// More objects that need one Snapshot are counted and not named.
inline constexpr std::size_t kNeedsNamedMax = 8;
inline constexpr absl::Duration kYoungSnapshotAgeMax = absl::Minutes(5);
// The longest name that the validating webhook of Longhorn 1.12 and newer can look up as a label.
inline constexpr std::size_t kDeletableNameBytesMax = 63;

// Whether a Snapshot can be used, and counts as one for keep rules:
//
//   deletionTimestamp  markRemoved  readyToUse  creationTime  state
//   -----------------  -----------  ----------  ------------  --------
//   yes                any          any         any           Deleting: it goes once Longhorn can
//   -                  yes          any         any           Removed: the object of what is purged
//   -                  -            yes         any           Ready
//   -                  -            -           none          Pending: Longhorn is to take it
//   -                  -            -           set           NotReady: taken, and not shown
enum class SnapshotState { kDeleting, kRemoved, kReady, kPending, kNotReady };

// "Deleting", ...
absl::string_view ToString(SnapshotState state);

// What the RecurringJob that took a Snapshot is to its volume now. Longhorn's own clean-up of a job
// never looks again at the Snapshots of the last two.
enum class JobState {
  kNone,     // none took it
  kUnknown,  // the jobs may not be listed
  kApplies,
  kNotOfVolume,  // the job is there, and does not apply to the volume any more
  kGone,         // the job is not there
};

// "None", ...
absl::string_view ToString(JobState state);

struct VolumeEntry {
  std::string name;
  bool is_there = false;  // its object was found
  bool is_being_deleted = false;
  bool is_migrating = false;
  bool is_being_filled = false;  // from a Backup of Longhorn, or as a clone
  std::string state;             // attached, detached, ...
  std::string pvc_namespace;     // of the PVC that it is or was bound to; ""
  std::string pvc_name;
  std::set<std::string> jobs;  // RecurringJobs that apply to it
};

struct SnapshotEntry {
  std::string name;
  std::string uid;
  std::size_t volume = 0;  // its position among the volumes
  std::string job;         // the RecurringJob that took it; ""
  JobState job_state = JobState::kNone;
  SnapshotState state = SnapshotState::kPending;
  std::string parent;
  std::vector<std::string> children;
  std::string error;  // what Longhorn reports; "" for nothing
  std::optional<absl::Time> created_at;
  std::optional<absl::Time> requested_at;
  std::optional<absl::Time> taken_at;
  int64_t size_bytes = 0;
  int64_t restore_size_bytes = 0;
  bool is_to_be_taken = false;
  bool is_ready = false;
  bool is_marked_removed = false;
  bool is_user_created = false;
  bool is_newest = false;
  bool is_made_by_managed = false;
  std::string backup;             // of Velero, as its label says it; ""
  std::vector<Finding> kept_for;  // what keeps it from a prune
};

struct Inventory {
  std::string namespace_name;
  std::vector<VolumeEntry> volumes;  // those of the Snapshots, by name
  // By volume, and the oldest first.
  std::vector<SnapshotEntry> snapshots;
  // What the caller may not read, and what is not known for it.
  std::vector<std::string> not_checked;
  bool are_jobs_known = true;
};

struct InventoryRequest {
  std::string namespace_name;  // Longhorn's
  std::string volume = {};     // "": of all
  bool requires_all = false;   // What cannot be read is an error, and not only named.
  absl::Time now;
};

// Snapshots are read first: what needs one that is on the list may have come since, and is seen.
// NOT_FOUND if the kind is not served. PERMISSION_DENIED when Snapshots cannot be listed. All other
// kinds that cannot be are named in `not_checked`, or with `requires_all` an error: Volumes,
// RecurringJobs and Backups of Longhorn, VolumeSnapshotContents, PVCs, Velero's Backups. Other
// errors of the API server end it.
absl::StatusOr<Inventory> ReadInventory(const CallContext& ctx, k8s::ApiClient& api,
                                        const InventoryRequest& request);

// Why a prune may not delete a Snapshot of Longhorn, for list and prune alike. Every row that holds
// is returned, in this order; none: it may go. Pure.
//
//   code            when                                                      known from
//   --------------  --------------------------------------------------------  --------------------
//   VolumeSnapshot  a VolumeSnapshotContent names it (snap://VOLUME/NAME), or  needs
//                   its driver is still to take it (snapshot-<uid>)
//   PendingPvc      a PVC that is not bound is filled from it                 needs
//   Clone           a Volume is being copied from it, or is a linked clone    needs
//   Uploading       a Backup of Longhorn that is not over reads it            needs
//   LastBackup      the next Backup of Longhorn is compared with it           needs
//   Backup          a backup of Velero made it, and deletes it                its labels
//   Newest          only volume-head comes after it: Longhorn would mark it   its children
//                   as removed, and leave it
//   LongName        Longhorn refuses to delete a name beyond 63 characters    its name
//   Young           younger than 5 minutes: what needs it may be on its way   its date
//
// `needs` are the first five, which other objects give. They are found by the Snapshot's name
// alone, which is unique in Longhorn's namespace: a handle that names another volume keeps it, too.
// `is_backup_gone`: Velero's Backups were read, and the entry's is not among them.
std::vector<Finding> ProtectionsOf(const SnapshotEntry& entry, std::vector<Finding> needs,
                                   bool is_backup_gone, absl::Time now);

// When it was taken; where that is not known, when that was requested, or its object made. Pure.
std::optional<absl::Time> DateOf(const SnapshotEntry& entry);

// Which Snapshots are meant; what is empty says nothing.
struct Selection {
  std::string volume = {};
  std::string pvc_namespace = {};  // with pvc_name
  std::string pvc_name = {};
  std::string job = {};
  bool of_gone_jobs = false;                        // kNotOfVolume and kGone
  std::optional<absl::Time> before = std::nullopt;  // taken before; one without a date was not
};

bool IsSelected(const Inventory& inventory, const SnapshotEntry& entry, const Selection& selection);

// "shop/orders"; "" for none.
std::string PvcText(const VolumeEntry& volume);

}  // namespace csidelta::longhorn
