#include "snapshots/snapshot_inventory.h"

#include <latch>
#include <set>
#include <stop_token>
#include <thread>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/drop.h"
#include "csi/group/group_lifecycle.h"
#include "csi/population.h"
#include "csi/snapshot_need.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/persistent_volume.h"
#include "objects/volume_group_snapshot.h"

namespace csidelta::snapshots {
namespace {

using objects::PersistentVolumeClaim;
using objects::VolumeGroupSnapshot;
using objects::VolumeGroupSnapshotContent;
using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;
using NamespacedName = std::pair<std::string, std::string>;

constexpr char kVeleroPrefix[] = "velero.io/";
// So many contents are read by name. Each costs a request; a LIST brings those of the whole
// cluster.
constexpr std::size_t kContentGetsMax = 32;
constexpr char kOfContents[] = "binding, driver and handle";  // What only they say.

// Without what nothing here reads.
template <typename Kind>
Kind Trimmed(Kind object) {
  object.DropWriters();
  return object;
}

// The PVCs that are made of one VolumeSnapshot.
struct UsersOfSnapshot {
  std::vector<std::string> names;
  csi::PvcsOfSnapshot pvcs;
  std::vector<std::string> unfilled;
};

// The contents and PVCs of a namespace, by the VolumeSnapshot that they belong to.
struct Surroundings {
  bool are_contents_listed = false;
  // By name; nothing for one that does not exist.
  std::map<std::string, std::optional<VolumeSnapshotContent>> contents;
  std::map<NamespacedName, UsersOfSnapshot> users;
  std::set<std::string> gone_handles;  // contents that name a snapshot the storage lacks
  std::map<NamespacedName, VolumeGroupSnapshot> groups;
  std::map<NamespacedName, std::optional<VolumeGroupSnapshotContent>> group_contents;
  std::set<NamespacedName> selected_groups;
};

class InventoryReader {
 public:
  InventoryReader(const CallContext& ctx, k8s::ApiClient& api, const InventoryRequest& request);
  absl::StatusOr<Inventory> Read();

 private:
  absl::Status ReadUnderLease();

  // Of a whole cluster's contents few are wanted, and the API server takes as long to give all that
  // it remembers as it takes to read the VolumeSnapshots: it does both at once. Which are wanted is
  // known, and the answer looked at, when the VolumeSnapshots are there. What was missing in it is
  // looked at again.
  absl::Status ReadAtOnce();
  absl::Status ReadSnapshots();
  absl::Status ListSnapshots(const std::string& label_selector);
  absl::Status ListSelected();
  absl::Status GetSnapshots();

  // The contents that matter: all; or those of the VolumeSnapshots that are meant, and of the Ready
  // ones of the same PVCs, which decide whether one is the last.
  std::set<std::string> WantedContents() const;
  absl::Status ReadContents();

  // Reading them all takes an API server seconds where it reads its store.
  absl::Status ListContents(const std::set<std::string>& wanted);

  // As they are now: those that may have changed since they were remembered, or all.
  absl::Status ReadDoubtful(const std::set<std::string>& wanted);

  // Reads the contents that are missing, or are not bound to the VolumeSnapshot that names them.
  std::set<std::string> DoubtfulContents() const;
  absl::Status GetContents(const std::set<std::string>& wanted);

  absl::Status ReadPvcs();
  absl::Status ReadUnfilled();
  absl::Status ReadGroups();
  absl::Status ReadGroupContents();
  void AddContent(VolumeSnapshotContent content, const std::set<std::string>& wanted);
  void RecordPvc(const PersistentVolumeClaim& pvc);

  // An object that cannot be read is reported, and is no error unless all are required.
  absl::Status Excuse(const absl::Status& status, absl::string_view what);
  csi::ContentReading ContentOf(const VolumeSnapshot& snapshot) const;
  UsersOfSnapshot UsersOf(const VolumeSnapshot& snapshot) const {
    const auto found = around_.users.find({snapshot.namespace_name(), snapshot.name()});
    return found == around_.users.end() ? UsersOfSnapshot() : found->second;
  }
  void CountReady();
  csi::ProtectionInput InputOf(const VolumeSnapshot& snapshot,
                               const csi::SnapshotStatus& status) const;
  void AddGroup(const VolumeSnapshot& snapshot, SnapshotEntry& entry) const;
  void AddWhatKeepsGroup(const VolumeGroupSnapshot& group, SnapshotEntry& entry) const;
  SnapshotEntry CompleteEntryOf(const VolumeSnapshot& snapshot) const;

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const InventoryRequest& request_;
  const std::set<std::string> names_;
  std::vector<VolumeSnapshot> snapshots_;
  std::optional<std::set<std::string>> selected_;  // uids
  Surroundings around_;
  std::map<NamespacedName, int> ready_;  // by namespace and PVC
  bool is_last_ready_known_ = true;
  std::vector<std::string> not_checked_;
};

InventoryReader::InventoryReader(const CallContext& ctx, k8s::ApiClient& api,
                                 const InventoryRequest& request)
    : ctx_(ctx), api_(api), request_(request), names_(request.names.begin(), request.names.end()) {}

absl::StatusOr<Inventory> InventoryReader::Read() {
  // Objects that decide over deletions are read as they are now, and named ones by name.
  RETURN_IF_ERROR(request_.requires_all || !names_.empty() ? ReadUnderLease() : ReadAtOnce());
  RETURN_IF_ERROR(ReadPvcs());
  RETURN_IF_ERROR(ReadUnfilled());
  RETURN_IF_ERROR(ReadGroups());
  CountReady();
  Inventory inventory;
  inventory.entries.reserve(snapshots_.size());
  for (const VolumeSnapshot& snapshot : snapshots_) {
    inventory.entries.push_back(CompleteEntryOf(snapshot));
  }
  std::sort(inventory.entries.begin(), inventory.entries.end(),
            [](const SnapshotEntry& left, const SnapshotEntry& right) {
              const auto key = [](const SnapshotEntry& one) {
                return std::tie(one.namespace_name, one.pvc);
              };
              return key(left) != key(right) ? key(left) < key(right)
                                             : std::tie(left.asked_at, left.name) >
                                                   std::tie(right.asked_at, right.name);
            });
  inventory.not_checked = std::move(not_checked_);
  inventory.is_last_ready_known = is_last_ready_known_;
  return inventory;
}

absl::Status InventoryReader::ReadUnderLease() {
  RETURN_IF_ERROR(ReadSnapshots());
  // After the VolumeSnapshots: a content that one of them names and that is not there is gone.
  return ReadContents();
}

absl::Status InventoryReader::ReadAtOnce() {
  std::set<std::string> wanted;
  std::latch are_snapshots_read(1);
  std::stop_source stop;
  const std::stop_callback forward(ctx_.stop, [&stop] { stop.request_stop(); });
  absl::Status remembered;
  std::jthread reader([&] {
    CallContext ctx = ctx_;
    ctx.stop = stop.get_token();
    const auto is_wanted = [&](absl::string_view name) {
      are_snapshots_read.wait();
      return wanted.contains(std::string(name));
    };
    remembered = objects::ReadWanted<VolumeSnapshotContent>(
        ctx, api_, VolumeSnapshotContent::Type(), "", is_wanted,
        objects::ForEach<VolumeSnapshotContent>([&] { around_.contents.clear(); },
                                                [&](VolumeSnapshotContent content) {
                                                  are_snapshots_read.wait();
                                                  AddContent(std::move(content), wanted);
                                                }));
  });
  const absl::Status snapshots = ReadSnapshots();
  if (snapshots.ok()) {
    wanted = WantedContents();
  } else {
    stop.request_stop();
  }
  are_snapshots_read.count_down();
  reader.join();
  RETURN_IF_ERROR(snapshots);
  around_.are_contents_listed = remembered.ok();
  return Excuse(remembered.ok() ? ReadDoubtful(wanted) : remembered, kOfContents);
}

absl::Status InventoryReader::ReadSnapshots() {
  if (request_.only_names) {
    is_last_ready_known_ = false;
    return GetSnapshots();
  }
  const bool with_labels = !request_.label_selector.empty();
  const bool reads_others = with_labels && request_.reads_others;
  const absl::Status listed = ListSnapshots(reads_others ? "" : request_.label_selector);
  if (absl::IsPermissionDenied(listed) && !names_.empty() && !request_.requires_all) {
    is_last_ready_known_ = false;
    not_checked_.push_back(
        absl::StrCat("the last Ready one of a PVC not checked: ", listed.message()));
    return GetSnapshots();
  }
  RETURN_IF_ERROR(listed);
  if (reads_others) {
    return ListSelected();
  }
  if (with_labels) {
    is_last_ready_known_ = false;
    not_checked_.emplace_back(
        "the last Ready one of a PVC not checked: the labels leave others out");
  }
  return absl::OkStatus();
}

absl::Status InventoryReader::ListSnapshots(const std::string& label_selector) {
  const k8s::ListOptions options = {.label_selector = label_selector,
                                    .in_one_answer = !request_.namespace_name.empty()};
  return objects::ReadPages<VolumeSnapshot>(
      ctx_, api_, VolumeSnapshot::Type(), request_.namespace_name, options,
      objects::ForEach<VolumeSnapshot>(
          [&] { snapshots_.clear(); },
          [&](VolumeSnapshot snapshot) { snapshots_.push_back(Trimmed(std::move(snapshot))); }));
}

absl::Status InventoryReader::ListSelected() {
  selected_.emplace();
  return objects::ReadPages<VolumeSnapshot>(
      ctx_, api_, VolumeSnapshot::Type(), request_.namespace_name,
      {.label_selector = request_.label_selector},
      objects::ForEach<VolumeSnapshot>(
          [&] { selected_->clear(); },
          [&](const VolumeSnapshot& snapshot) { selected_->insert(snapshot.uid()); }));
}

absl::Status InventoryReader::GetSnapshots() {
  snapshots_.clear();
  for (const std::string& name : names_) {
    ASSIGN_OR_RETURN(auto found,
                     objects::Find<VolumeSnapshot>(ctx_, api_, request_.namespace_name, name));
    if (found.has_value()) {
      snapshots_.push_back(Trimmed(*std::move(found)));
    }
  }
  return absl::OkStatus();
}

std::set<std::string> InventoryReader::WantedContents() const {
  std::set<NamespacedName> pvcs;
  for (const VolumeSnapshot& snapshot : snapshots_) {
    if (names_.contains(snapshot.name()) && !snapshot.source_pvc().empty()) {
      pvcs.emplace(snapshot.namespace_name(), snapshot.source_pvc());
    }
  }
  std::set<std::string> wanted;
  for (const VolumeSnapshot& snapshot : snapshots_) {
    const bool counts =
        snapshot.is_ready() && pvcs.contains({snapshot.namespace_name(), snapshot.source_pvc()});
    if (names_.empty() || names_.contains(snapshot.name()) || counts) {
      wanted.insert(snapshot.bound_content());
    }
  }
  wanted.erase("");
  return wanted;
}

absl::Status InventoryReader::ReadContents() {
  const std::set<std::string> wanted = WantedContents();
  absl::Status read = absl::OkStatus();
  if (!names_.empty() && wanted.size() <= kContentGetsMax) {
    read = GetContents(wanted);
  } else {
    read = ListContents(wanted);
    if (absl::IsPermissionDenied(read) && !names_.empty()) {
      read = GetContents(wanted);
    }
  }
  return Excuse(read, kOfContents);
}

absl::Status InventoryReader::ListContents(const std::set<std::string>& wanted) {
  const absl::Status read = objects::ReadPages<VolumeSnapshotContent>(
      ctx_, api_, VolumeSnapshotContent::Type(), "", {},
      objects::ForEach<VolumeSnapshotContent>(
          [&] { around_.contents.clear(); },
          [&](VolumeSnapshotContent content) { AddContent(std::move(content), wanted); }));
  around_.are_contents_listed = read.ok();
  return read;
}

absl::Status InventoryReader::ReadDoubtful(const std::set<std::string>& wanted) {
  const std::set<std::string> doubtful = DoubtfulContents();
  if (doubtful.size() <= kContentGetsMax && GetContents(doubtful).ok()) {
    return absl::OkStatus();
  }
  return ListContents(wanted);
}

std::set<std::string> InventoryReader::DoubtfulContents() const {
  std::set<std::string> doubtful;
  for (const VolumeSnapshot& snapshot : snapshots_) {
    const auto found = around_.contents.find(snapshot.bound_content());
    const bool is_bound = found != around_.contents.end() && found->second.has_value() &&
                          found->second->Names(snapshot);
    if (!snapshot.bound_content().empty() && !is_bound) {
      doubtful.insert(snapshot.bound_content());
    }
  }
  return doubtful;
}

absl::Status InventoryReader::GetContents(const std::set<std::string>& wanted) {
  for (const std::string& name : wanted) {
    ASSIGN_OR_RETURN(auto found, objects::Find<VolumeSnapshotContent>(ctx_, api_, "", name));
    if (found.has_value()) {
      AddContent(*std::move(found), wanted);
    } else {
      around_.contents.insert_or_assign(name, std::nullopt);
    }
  }
  return absl::OkStatus();
}

absl::Status InventoryReader::ReadPvcs() {
  const absl::Status read = objects::ReadPages<PersistentVolumeClaim>(
      ctx_, api_, PersistentVolumeClaim::Type(), request_.namespace_name, {},
      objects::ForEach<PersistentVolumeClaim>(
          [&] { around_.users.clear(); },
          [&](const PersistentVolumeClaim& pvc) { RecordPvc(pvc); }));
  return Excuse(read, "PVCs that use a snapshot");
}

// Bound is not filled: what may still be copied from each.
absl::Status InventoryReader::ReadUnfilled() {
  csi::PopulationReader populations(ctx_, api_);
  for (const VolumeSnapshot& snapshot : snapshots_) {
    const csi::ContentReading reading = ContentOf(snapshot);
    const bool is_present = reading.kind == csi::ContentReading::Kind::kPresent;
    ASSIGN_OR_RETURN(std::vector<std::string> unfilled,
                     populations.UnfilledFromSnapshot(
                         is_present ? reading.content->driver() : "",
                         is_present ? reading.content->handle_or_source() : "",
                         request_.requires_all || !names_.empty() ? snapshot.uid() : "",
                         UsersOf(snapshot).pvcs.bound));
    if (!unfilled.empty()) {
      around_.users[{snapshot.namespace_name(), snapshot.name()}].unfilled = std::move(unfilled);
    }
    ASSIGN_OR_RETURN(const bool is_gone,
                     populations.IsHandleGone(is_present ? reading.content->driver() : "",
                                              is_present ? reading.content->handle() : ""));
    if (is_gone) {
      around_.gone_handles.insert(reading.content->name());
    }
  }
  return Excuse(populations.refused(), "PVCs restored in place");
}

// Only where all members are known: a group may have others than those that were read.
absl::Status InventoryReader::ReadGroups() {
  const bool has_member =
      std::any_of(snapshots_.begin(), snapshots_.end(),
                  [](const VolumeSnapshot& snapshot) { return !snapshot.group_name().empty(); });
  if (!request_.reads_groups || !has_member || !(is_last_ready_known_ || request_.only_names)) {
    return absl::OkStatus();
  }
  auto groups = objects::ListGroupKind<VolumeGroupSnapshot>(ctx_, api_, request_.namespace_name);
  if (absl::IsPermissionDenied(groups.status())) {
    not_checked_.push_back(absl::StrCat("groups not checked: ", groups.status().message()));
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(groups.status());
  for (VolumeGroupSnapshot& group : *groups) {
    NamespacedName name = {group.namespace_name(), group.name()};
    around_.groups.insert_or_assign(std::move(name), Trimmed(std::move(group)));
  }
  if (selected_.has_value()) {
    ASSIGN_OR_RETURN(const auto selected, objects::ListGroupKind<VolumeGroupSnapshot>(
                                              ctx_, api_, request_.namespace_name,
                                              {.label_selector = request_.label_selector}));
    for (const VolumeGroupSnapshot& group : selected) {
      around_.selected_groups.emplace(group.namespace_name(), group.name());
    }
  }
  return Excuse(ReadGroupContents(), "the policy of groups");
}

// The driver deletes a group by the policy of the group's content alone.
absl::Status InventoryReader::ReadGroupContents() {
  for (const VolumeSnapshot& snapshot : snapshots_) {
    const NamespacedName name = {snapshot.namespace_name(), snapshot.group_name()};
    const auto group = around_.groups.find(name);
    if (group == around_.groups.end() || around_.group_contents.contains(name) ||
        group->second.bound_content().empty()) {
      continue;
    }
    ASSIGN_OR_RETURN(auto content, csi::FindContentOf(ctx_, api_, group->second));
    around_.group_contents.emplace(name, std::move(content));
  }
  return absl::OkStatus();
}

void InventoryReader::AddContent(VolumeSnapshotContent content,
                                 const std::set<std::string>& wanted) {
  if (std::string name = content.name(); wanted.contains(name)) {
    around_.contents.insert_or_assign(std::move(name), Trimmed(std::move(content)));
  }
}

void InventoryReader::RecordPvc(const PersistentVolumeClaim& pvc) {
  if (pvc.source_snapshot().empty()) {
    return;
  }
  UsersOfSnapshot& users = around_.users[{pvc.namespace_name(), pvc.source_snapshot()}];
  users.names.push_back(pvc.name());
  csi::AddPvc(pvc, users.pvcs);
}

absl::Status InventoryReader::Excuse(const absl::Status& status, absl::string_view what) {
  if (!absl::IsPermissionDenied(status)) {
    return status;
  }
  if (request_.requires_all) {
    return Annotate(status, absl::StrCat(what, " cannot be checked"));
  }
  not_checked_.push_back(absl::StrCat(what, " not checked: ", status.message()));
  return absl::OkStatus();
}

csi::ContentReading InventoryReader::ContentOf(const VolumeSnapshot& snapshot) const {
  const auto found = around_.contents.find(snapshot.bound_content());
  if (found != around_.contents.end() && found->second.has_value()) {
    return {.kind = csi::ContentReading::Kind::kPresent,
            .content = &*found->second,
            .is_handle_gone = around_.gone_handles.contains(found->first)};
  }
  const bool is_gone = found != around_.contents.end() || around_.are_contents_listed;
  return !snapshot.bound_content().empty() && is_gone
             ? csi::ContentReading{.kind = csi::ContentReading::Kind::kGone}
             : csi::ContentReading{};
}

void InventoryReader::CountReady() {
  for (const VolumeSnapshot& snapshot : snapshots_) {
    if (!snapshot.source_pvc().empty() &&
        csi::StatusOf(snapshot, ContentOf(snapshot)).state == csi::SnapshotState::kReady) {
      ++ready_[{snapshot.namespace_name(), snapshot.source_pvc()}];
    }
  }
}

csi::ProtectionInput InventoryReader::InputOf(const VolumeSnapshot& snapshot,
                                              const csi::SnapshotStatus& status) const {
  const UsersOfSnapshot users = UsersOf(snapshot);
  csi::ProtectionInput input = {.content = ContentOf(snapshot),
                                .mover_namespace = request_.mover_namespace,
                                .pending_pvcs = users.pvcs.pending,
                                .unfilled = users.unfilled,
                                .now = request_.now};
  const auto ready = ready_.find({snapshot.namespace_name(), snapshot.source_pvc()});
  input.is_last_ready = is_last_ready_known_ && status.state == csi::SnapshotState::kReady &&
                        ready != ready_.end() && ready->second == 1;
  return input;
}

void InventoryReader::AddGroup(const VolumeSnapshot& snapshot, SnapshotEntry& entry) const {
  const auto found = around_.groups.find({entry.namespace_name, entry.group.name});
  const auto owner = snapshot.group_owner();
  // A group of that name may be a later one.
  if (found == around_.groups.end() || (owner.has_value() && owner->uid != found->second.uid())) {
    return;
  }
  const VolumeGroupSnapshot& group = found->second;
  entry.group.uid = group.uid();
  entry.group.resource_version = group.resource_version();
  entry.group.version = group.version();
  entry.group.content = group.bound_content();
  entry.group.is_being_deleted = group.is_being_deleted();
  if (const auto content = around_.group_contents.find(found->first);
      content != around_.group_contents.end()) {
    entry.group.content_kind = content->second.has_value() ? csi::ContentReading::Kind::kPresent
                                                           : csi::ContentReading::Kind::kGone;
    entry.group.deletion_policy =
        content->second.has_value() ? content->second->deletion_policy() : "";
  }
  // A call that was killed has labelled the group, and not all members.
  if (snapshot.Label(objects::kMadeByLabel).empty() &&
      group.Label(objects::kMadeByLabel) == objects::kMadeByVerbs) {
    entry.is_made_by_verbs = true;
    entry.set = group.Label(objects::kSnapshotSetLabel);
    entry.is_selected |= around_.selected_groups.contains(found->first);
  }
  AddWhatKeepsGroup(group, entry);
}

// It keeps the members. Whether they go together is for SparedOf().
void InventoryReader::AddWhatKeepsGroup(const VolumeGroupSnapshot& group,
                                        SnapshotEntry& entry) const {
  for (std::vector<Finding>* const kept_for : {&entry.kept_for, &entry.kept_for_person}) {
    std::erase_if(*kept_for, [](const Finding& one) { return one.code == csi::kGroupMemberCode; });
    if (group.Label(objects::kKeepLabel) == "true") {
      kept_for->push_back({.code = "Keep",
                           .message = absl::StrCat("its VolumeGroupSnapshot is labelled ",
                                                   objects::kKeepLabel, "=true")});
    }
    if (!group.Label(objects::kBackupNameLabel).empty() || csi::IsMadeByUs(group)) {
      kept_for->push_back({.code = csi::kBackupCode,
                           .message = "a backup made its VolumeGroupSnapshot, and deletes it"});
    }
    if (!request_.with_data && entry.deletion_policy == "Retain" &&
        entry.group.deletion_policy == "Delete") {
      kept_for->push_back({.code = csi::kGroupMemberCode,
                           .message = absl::StrCat(
                               "its VolumeSnapshotContent says Retain, but its group's Volume",
                               "GroupSnapshotContent says Delete, and the driver deletes its data "
                               "with the group: set one policy in both (",
                               entry.group.content, ")")});
    }
  }
}

SnapshotEntry InventoryReader::CompleteEntryOf(const VolumeSnapshot& snapshot) const {
  SnapshotEntry entry = EntryOf(snapshot, ContentOf(snapshot));
  entry.is_selected = !selected_.has_value() || selected_->contains(entry.uid);
  entry.used_by = UsersOf(snapshot).names;
  const csi::ProtectionInput input = InputOf(snapshot, entry.status);
  entry.kept_for = csi::ProtectionsOf(snapshot, input, csi::Requester::kPrune);
  entry.kept_for_person = csi::ProtectionsOf(snapshot, input, csi::Requester::kPerson);
  AddGroup(snapshot, entry);
  return entry;
}

void AddContentTo(const VolumeSnapshot& snapshot, const csi::ContentReading& reading,
                  SnapshotEntry& entry) {
  entry.content_kind = reading.kind;
  if (reading.kind != csi::ContentReading::Kind::kPresent) {
    return;
  }
  const VolumeSnapshotContent& content = *reading.content;
  entry.content_uid = content.uid();
  entry.content_resource_version = content.resource_version();
  entry.content_names = absl::StrCat(content.snapshot_namespace(), "/", content.snapshot_name());
  entry.is_named_by_content = content.Names(snapshot);
  entry.driver = content.driver();
  entry.volume_handle = content.source_volume();
  entry.handle = content.handle();
  entry.deletion_policy = content.is_retained() ? "Retain" : "Delete";
}

void AddMaker(const VolumeSnapshot& snapshot, SnapshotEntry& entry) {
  entry.is_made_by_verbs = snapshot.Label(objects::kMadeByLabel) == objects::kMadeByVerbs;
  entry.backup = snapshot.Label(objects::kBackupNameLabel);
  const std::map<std::string, std::string> labels = snapshot.labels();
  entry.has_velero_labels = std::any_of(labels.begin(), labels.end(), [](const auto& label) {
    return absl::StartsWith(label.first, kVeleroPrefix);
  });
}

// Of two members that go and one that stays, the two stay, too. One that only claims to be a member
// keeps them as well. One that is being deleted only waits for its group, unless it is needed.
void SpareMembers(const std::vector<SnapshotEntry>& entries, std::vector<bool>& goes,
                  std::vector<SparedEntry>& spared) {
  std::map<NamespacedName, const SnapshotEntry*> staying;  // by the group's name
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!goes[i] && (entries[i].status.state != csi::SnapshotState::kDeleting ||
                     !entries[i].kept_for_person.empty())) {
      staying.emplace(NamespacedName(entries[i].namespace_name, entries[i].group.name),
                      &entries[i]);
    }
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto found = staying.find({entries[i].namespace_name, entries[i].group.name});
    if (goes[i] && !entries[i].group.uid.empty() && found != staying.end()) {
      goes[i] = false;
      spared.push_back(
          {.entry = i,
           .why = {.code = csi::kGroupMemberCode,
                   .message = absl::StrCat(
                       "a member of VolumeGroupSnapshot ", entries[i].group.name,
                       ": they go together, and that of PVC ", found->second->pvc, " stays")}});
    }
  }
}

}  // namespace

SnapshotEntry EntryOf(const VolumeSnapshot& snapshot, const csi::ContentReading& reading) {
  SnapshotEntry entry;
  entry.namespace_name = snapshot.namespace_name();
  entry.name = snapshot.name();
  entry.uid = snapshot.uid();
  entry.resource_version = snapshot.resource_version();
  entry.pvc = snapshot.source_pvc();
  entry.status = csi::StatusOf(snapshot, reading);
  const auto asked = ParseRfc3339(snapshot.Annotation(objects::kSnapshotAskedAtAnnotation));
  entry.asked_at = asked.has_value() ? asked : snapshot.created_at();
  entry.ready_at = snapshot.ready_at();
  entry.restore_size_bytes = snapshot.restore_size_bytes();
  entry.class_name = snapshot.class_name();
  entry.content = snapshot.bound_content();
  AddContentTo(snapshot, reading, entry);
  entry.set = snapshot.Label(objects::kSnapshotSetLabel);
  entry.group.name = snapshot.group_name();
  entry.workload = snapshot.Annotation(objects::kSnapshotWorkloadAnnotation);
  entry.note = snapshot.Annotation(objects::kSnapshotNoteAnnotation);
  AddMaker(snapshot, entry);
  return entry;
}

absl::StatusOr<Inventory> ReadInventory(const CallContext& ctx, k8s::ApiClient& api,
                                        const InventoryRequest& request) {
  return InventoryReader(ctx, api, request).Read();
}

std::optional<absl::Time> DateOf(const SnapshotEntry& entry) {
  return entry.status.taken_at.has_value() ? entry.status.taken_at : entry.asked_at;
}

std::string ShownName(const SnapshotEntry& entry) {
  return entry.group.name.empty() || entry.pvc.empty()
             ? entry.name
             : absl::StrCat(entry.set.empty() ? entry.group.name : entry.set, "/", entry.pvc);
}

bool IsBeingDeleted(const SnapshotEntry& entry) {
  return entry.group.uid.empty() ? entry.status.state == csi::SnapshotState::kDeleting
                                 : entry.group.is_being_deleted;
}

std::string ShownName(const Unit& unit) {
  CSIDELTA_CHECK(!unit.empty());
  if (unit.front().group.uid.empty()) {
    return ShownName(unit.front());
  }
  std::vector<std::string> pvcs;
  for (const SnapshotEntry& member : unit) {
    pvcs.push_back(member.pvc);
  }
  return absl::StrCat("VolumeGroupSnapshot ", unit.front().group.name, " of PVC ",
                      absl::StrJoin(pvcs, ", "));
}

std::vector<SparedEntry> SparedOf(const std::vector<SnapshotEntry>& entries, std::vector<bool> goes,
                                  bool spares_last_ready) {
  std::vector<SparedEntry> spared;
  SpareMembers(entries, goes, spared);
  if (spares_last_ready) {
    for (const std::size_t i : LastReadyOf(entries, goes)) {
      goes[i] = false;
      spared.push_back({.entry = i, .why = csi::LastReadyProtection()});
    }
    SpareMembers(entries, goes, spared);
  }
  return spared;
}

std::vector<std::size_t> LastReadyOf(const std::vector<SnapshotEntry>& entries,
                                     const std::vector<bool>& goes) {
  CSIDELTA_CHECK(goes.size() == entries.size());
  struct ReadyOnes {
    bool one_stays = false;
    std::size_t newest = 0;  // of those that go
    bool one_goes = false;
  };
  std::map<NamespacedName, ReadyOnes> of_pvc;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const SnapshotEntry& entry = entries[i];
    if (entry.status.state != csi::SnapshotState::kReady || entry.pvc.empty()) {
      continue;
    }
    ReadyOnes& ready = of_pvc[{entry.namespace_name, entry.pvc}];
    if (!goes[i]) {
      ready.one_stays = true;
    } else if (!ready.one_goes || DateOf(entries[ready.newest]) < DateOf(entry)) {
      ready.one_goes = true;
      ready.newest = i;
    }
  }
  std::vector<std::size_t> spared;
  for (const auto& [pvc, ready] : of_pvc) {
    if (ready.one_goes && !ready.one_stays) {
      spared.push_back(ready.newest);
    }
  }
  return spared;
}

bool ReadsAlike(const SnapshotEntry& left, const SnapshotEntry& right) {
  const auto fields_of = [](const SnapshotEntry& one) {
    return std::tie(one.name, one.namespace_name, one.pvc, one.status.state, one.status.conditions,
                    one.asked_at, one.status.taken_at, one.ready_at, one.restore_size_bytes,
                    one.driver, one.handle, one.content, one.class_name, one.deletion_policy,
                    one.set, one.group.name, one.workload, one.note, one.used_by, one.kept_for);
  };
  return fields_of(left) == fields_of(right);
}

}  // namespace csidelta::snapshots
