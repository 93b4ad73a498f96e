#include "longhorn/snapshot_inventory.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "longhorn/types.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/persistent_volume.h"
#include "objects/volume_snapshot.h"
#include "velero/labels.h"
#include "velero/volume_decision.h"

namespace csidelta::longhorn {
namespace {

using objects::PersistentVolumeClaim;
using objects::VolumeSnapshotContent;

std::string Cut(std::string text) {
  if (text.size() > kTextBytesMax) {
    text.resize(kTextBytesMax);
  }
  text.shrink_to_fit();
  return text;
}

SnapshotState StateOf(const Snapshot& snapshot) {
  if (snapshot.is_being_deleted()) {
    return SnapshotState::kDeleting;
  }
  if (snapshot.is_marked_removed()) {
    return SnapshotState::kRemoved;
  }
  if (snapshot.is_ready()) {
    return SnapshotState::kReady;
  }
  return snapshot.taken_at().has_value() ? SnapshotState::kNotReady : SnapshotState::kPending;
}

SnapshotEntry EntryOf(const Snapshot& snapshot) {
  SnapshotEntry entry;
  entry.name = snapshot.name();
  entry.uid = snapshot.uid();
  entry.job = Cut(snapshot.job());
  entry.state = StateOf(snapshot);
  entry.parent = Cut(snapshot.parent());
  entry.children = snapshot.children();
  entry.is_newest = snapshot.is_newest();
  entry.children.resize(std::min(entry.children.size(), kChildrenMax));
  for (std::string& child : entry.children) {
    child = Cut(std::move(child));
  }
  entry.error = Cut(snapshot.error());
  entry.created_at = snapshot.created_at();
  entry.requested_at = snapshot.requested_at();
  entry.taken_at = snapshot.taken_at();
  entry.size_bytes = snapshot.size_bytes();
  entry.restore_size_bytes = snapshot.restore_size_bytes();
  entry.is_to_be_taken = snapshot.is_to_be_taken();
  entry.is_ready = snapshot.is_ready();
  entry.is_marked_removed = snapshot.is_marked_removed();
  entry.is_user_created = snapshot.is_user_created();
  entry.is_made_by_managed = !snapshot.Label(objects::kCsiDeltaLabel).empty() ||
                             !snapshot.Label(objects::kLonghornMadeByLabel).empty();
  entry.backup = snapshot.Label(objects::kBackupNameLabel);
  return entry;
}

VolumeEntry EntryOf(const Volume& volume) {
  VolumeEntry entry;
  entry.name = volume.name();
  entry.is_there = true;
  entry.is_being_deleted = volume.is_being_deleted();
  entry.is_migrating = volume.is_migrating();
  entry.is_being_filled = volume.is_being_restored() || (!volume.cloned_from().empty() &&
                                                         volume.clone_state() != kCloneCompleted);
  entry.state = volume.state();
  entry.pvc_namespace = volume.pvc_namespace();
  entry.pvc_name = volume.pvc_name();
  return entry;
}

// The newest Completed Backup of a volume on a target.
struct LastBackup {
  std::string name;
  std::string snapshot;
  std::optional<absl::Time> taken_at;
};

// The Snapshots that a content stands for. Longhorn's CSI driver calls the one that it takes for a
// VolumeSnapshot after that one's uid; until it answers there is no handle.
std::vector<std::string> SnapshotsOf(const VolumeSnapshotContent& content) {
  std::vector<std::string> names;
  for (const std::string& handle : {content.handle(), content.source_handle()}) {
    if (absl::StartsWith(handle, kSnapshotHandlePrefix)) {
      names.push_back(handle.substr(handle.rfind('/') + 1));
    }
  }
  if (content.driver() == velero::kLonghornDriver && content.handle().empty() &&
      content.source_handle().empty()) {
    names.push_back(absl::StrCat("snapshot-", content.snapshot_uid()));
  }
  return names;
}

// What one row of the table says: Snapshots, and why each is needed.
using Needs = std::vector<std::pair<std::string, std::string>>;

std::vector<Finding> Shortened(std::vector<Finding> needs) {
  if (needs.size() > kNeedsNamedMax) {
    const std::size_t more = needs.size() - kNeedsNamedMax;
    needs.resize(kNeedsNamedMax);
    absl::StrAppend(&needs.back().message, ", and ", more, " more need it");
  }
  return needs;
}

class InventoryReader {
 public:
  InventoryReader(const CallContext& ctx, k8s::ApiClient& api, const InventoryRequest& request);
  absl::StatusOr<Inventory> Read();

 private:
  // All of a kind in `namespace_name`; "": in all.
  template <typename Kind>
  absl::Status ReadKind(const std::string& namespace_name, const std::string& label_selector,
                        absl::FunctionRef<void()> begin,
                        absl::FunctionRef<void(const Kind& object)> note);
  absl::Status ReadSnapshots();

  std::size_t PositionOf(const std::string& volume) {
    return volume_names_.emplace(volume, volume_names_.size()).first->second;
  }

  absl::Status ReadJobs();
  absl::Status ReadVolumes();
  void RecordVolume(const Volume& volume);
  absl::Status ReadBackups();
  void RecordBackup(const Backup& backup);
  absl::Status ReadContents();
  absl::Status ReadPvcs();
  absl::Status ReadVeleroBackups();

  // What cannot be read is named, unless all is required.
  absl::Status Excuse(const absl::Status& read, const char* what, bool* is_known = nullptr);
  void Complete();
  JobState JobStateOf(const SnapshotEntry& entry, const std::set<std::string>& jobs) const;
  void Protect();
  void Sort();

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const InventoryRequest& request_;
  Inventory inventory_;
  std::map<std::string, std::size_t> volume_names_;
  std::vector<RecurringJob> jobs_;
  Needs contents_;
  // The Snapshots behind a VolumeSnapshot, by its namespace and name.
  std::multimap<std::pair<std::string, std::string>, std::string> by_volume_snapshot_;
  Needs pending_pvcs_;
  Needs clones_;
  Needs uploads_;
  std::map<std::pair<std::string, std::string>, LastBackup> last_;  // by target and volume
  std::set<std::string> velero_backups_;                            // as labels have them
  bool are_volumes_known_ = true;
  bool are_velero_backups_known_ = true;
};

InventoryReader::InventoryReader(const CallContext& ctx, k8s::ApiClient& api,
                                 const InventoryRequest& request)
    : ctx_(ctx), api_(api), request_(request) {
  inventory_.namespace_name = request.namespace_name;
}

absl::StatusOr<Inventory> InventoryReader::Read() {
  RETURN_IF_ERROR(ReadSnapshots());
  RETURN_IF_ERROR(ReadJobs());
  RETURN_IF_ERROR(ReadVolumes());
  RETURN_IF_ERROR(ReadBackups());
  RETURN_IF_ERROR(ReadContents());
  RETURN_IF_ERROR(ReadPvcs());
  RETURN_IF_ERROR(ReadVeleroBackups());
  Complete();
  Protect();
  return std::move(inventory_);
}

template <typename Kind>
absl::Status InventoryReader::ReadKind(const std::string& namespace_name,
                                       const std::string& label_selector,
                                       absl::FunctionRef<void()> begin,
                                       absl::FunctionRef<void(const Kind& object)> note) {
  return objects::ReadPages<Kind>(ctx_, api_, Kind::Type(), namespace_name,
                                  {.label_selector = label_selector,
                                   .may_be_old = !request_.requires_all && !label_selector.empty(),
                                   .page_items_max = kPageItemsMax},
                                  objects::ForEach<Kind>(begin, note));
}

absl::Status InventoryReader::ReadSnapshots() {
  const std::string selector =
      request_.volume.empty() ? ""
                              : absl::StrCat(objects::kLonghornVolumeLabel, "=", request_.volume);
  return ReadKind<Snapshot>(
      request_.namespace_name, selector,
      [&] {
        inventory_.snapshots.clear();
        volume_names_.clear();
      },
      [&](const Snapshot& snapshot) {
        if (request_.volume.empty() || snapshot.volume() == request_.volume) {
          inventory_.snapshots.push_back(EntryOf(snapshot));
          inventory_.snapshots.back().volume = PositionOf(snapshot.volume());
        }
      });
}

absl::Status InventoryReader::ReadJobs() {
  return Excuse(ReadKind<RecurringJob>(
                    request_.namespace_name, "", [&] { jobs_.clear(); },
                    [&](const RecurringJob& job) { jobs_.push_back(job); }),
                "whether jobs are gone", &inventory_.are_jobs_known);
}

absl::Status InventoryReader::ReadVolumes() {
  inventory_.volumes.resize(volume_names_.size());
  for (const auto& [name, position] : volume_names_) {
    inventory_.volumes[position].name = name;
  }
  return Excuse(ReadKind<Volume>(
                    request_.namespace_name, "", [&] { clones_.clear(); },
                    [&](const Volume& volume) { RecordVolume(volume); }),
                "PVCs of volumes, jobs that apply to them, and clones", &are_volumes_known_);
}

void InventoryReader::RecordVolume(const Volume& volume) {
  const VolumeEntry entry = EntryOf(volume);
  if (entry.is_being_filled && !volume.cloned_from().empty()) {
    clones_.emplace_back(volume.cloned_from(),
                         absl::StrCat("volume ", volume.name(), " is being cloned from it"));
  }
  if (!volume.linked_to().empty()) {
    clones_.emplace_back(volume.linked_to(),
                         absl::StrCat("volume ", volume.name(), " is a linked clone of it"));
  }
  const auto found = volume_names_.find(volume.name());
  if (found == volume_names_.end()) {
    return;
  }
  VolumeEntry& stored = inventory_.volumes[found->second];
  stored = entry;
  for (const RecurringJob& job : jobs_) {
    if (job.AppliesTo(volume)) {
      stored.jobs.insert(job.name());
    }
  }
}

absl::Status InventoryReader::ReadBackups() {
  return Excuse(ReadKind<Backup>(
                    request_.namespace_name, "",
                    [&] {
                      uploads_.clear();
                      last_.clear();
                    },
                    [&](const Backup& backup) { RecordBackup(backup); }),
                "Backups of Longhorn");
}

void InventoryReader::RecordBackup(const Backup& backup) {
  if (backup.snapshot().empty()) {
    return;
  }
  if (!backup.is_over()) {
    uploads_.emplace_back(backup.snapshot(), absl::StrCat("Backup ", backup.name(),
                                                          " of Longhorn is being made of it"));
  } else if (backup.is_completed() && !backup.is_being_deleted()) {
    LastBackup& last = last_[{backup.target(), backup.volume()}];
    // Nothing is less than any time.
    if (last.name.empty() || backup.snapshot_taken_at() > last.taken_at) {
      last = {.name = backup.name(),
              .snapshot = backup.snapshot(),
              .taken_at = backup.snapshot_taken_at()};
    }
  }
}

absl::Status InventoryReader::ReadContents() {
  const absl::Status read = ReadKind<VolumeSnapshotContent>(
      "", "",
      [&] {
        contents_.clear();
        by_volume_snapshot_.clear();
      },
      [&](const VolumeSnapshotContent& content) {
        const std::pair volume_snapshot(content.snapshot_namespace(), content.snapshot_name());
        for (const std::string& snapshot : SnapshotsOf(content)) {
          contents_.emplace_back(snapshot, absl::StrCat("VolumeSnapshot ", volume_snapshot.first,
                                                        "/", volume_snapshot.second, " needs it"));
          by_volume_snapshot_.emplace(volume_snapshot, snapshot);
        }
      });
  // Without the kind there are no VolumeSnapshots.
  return Excuse(k8s::IgnoreNotFound(read), "VolumeSnapshots that need them");
}

absl::Status InventoryReader::ReadPvcs() {
  return Excuse(ReadKind<PersistentVolumeClaim>(
                    "", "", [&] { pending_pvcs_.clear(); },
                    [&](const PersistentVolumeClaim& pvc) {
                      if (!pvc.is_being_filled()) {
                        return;
                      }
                      const auto [begin, end] = by_volume_snapshot_.equal_range(
                          std::pair(pvc.namespace_name(), pvc.source_snapshot()));
                      for (auto it = begin; it != end; ++it) {
                        pending_pvcs_.emplace_back(
                            it->second, absl::StrCat("PVC ", pvc.namespace_name(), "/", pvc.name(),
                                                     " is being filled from it"));
                      }
                    }),
                "PVCs that are filled from them");
}

// Without the kind Velero is not installed, and no Backup is left.
absl::Status InventoryReader::ReadVeleroBackups() {
  return Excuse(k8s::IgnoreNotFound(ReadKind<objects::Backup>(
                    "", "", [&] { velero_backups_.clear(); },
                    [&](const objects::Backup& backup) {
                      velero_backups_.insert(velero::ValidLabelValue(backup.name()));
                    })),
                "whether Backups of Velero are gone", &are_velero_backups_known_);
}

absl::Status InventoryReader::Excuse(const absl::Status& read, const char* what, bool* is_known) {
  if (!absl::IsPermissionDenied(read) || request_.requires_all) {
    return read;
  }
  if (is_known != nullptr) {
    *is_known = false;
  }
  inventory_.not_checked.push_back(absl::StrCat(what, " not checked: ", read.message()));
  return absl::OkStatus();
}

void InventoryReader::Complete() {
  inventory_.are_jobs_known = inventory_.are_jobs_known && are_volumes_known_;
  std::set<std::string> jobs;
  for (const RecurringJob& job : jobs_) {
    jobs.insert(job.name());
  }
  for (SnapshotEntry& entry : inventory_.snapshots) {
    entry.job_state = JobStateOf(entry, jobs);
  }
  Sort();
}

void InventoryReader::Protect() {
  Needs last_backups;
  for (const auto& [volume, last] : last_) {
    last_backups.emplace_back(
        last.snapshot,
        absl::StrCat("the next Backup of Longhorn is compared with it (Backup ", last.name, ")"));
  }
  std::map<std::string, std::vector<Finding>> needs;  // by the Snapshot's name
  const auto add = [&](absl::string_view code, Needs& row) {
    for (auto& [snapshot, message] : row) {
      needs[snapshot].push_back({.code = code, .message = std::move(message)});
    }
  };
  add("VolumeSnapshot", contents_);  // In the order of the table.
  add("PendingPvc", pending_pvcs_);
  add("Clone", clones_);
  add("Uploading", uploads_);
  add("LastBackup", last_backups);
  for (SnapshotEntry& entry : inventory_.snapshots) {
    const bool is_backup_gone = !entry.backup.empty() && are_velero_backups_known_ &&
                                !velero_backups_.contains(entry.backup);
    const auto of_it = needs.find(entry.name);
    entry.kept_for = ProtectionsOf(
        entry, of_it == needs.end() ? std::vector<Finding>() : Shortened(std::move(of_it->second)),
        is_backup_gone, request_.now);
  }
}

JobState InventoryReader::JobStateOf(const SnapshotEntry& entry,
                                     const std::set<std::string>& jobs) const {
  if (entry.job.empty()) {
    return JobState::kNone;
  }
  if (!inventory_.are_jobs_known) {
    return JobState::kUnknown;
  }
  if (inventory_.volumes[entry.volume].jobs.contains(entry.job)) {
    return JobState::kApplies;
  }
  return jobs.contains(entry.job) ? JobState::kNotOfVolume : JobState::kGone;
}

void InventoryReader::Sort() {
  std::vector<VolumeEntry> sorted;
  std::vector<std::size_t> position(inventory_.volumes.size());
  for (const auto& [name, before] : volume_names_) {  // by name
    position[before] = sorted.size();
    sorted.push_back(std::move(inventory_.volumes[before]));
  }
  inventory_.volumes = std::move(sorted);
  for (SnapshotEntry& entry : inventory_.snapshots) {
    entry.volume = position[entry.volume];
  }
  std::sort(inventory_.snapshots.begin(), inventory_.snapshots.end(),
            [](const SnapshotEntry& left, const SnapshotEntry& right) {
              const auto left_date = DateOf(left);
              const auto right_date = DateOf(right);
              return std::tie(left.volume, left_date, left.name) <
                     std::tie(right.volume, right_date, right.name);
            });
}

}  // namespace

absl::string_view ToString(SnapshotState state) {
  constexpr std::array<absl::string_view, 5> kNames = {"Deleting", "Removed", "Ready", "Pending",
                                                       "NotReady"};
  return kNames[static_cast<std::size_t>(state)];
}

absl::string_view ToString(JobState state) {
  constexpr std::array<absl::string_view, 5> kNames = {"None", "Unknown", "Applies", "NotOfVolume",
                                                       "Gone"};
  return kNames[static_cast<std::size_t>(state)];
}

absl::StatusOr<Inventory> ReadInventory(const CallContext& ctx, k8s::ApiClient& api,
                                        const InventoryRequest& request) {
  return InventoryReader(ctx, api, request).Read();
}

std::vector<Finding> ProtectionsOf(const SnapshotEntry& entry, std::vector<Finding> needs,
                                   bool is_backup_gone, absl::Time now) {
  std::vector<Finding> found = std::move(needs);
  if (entry.is_made_by_managed || !entry.backup.empty()) {
    found.push_back(
        {"Backup",
         absl::StrCat(entry.backup.empty() ? "a backup" : "backup ", entry.backup,
                      " made it, and deletes it",
                      is_backup_gone ? "; that Backup is not in this cluster any more" : "")});
  }
  if (entry.is_newest) {
    found.push_back(
        {"Newest", "the newest of its volume: Longhorn would mark it as removed, and leave it"});
  }
  if (entry.name.size() > kDeletableNameBytesMax) {
    found.push_back(
        {"LongName", absl::StrCat("its name has ", entry.name.size(), " characters, and Longhorn ",
                                  "refuses to delete one of more than ", kDeletableNameBytesMax)});
  }
  if (const auto date = DateOf(entry); date.has_value() && *date > now - kYoungSnapshotAgeMax) {
    found.push_back({"Young", "younger than 5 minutes"});
  }
  return found;
}

std::optional<absl::Time> DateOf(const SnapshotEntry& entry) {
  if (entry.taken_at.has_value()) {
    return entry.taken_at;
  }
  return entry.requested_at.has_value() ? entry.requested_at : entry.created_at;
}

bool IsSelected(const Inventory& inventory, const SnapshotEntry& entry,
                const Selection& selection) {
  const VolumeEntry& volume = inventory.volumes[entry.volume];
  const bool is_of_gone_job =
      entry.job_state == JobState::kGone || entry.job_state == JobState::kNotOfVolume;
  const std::optional<absl::Time> date = DateOf(entry);
  return (selection.volume.empty() || volume.name == selection.volume) &&
         (selection.pvc_name.empty() || (volume.pvc_namespace == selection.pvc_namespace &&
                                         volume.pvc_name == selection.pvc_name)) &&
         (selection.job.empty() || entry.job == selection.job) &&
         (!selection.of_gone_jobs || is_of_gone_job) &&
         (!selection.before.has_value() || (date.has_value() && *date < *selection.before));
}

std::string PvcText(const VolumeEntry& volume) {
  return volume.pvc_name.empty() ? "" : absl::StrCat(volume.pvc_namespace, "/", volume.pvc_name);
}

}  // namespace csidelta::longhorn
