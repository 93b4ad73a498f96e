#include "tests/support/csi_driver/store.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "tests/support/csi_driver/files.h"
#include "tests/support/csi_driver/filesystem.h"
#include "tests/support/csi_driver/freeze.h"
#include "tests/support/csi_driver/loop_device.h"

namespace csidelta::csi_driver {
namespace {

constexpr char kVolumes[] = "volumes";
constexpr char kSnapshots[] = "snapshots";
constexpr char kLonghorn[] = "longhorn";
constexpr char kLonghornScheme[] = "snap://";
constexpr char kGroups[] = "groups";
constexpr char kKept[] = "kept";
constexpr char kPartial[] = "partial";
constexpr char kVolumePrefix[] = "vol-";
constexpr char kSnapshotPrefix[] = "snap-";
constexpr char kGroupPrefix[] = "group-";
constexpr char kRecordSuffix[] = ".json";
constexpr size_t kNameDigits = 16;
constexpr size_t kIdBytesMax = 64;

// Ids are parts of paths: only what NewId() could have made is looked up.
bool IsId(absl::string_view id, absl::string_view prefix) {
  return id.size() <= kIdBytesMax && absl::StartsWith(id, prefix) &&
         std::all_of(id.begin(), id.end(), [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c)) ||
                  absl::ascii_islower(static_cast<unsigned char>(c)) || c == '-';
         });
}

// The start of every id that an object of this name can have.
std::string NamePrefix(absl::string_view prefix, absl::string_view name) {
  return absl::StrCat(prefix, Sha256Hex(name).substr(0, kNameDigits), "-");
}

absl::string_view Prefix(const VolumeRecord&) { return kVolumePrefix; }
absl::string_view Prefix(const SnapshotRecord&) { return kSnapshotPrefix; }
absl::string_view Prefix(const GroupRecord&) { return kGroupPrefix; }
absl::string_view Part(const VolumeRecord&) { return kVolumes; }
absl::string_view Part(const SnapshotRecord&) { return kSnapshots; }
absl::string_view Part(const GroupRecord&) { return kGroups; }

Json ToJson(const VolumeRecord& volume) {
  return {{"id", volume.id},
          {"name", volume.name},
          {"size_bytes", volume.size_bytes},
          {"mode", volume.mode == VolumeMode::kBlock ? "block" : "filesystem"},
          {"source_snapshot", volume.source.snapshot_id},
          {"source_volume", volume.source.volume_id},
          {"copy", volume.copy}};
}

void FromJson(const Json& json, VolumeRecord& volume) {
  volume.id = GetString(json, {"id"});
  volume.name = GetString(json, {"name"});
  volume.size_bytes = GetInt(json, {"size_bytes"});
  volume.mode = GetString(json, {"mode"}) == "block" ? VolumeMode::kBlock : VolumeMode::kFilesystem;
  volume.source.snapshot_id = GetString(json, {"source_snapshot"});
  volume.source.volume_id = GetString(json, {"source_volume"});
  volume.copy = GetString(json, {"copy"});
}

Json ToJson(const SnapshotRecord& snapshot) {
  return {{"id", snapshot.id},
          {"name", snapshot.name},
          {"volume", snapshot.volume_id},
          {"size_bytes", snapshot.size_bytes},
          {"created_at_ns", absl::ToUnixNanos(snapshot.created_at)},
          {"group", snapshot.group_id}};
}

void FromJson(const Json& json, SnapshotRecord& snapshot) {
  snapshot.id = GetString(json, {"id"});
  snapshot.name = GetString(json, {"name"});
  snapshot.volume_id = GetString(json, {"volume"});
  snapshot.size_bytes = GetInt(json, {"size_bytes"});
  snapshot.created_at = absl::FromUnixNanos(GetInt(json, {"created_at_ns"}));
  snapshot.group_id = GetString(json, {"group"});
}

Json ToJson(const GroupRecord& group) {
  Json members = Json::array();
  for (const GroupMember& member : group.members) {
    members.push_back({{"volume", member.volume_id}, {"snapshot", member.snapshot_id}});
  }
  Json json = {{"id", group.id},
               {"name", group.name},
               {"members", std::move(members)},
               {"created_at_ns", absl::ToUnixNanos(group.created_at)}};
  if (group.frozen.has_value()) {
    json["frozen_ns"] = absl::ToInt64Nanoseconds(*group.frozen);
  }
  return json;
}

void FromJson(const Json& json, GroupRecord& group) {
  group.id = GetString(json, {"id"});
  group.name = GetString(json, {"name"});
  if (const Json* const members = FindJson(json, {"members"})) {
    for (const Json& member : *members) {
      group.members.push_back({.volume_id = GetString(member, {"volume"}),
                               .snapshot_id = GetString(member, {"snapshot"})});
    }
  }
  group.created_at = absl::FromUnixNanos(GetInt(json, {"created_at_ns"}));
  if (FindJson(json, {"frozen_ns"}) != nullptr) {
    group.frozen = absl::Nanoseconds(GetInt(json, {"frozen_ns"}));
  }
}

std::string RecordFolder(absl::string_view folder, absl::string_view part) {
  return absl::StrCat(folder, "/records/", part);
}

std::string RecordPath(absl::string_view folder, absl::string_view part, absl::string_view id) {
  return absl::StrCat(RecordFolder(folder, part), "/", id, kRecordSuffix);
}

template <typename Record>
absl::Status WriteRecord(const std::string& folder, const Record& record) {
  return WriteFileDurably(RecordPath(folder, Part(record), record.id), DumpJson(ToJson(record)));
}

template <typename Record>
absl::StatusOr<Record> ReadRecord(const std::string& folder, absl::string_view part,
                                  const std::string& id) {
  Record record;
  const absl::Status gone = absl::NotFoundError(absl::StrCat("no object ", id));
  if (!IsId(id, Prefix(record))) {
    return gone;
  }
  const absl::StatusOr<std::string> text = ReadFile(RecordPath(folder, part, id));
  if (absl::IsNotFound(text.status())) {
    return gone;
  }
  RETURN_IF_ERROR(text.status());
  ASSIGN_OR_RETURN(const Json json, ParseJsonObject(*text));
  FromJson(json, record);
  return record;
}

template <typename Record>
absl::StatusOr<Record> ReadRecord(const std::string& folder, const std::string& id) {
  return ReadRecord<Record>(folder, Part(Record()), id);
}

template <typename Record>
absl::StatusOr<std::vector<std::string>> ListIds(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   ListFolder(RecordFolder(folder, Part(Record()))));
  std::vector<std::string> ids;
  for (absl::string_view name : names) {
    if (absl::ConsumeSuffix(&name, kRecordSuffix)) {
      ids.emplace_back(name);
    }
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

// The object of that name, if there is one. Reads only the records that the name can have.
template <typename Record>
absl::StatusOr<std::optional<Record>> FindByName(const std::string& folder,
                                                 absl::string_view name) {
  const std::string prefix = NamePrefix(Prefix(Record()), name);
  ASSIGN_OR_RETURN(const std::vector<std::string> ids, ListIds<Record>(folder));
  for (auto id = std::lower_bound(ids.begin(), ids.end(), prefix);
       id != ids.end() && absl::StartsWith(*id, prefix); ++id) {
    ASSIGN_OR_RETURN(Record record, ReadRecord<Record>(folder, *id));
    if (record.name == name) {
      return std::optional<Record>(std::move(record));
    }
  }
  return std::optional<Record>();
}

// The token is the id that the next page starts with: objects that come and go move nothing.
template <typename Record, typename Matches>
absl::StatusOr<Page<Record>> ListPage(const std::string& folder, const PageRequest& request,
                                      Matches matches) {
  if (!request.token.empty() && !IsId(request.token, Prefix(Record()))) {
    return absl::AbortedError(absl::StrCat("unknown starting token ", request.token));
  }
  if (request.entries_max < 0) {
    return absl::InvalidArgumentError("a page cannot have fewer than 0 entries");
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> ids, ListIds<Record>(folder));
  Page<Record> page;
  for (auto id = std::lower_bound(ids.begin(), ids.end(), request.token); id != ids.end(); ++id) {
    absl::StatusOr<Record> record = ReadRecord<Record>(folder, *id);
    if (absl::IsNotFound(record.status())) {
      continue;  // Deleted since the folder was listed.
    }
    RETURN_IF_ERROR(record.status());
    if (!matches(*record)) {
      continue;
    }
    if (request.entries_max > 0 && std::cmp_equal(page.records.size(), request.entries_max)) {
      page.next_token = *id;
      break;
    }
    page.records.push_back(*std::move(record));
  }
  return page;
}

// A member is there only while its group is: the group's record makes all of them exist at once,
// and ends them so.
bool IsWhole(const std::string& folder, const SnapshotRecord& snapshot) {
  return snapshot.group_id.empty() || ReadRecord<GroupRecord>(folder, snapshot.group_id).ok();
}

// INVALID_ARGUMENT unless the names are those of the members that are there; names of members that
// were deleted alone may be among them.
absl::Status CheckMembers(const Group& group, const std::vector<std::string>& snapshot_ids) {
  const std::set<std::string> named(snapshot_ids.begin(), snapshot_ids.end());
  std::set<std::string> members;
  for (const GroupMember& member : group.record.members) {
    members.insert(member.snapshot_id);
  }
  for (const std::string& id : named) {
    if (!members.contains(id)) {
      return absl::InvalidArgumentError(
          absl::StrCat("group ", group.record.id, " has no member ", id));
    }
  }
  for (const SnapshotRecord& snapshot : group.snapshots) {
    if (!named.contains(snapshot.id)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "group ", group.record.id, " has a member that is not named: ", snapshot.id));
    }
  }
  return absl::OkStatus();
}

// The size of a snapshot of Longhorn, or what Longhorn's CSI plugin says of one that it lacks
// (manager/volume.go of longhorn-manager 1.12).
absl::StatusOr<int64_t> LonghornSnapshotBytes(absl::string_view id, const std::string& path) {
  struct stat file;
  if (absl::StrContains(id, "..") || stat(path.c_str(), &file) != 0) {
    return absl::InternalError(
        absl::StrCat("failed to create volume: failed to verify data source: cannot get snapshot: "
                     "snapshot.longhorn.io \"",
                     id.substr(id.rfind('/') + 1), "\" not found"));
  }
  return file.st_size;
}

bool Satisfies(const VolumeRecord& volume, const VolumeSpec& spec) {
  return volume.mode == spec.mode && volume.source == spec.source &&
         volume.size_bytes >= spec.size.required_bytes &&
         (spec.size.limit_bytes == 0 || volume.size_bytes <= spec.size.limit_bytes);
}

// Makes the folder when none exists; its path without links, as loop devices know their files.
absl::StatusOr<std::string> Resolve(const std::string& folder) {
  if (!absl::StartsWith(folder, "/")) {
    return absl::InvalidArgumentError(absl::StrCat("folder is no absolute path: ", folder));
  }
  RETURN_IF_ERROR(MakeFolder(folder));
  char* const resolved = realpath(folder.c_str(), nullptr);
  if (resolved == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("resolve ", folder));
  }
  const absl::Cleanup free_resolved = [resolved] { free(resolved); };
  return std::string(resolved);
}

}  // namespace

absl::StatusOr<int64_t> ChooseSize(const SizeRange& range, int64_t bytes_min) {
  if (range.required_bytes < 0 || range.limit_bytes < 0) {
    return absl::OutOfRangeError("a size below 0 is asked for");
  }
  int64_t wanted_bytes = std::max({range.required_bytes, bytes_min, kVolumeBytesMin});
  if (range.required_bytes == 0 && bytes_min == 0) {
    wanted_bytes = range.limit_bytes == 0 ? kVolumeBytesDefault
                                          : std::min(kVolumeBytesDefault, range.limit_bytes);
    wanted_bytes -= wanted_bytes % kVolumeBytesAlign;
  }
  if (wanted_bytes > kVolumeBytesMax) {
    return absl::OutOfRangeError(absl::StrFormat("a volume has at most %d bytes", kVolumeBytesMax));
  }
  const int64_t size_bytes =
      (wanted_bytes + kVolumeBytesAlign - 1) / kVolumeBytesAlign * kVolumeBytesAlign;
  if (size_bytes < kVolumeBytesMin || (range.limit_bytes > 0 && size_bytes > range.limit_bytes)) {
    return absl::OutOfRangeError(absl::StrFormat("no size between %d and %d bytes is possible here",
                                                 wanted_bytes, range.limit_bytes));
  }
  return size_bytes;
}

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const std::string& folder, const Clock& clock,
                                                   Random& random,
                                                   const std::string& volumes_folder) {
  ASSIGN_OR_RETURN(const std::string resolved, Resolve(folder));
  std::string volumes = resolved;
  if (!volumes_folder.empty()) {
    ASSIGN_OR_RETURN(volumes, Resolve(volumes_folder));
    RETURN_IF_ERROR(CheckOwnFilesystem(volumes, resolved));
  }
  std::unique_ptr<Store> store(new Store(resolved, volumes, clock, random));
  for (const char* part : {kSnapshots, kKept, kPartial, "records/volumes", "records/snapshots",
                           "records/groups", "records/kept"}) {
    RETURN_IF_ERROR(MakeFolder(absl::StrCat(resolved, "/", part)));
  }
  RETURN_IF_ERROR(store->Sweep());
  return store;
}

absl::StatusOr<VolumeRecord> Store::CreateVolume(const VolumeSpec& spec) {
  ASSIGN_OR_RETURN(const FileLock lock, FileLock::Take(absl::StrCat(folder_, "/lock")));
  ASSIGN_OR_RETURN(std::optional<VolumeRecord> existing,
                   FindByName<VolumeRecord>(folder_, spec.name));
  if (!existing.has_value()) {
    return MakeVolume(spec, NamePrefix(kVolumePrefix, spec.name));
  }
  if (!Satisfies(*existing, spec)) {
    return absl::AlreadyExistsError(
        absl::StrCat("volume ", spec.name, " exists with another size, mode or source"));
  }
  return *std::move(existing);
}

absl::Status Store::DeleteVolume(const std::string& id) {
  ASSIGN_OR_RETURN(const FileLock lock, FileLock::Take(absl::StrCat(folder_, "/lock")));
  const absl::StatusOr<VolumeRecord> volume = GetVolume(id);
  if (absl::IsNotFound(volume.status())) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(volume.status());
  ASSIGN_OR_RETURN(const std::vector<std::string> devices, LoopDevicesOf(VolumePath(id)));
  if (!devices.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("volume ", id, " is in use through ", devices.front()));
  }
  RETURN_IF_ERROR(RemoveFile(RecordPath(folder_, kVolumes, id)));
  return RemoveFile(VolumePath(id));
}

absl::StatusOr<VolumeRecord> Store::ExpandVolume(const std::string& id, const SizeRange& size) {
  ASSIGN_OR_RETURN(const FileLock lock, FileLock::Take(absl::StrCat(folder_, "/lock")));
  ASSIGN_OR_RETURN(VolumeRecord volume, GetVolume(id));
  ASSIGN_OR_RETURN(const int64_t size_bytes, ChooseSize(size, volume.size_bytes));
  if (size_bytes > volume.size_bytes) {
    volume.size_bytes = size_bytes;
    RETURN_IF_ERROR(ResizeFile(VolumePath(id), size_bytes));
    RETURN_IF_ERROR(RefreshLoopSize(VolumePath(id)));
    RETURN_IF_ERROR(WriteRecord(folder_, volume));
  }
  return volume;
}

absl::StatusOr<VolumeRecord> Store::GetVolume(const std::string& id) const {
  return ReadRecord<VolumeRecord>(folder_, id);
}

absl::StatusOr<Page<VolumeRecord>> Store::ListVolumes(const PageRequest& page) const {
  return ListPage<VolumeRecord>(folder_, page, [](const VolumeRecord&) { return true; });
}

absl::StatusOr<SnapshotRecord> Store::CreateSnapshot(const std::string& name,
                                                     const std::string& volume_id) {
  ASSIGN_OR_RETURN(const FileLock lock, FileLock::Take(absl::StrCat(folder_, "/lock")));
  ASSIGN_OR_RETURN(std::optional<SnapshotRecord> existing,
                   FindByName<SnapshotRecord>(folder_, name));
  if (existing.has_value()) {
    if (existing->volume_id == volume_id) {
      return *std::move(existing);
    }
    return absl::AlreadyExistsError(
        absl::StrCat("snapshot ", name, " exists of volume ", existing->volume_id));
  }
  ASSIGN_OR_RETURN(const VolumeRecord volume, GetVolume(volume_id));
  RETURN_IF_ERROR(CheckCopied(volume));
  const SnapshotRecord snapshot{.id = NewId(NamePrefix(kSnapshotPrefix, name)),
                                .name = name,
                                .volume_id = volume_id,
                                .size_bytes = volume.size_bytes,
                                .created_at = clock_.Now(),
                                .group_id = ""};
  RETURN_IF_ERROR(FlushLoops(VolumePath(volume_id)));
  const std::string partial = Path(kPartial, snapshot.id);
  RETURN_IF_ERROR(CopySparse(VolumePath(volume_id), partial));
  RETURN_IF_ERROR(RenameDurably(partial, SnapshotPath(snapshot.id)));
  RETURN_IF_ERROR(WriteRecord(folder_, snapshot));
  return snapshot;
}

absl::Status Store::DeleteSnapshot(const std::string& id, bool keep_change_data) {
  ASSIGN_OR_RETURN(const FileLock lock, FileLock::Take(absl::StrCat(folder_, "/lock")));
  if (!IsId(id, kSnapshotPrefix)) {
    return absl::OkStatus();
  }
  if (keep_change_data) {
    RETURN_IF_ERROR(KeepChangeData(id));
  }
  return RemoveSnapshot(id);
}

absl::Status Store::RemoveSnapshot(const std::string& id) const {
  RETURN_IF_ERROR(RemoveFile(RecordPath(folder_, kSnapshots, id)));
  return RemoveFile(SnapshotPath(id));
}

absl::Status Store::KeepChangeData(const std::string& id) const {
  const absl::StatusOr<SnapshotRecord> snapshot = GetSnapshot(id);
  if (absl::IsNotFound(snapshot.status())) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(snapshot.status());
  RETURN_IF_ERROR(CopySparse(SnapshotPath(id), Path(kKept, id)));
  return WriteFileDurably(RecordPath(folder_, kKept, id), DumpJson(ToJson(*snapshot)));
}

absl::StatusOr<SnapshotRecord> Store::GetSnapshot(const std::string& id) const {
  ASSIGN_OR_RETURN(SnapshotRecord snapshot, ReadRecord<SnapshotRecord>(folder_, kSnapshots, id));
  if (!IsWhole(folder_, snapshot)) {
    return absl::NotFoundError(absl::StrCat("no object ", id));
  }
  return snapshot;
}

absl::StatusOr<ChangeData> Store::ChangeDataOf(const std::string& id) const {
  absl::StatusOr<SnapshotRecord> snapshot = GetSnapshot(id);
  const char* part = kSnapshots;
  if (absl::IsNotFound(snapshot.status())) {
    part = kKept;
    snapshot = ReadRecord<SnapshotRecord>(folder_, part, id);
  }
  RETURN_IF_ERROR(snapshot.status());
  return ChangeData{*std::move(snapshot), Path(part, id)};
}

absl::StatusOr<Page<SnapshotRecord>> Store::ListSnapshots(const SnapshotFilter& filter,
                                                          const PageRequest& page) const {
  return ListPage<SnapshotRecord>(folder_, page, [this, &filter](const SnapshotRecord& snapshot) {
    return (filter.id.empty() || filter.id == snapshot.id) &&
           (filter.volume_id.empty() || filter.volume_id == snapshot.volume_id) &&
           IsWhole(folder_, snapshot);
  });
}

absl::StatusOr<Group> Store::CreateGroup(const std::string& name,
                                         const std::vector<std::string>& volume_ids) {
  const std::set<std::string> wanted(volume_ids.begin(), volume_ids.end());
  if (wanted.empty() || wanted.size() != volume_ids.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("group ", name, ": no volumes, or one that is named twice"));
  }
  ASSIGN_OR_RETURN(const FileLock lock, FileLock::Take(absl::StrCat(folder_, "/lock")));
  ASSIGN_OR_RETURN(std::optional<GroupRecord> existing, FindByName<GroupRecord>(folder_, name));
  if (!existing.has_value()) {
    return MakeGroup(name, volume_ids);
  }
  std::set<std::string> volumes;
  for (const GroupMember& member : existing->members) {
    volumes.insert(member.volume_id);
  }
  if (volumes != wanted) {
    return absl::AlreadyExistsError(absl::StrCat("group ", name, " exists of other volumes"));
  }
  return WithSnapshots(*std::move(existing));
}

absl::StatusOr<Group> Store::MakeGroup(const std::string& name,
                                       const std::vector<std::string>& volume_ids) const {
  ASSIGN_OR_RETURN(Group group, PlanGroup(name, volume_ids));
  absl::Cleanup remove_half = [this, &group] {
    for (const SnapshotRecord& snapshot : group.snapshots) {
      RemoveFile(Path(kPartial, snapshot.id)).IgnoreError();
      RemoveSnapshot(snapshot.id).IgnoreError();
    }
  };
  for (const std::string& volume_id : volume_ids) {
    RETURN_IF_ERROR(FlushLoops(VolumePath(volume_id)));
  }
  RETURN_IF_ERROR(CopyMembers(group));
  RETURN_IF_ERROR(CommitGroup(group));
  std::move(remove_half).Cancel();
  return group;
}

// All of a group but its bytes and its instant.
absl::StatusOr<Group> Store::PlanGroup(const std::string& name,
                                       const std::vector<std::string>& volume_ids) const {
  Group group;
  group.record.id = NewId(NamePrefix(kGroupPrefix, name));
  group.record.name = name;
  for (const std::string& volume_id : volume_ids) {
    ASSIGN_OR_RETURN(const VolumeRecord volume, GetVolume(volume_id));
    const std::string member_name = absl::StrCat(name, "/", volume_id);
    group.snapshots.push_back({.id = NewId(NamePrefix(kSnapshotPrefix, member_name)),
                               .name = member_name,
                               .volume_id = volume_id,
                               .size_bytes = volume.size_bytes,
                               .created_at = clock_.Now(),
                               .group_id = group.record.id});
    group.record.members.push_back({volume_id, group.snapshots.back().id});
  }
  return group;
}

// Brings the members' bytes into partial/: of one instant if the volumes can be frozen.
absl::Status Store::CopyMembers(Group& group) const {
  const absl::Time begin = clock_.Now();
  std::optional<Freeze> freeze;
  if (OwnFilesystem()) {
    ASSIGN_OR_RETURN(Freeze taken, Freeze::Take(volumes_folder_));
    freeze.emplace(std::move(taken));
  }
  group.record.created_at = clock_.Now();
  for (SnapshotRecord& snapshot : group.snapshots) {
    snapshot.created_at = freeze.has_value() ? group.record.created_at : clock_.Now();
    RETURN_IF_ERROR(CopySparse(VolumePath(snapshot.volume_id), Path(kPartial, snapshot.id)));
  }
  if (freeze.has_value()) {
    RETURN_IF_ERROR(freeze->Thaw());
    group.record.frozen = clock_.Now() - begin;
    CSIDELTA_LOG(kInfo, "volumes were frozen", {"group", group.record.id},
                 {"frozen", absl::FormatDuration(*group.record.frozen)});
  }
  return absl::OkStatus();
}

// The group's record is the last: until it is there, nothing of the group is.
absl::Status Store::CommitGroup(const Group& group) const {
  for (const SnapshotRecord& snapshot : group.snapshots) {
    RETURN_IF_ERROR(RenameDurably(Path(kPartial, snapshot.id), SnapshotPath(snapshot.id)));
    RETURN_IF_ERROR(WriteRecord(folder_, snapshot));
  }
  return WriteRecord(folder_, group.record);
}

absl::Status Store::DeleteGroup(const std::string& id, const std::vector<std::string>& snapshot_ids,
                                bool keep_change_data) {
  ASSIGN_OR_RETURN(const FileLock lock, FileLock::Take(absl::StrCat(folder_, "/lock")));
  const absl::StatusOr<Group> group = GetGroup(id, snapshot_ids);
  if (absl::IsNotFound(group.status())) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(group.status());
  for (const SnapshotRecord& snapshot : group->snapshots) {
    if (keep_change_data) {
      RETURN_IF_ERROR(KeepChangeData(snapshot.id));
    }
  }
  RETURN_IF_ERROR(RemoveFile(RecordPath(folder_, kGroups, id)));
  for (const SnapshotRecord& snapshot : group->snapshots) {
    RETURN_IF_ERROR(RemoveSnapshot(snapshot.id));
  }
  return absl::OkStatus();
}

absl::StatusOr<Group> Store::GetGroup(const std::string& id,
                                      const std::vector<std::string>& snapshot_ids) const {
  ASSIGN_OR_RETURN(GroupRecord record, ReadRecord<GroupRecord>(folder_, id));
  ASSIGN_OR_RETURN(Group group, WithSnapshots(std::move(record)));
  RETURN_IF_ERROR(CheckMembers(group, snapshot_ids));
  return group;
}

absl::StatusOr<std::vector<Group>> Store::ListGroups() const {
  ASSIGN_OR_RETURN(Page<GroupRecord> page,
                   ListPage<GroupRecord>(folder_, {}, [](const GroupRecord&) { return true; }));
  std::vector<Group> groups;
  for (GroupRecord& record : page.records) {
    ASSIGN_OR_RETURN(Group group, WithSnapshots(std::move(record)));
    groups.push_back(std::move(group));
  }
  return groups;
}

absl::StatusOr<Group> Store::WithSnapshots(GroupRecord record) const {
  Group group{.record = std::move(record), .snapshots = {}};
  for (const GroupMember& member : group.record.members) {
    absl::StatusOr<SnapshotRecord> snapshot = GetSnapshot(member.snapshot_id);
    if (!absl::IsNotFound(snapshot.status())) {
      RETURN_IF_ERROR(snapshot.status());
      group.snapshots.push_back(*std::move(snapshot));
    }
  }
  return group;
}

absl::StatusOr<int64_t> Store::AvailableBytes() const {
  struct statvfs stat;
  if (statvfs(volumes_folder_.c_str(), &stat) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("statvfs ", volumes_folder_));
  }
  return static_cast<int64_t>(stat.f_bavail * stat.f_frsize);
}

std::string Store::VolumePath(absl::string_view id) const {
  return absl::StrCat(volumes_folder_, "/", kVolumes, "/", id);
}

std::string Store::SnapshotPath(absl::string_view id) const {
  return absl::ConsumePrefix(&id, kLonghornScheme) ? Path(kLonghorn, id) : Path(kSnapshots, id);
}

std::string Store::Path(absl::string_view part, absl::string_view id) const {
  return absl::StrCat(folder_, "/", part, "/", id);
}

std::string Store::NewId(absl::string_view name_prefix) const {
  return absl::StrCat(name_prefix, absl::StrFormat("%08x", random_.Below(uint64_t{1} << 32)));
}

absl::StatusOr<VolumeRecord> Store::MakeVolume(const VolumeSpec& spec,
                                               absl::string_view name_prefix) {
  ASSIGN_OR_RETURN(const int64_t source_bytes, SourceBytes(spec.source));
  ASSIGN_OR_RETURN(const int64_t size_bytes, ChooseSize(spec.size, source_bytes));
  VolumeRecord volume{.id = NewId(name_prefix),
                      .name = spec.name,
                      .size_bytes = size_bytes,
                      .mode = spec.mode,
                      .source = spec.source,
                      .copy = spec.is_copied_late && !spec.source.empty() ? kCopying : ""};
  const std::string partial = absl::StrCat(volumes_folder_, "/", kPartial, "/", volume.id);
  RETURN_IF_ERROR(FillVolume(volume, partial));
  RETURN_IF_ERROR(RenameDurably(partial, VolumePath(volume.id)));
  RETURN_IF_ERROR(WriteRecord(folder_, volume));
  return volume;
}

absl::StatusOr<VolumeRecord> Store::EndCopy(const std::string& id, bool fails) {
  ASSIGN_OR_RETURN(const FileLock lock, FileLock::Take(absl::StrCat(folder_, "/lock")));
  ASSIGN_OR_RETURN(VolumeRecord volume, GetVolume(id));
  if (volume.copy.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("volume ", id, " has its bytes"));
  }
  if (fails || !SourceBytes(volume.source).ok()) {
    volume.copy = kCopyFailed;
  } else {
    volume.copy.clear();
    const std::string partial = absl::StrCat(volumes_folder_, "/", kPartial, "/", volume.id);
    RETURN_IF_ERROR(FillVolume(volume, partial));
    RETURN_IF_ERROR(RenameDurably(partial, VolumePath(volume.id)));
  }
  RETURN_IF_ERROR(WriteRecord(folder_, volume));
  return volume;
}

absl::Status CheckCopied(const VolumeRecord& volume) {
  return volume.copy.empty() ? absl::OkStatus()
                             : absl::FailedPreconditionError(absl::StrCat(
                                   "volume request cloning data but has not finished copying "
                                   "data: ",
                                   volume.id));  // Longhorn's words (types/volumes.go).
}

absl::Status Store::FillVolume(const VolumeRecord& volume, const std::string& path) const {
  if (!volume.copy.empty()) {
    return CreateSparse(path, volume.size_bytes);
  }
  if (volume.source.empty()) {
    RETURN_IF_ERROR(CreateSparse(path, volume.size_bytes));
    return volume.mode == VolumeMode::kFilesystem ? MakeFilesystem(path) : absl::OkStatus();
  }
  if (!volume.source.snapshot_id.empty()) {
    RETURN_IF_ERROR(CopySparse(SnapshotPath(volume.source.snapshot_id), path));
  } else {
    RETURN_IF_ERROR(FlushLoops(VolumePath(volume.source.volume_id)));
    RETURN_IF_ERROR(CopySparse(VolumePath(volume.source.volume_id), path));
  }
  return ResizeFile(path, volume.size_bytes);
}

absl::StatusOr<int64_t> Store::SourceBytes(const ContentSource& source) const {
  if (absl::StartsWith(source.snapshot_id, kLonghornScheme)) {
    return LonghornSnapshotBytes(source.snapshot_id, SnapshotPath(source.snapshot_id));
  }
  if (!source.snapshot_id.empty()) {
    ASSIGN_OR_RETURN(const SnapshotRecord snapshot, GetSnapshot(source.snapshot_id));
    return snapshot.size_bytes;
  }
  if (!source.volume_id.empty()) {
    ASSIGN_OR_RETURN(const VolumeRecord volume, GetVolume(source.volume_id));
    return volume.size_bytes;
  }
  return 0;
}

absl::Status Store::Sweep() const {
  ASSIGN_OR_RETURN(const FileLock lock, FileLock::Take(absl::StrCat(folder_, "/lock")));
  if (OwnFilesystem()) {
    RETURN_IF_ERROR(ThawLeftover(volumes_folder_));  // With the lock: of no process that runs.
  }
  for (const char* part : {kVolumes, kPartial}) {
    RETURN_IF_ERROR(MakeFolder(absl::StrCat(volumes_folder_, "/", part)));
  }
  RETURN_IF_ERROR(SweepPartial(folder_));
  RETURN_IF_ERROR(SweepPartial(volumes_folder_));
  RETURN_IF_ERROR(SweepGroups());
  RETURN_IF_ERROR(SweepPart(volumes_folder_, kVolumes));
  return SweepPart(folder_, kSnapshots);
}

absl::Status Store::SweepPartial(const std::string& folder) const {
  const std::string partial = absl::StrCat(folder, "/", kPartial);
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(partial));
  for (const std::string& name : names) {
    RETURN_IF_ERROR(RemoveFile(absl::StrCat(partial, "/", name)));
  }
  return absl::OkStatus();
}

// Members without a group: the process died before it made the group, or while it deleted it.
absl::Status Store::SweepGroups() const {
  ASSIGN_OR_RETURN(const std::vector<std::string> ids, ListIds<SnapshotRecord>(folder_));
  for (const std::string& id : ids) {
    ASSIGN_OR_RETURN(const SnapshotRecord snapshot, ReadRecord<SnapshotRecord>(folder_, id));
    if (!IsWhole(folder_, snapshot)) {
      RETURN_IF_ERROR(RemoveSnapshot(id));
    }
  }
  return absl::OkStatus();
}

// Bytes without a record: the process died between the two.
absl::Status Store::SweepPart(const std::string& folder, const std::string& part) const {
  ASSIGN_OR_RETURN(const std::vector<std::string> ids, ListFolder(absl::StrCat(folder, "/", part)));
  for (const std::string& id : ids) {
    if (absl::IsNotFound(ReadFile(RecordPath(folder_, part, id)).status())) {
      RETURN_IF_ERROR(RemoveFile(absl::StrCat(folder, "/", part, "/", id)));
    }
  }
  return absl::OkStatus();
}

}  // namespace csidelta::csi_driver
