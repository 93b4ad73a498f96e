#include "tests/support/csi_driver/store.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/crypto.h"
#include "base/status_macros.h"
#include "tests/support/csi_driver/files.h"
#include "tests/support/csi_driver/filesystem.h"
#include "tests/support/csi_driver/loop_device.h"

namespace csidelta::csi_driver {
namespace {

constexpr char kVolumes[] = "volumes";
constexpr char kSnapshots[] = "snapshots";
constexpr char kKept[] = "kept";
constexpr char kPartial[] = "partial";
constexpr char kVolumePrefix[] = "vol-";
constexpr char kSnapshotPrefix[] = "snap-";
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
absl::string_view Part(const VolumeRecord&) { return kVolumes; }
absl::string_view Part(const SnapshotRecord&) { return kSnapshots; }

Json ToJson(const VolumeRecord& volume) {
  return {{"id", volume.id},
          {"name", volume.name},
          {"size_bytes", volume.size_bytes},
          {"mode", volume.mode == VolumeMode::kBlock ? "block" : "filesystem"},
          {"source_snapshot", volume.source.snapshot_id},
          {"source_volume", volume.source.volume_id}};
}

void FromJson(const Json& json, VolumeRecord& volume) {
  volume.id = GetString(json, {"id"});
  volume.name = GetString(json, {"name"});
  volume.size_bytes = GetInt(json, {"size_bytes"});
  volume.mode = GetString(json, {"mode"}) == "block" ? VolumeMode::kBlock : VolumeMode::kFilesystem;
  volume.source.snapshot_id = GetString(json, {"source_snapshot"});
  volume.source.volume_id = GetString(json, {"source_volume"});
}

Json ToJson(const SnapshotRecord& snapshot) {
  return {{"id", snapshot.id},
          {"name", snapshot.name},
          {"volume", snapshot.volume_id},
          {"size_bytes", snapshot.size_bytes},
          {"created_at_ns", absl::ToUnixNanos(snapshot.created_at)}};
}

void FromJson(const Json& json, SnapshotRecord& snapshot) {
  snapshot.id = GetString(json, {"id"});
  snapshot.name = GetString(json, {"name"});
  snapshot.volume_id = GetString(json, {"volume"});
  snapshot.size_bytes = GetInt(json, {"size_bytes"});
  snapshot.created_at = absl::FromUnixNanos(GetInt(json, {"created_at_ns"}));
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

bool Satisfies(const VolumeRecord& volume, const VolumeSpec& spec) {
  return volume.mode == spec.mode && volume.source == spec.source &&
         volume.size_bytes >= spec.size.required_bytes &&
         (spec.size.limit_bytes == 0 || volume.size_bytes <= spec.size.limit_bytes);
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
                                                   Random& random) {
  if (!absl::StartsWith(folder, "/")) {
    return absl::InvalidArgumentError(absl::StrCat("state folder is no absolute path: ", folder));
  }
  RETURN_IF_ERROR(MakeFolder(folder));
  // Loop devices know their files by the path without links.
  char* const resolved = realpath(folder.c_str(), nullptr);
  if (resolved == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("resolve ", folder));
  }
  std::unique_ptr<Store> store(new Store(resolved, clock, random));
  free(resolved);
  for (const char* part : {kVolumes, kSnapshots, kKept, kPartial, "records/volumes",
                           "records/snapshots", "records/kept"}) {
    RETURN_IF_ERROR(MakeFolder(absl::StrCat(store->folder_, "/", part)));
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
  const SnapshotRecord snapshot{.id = NewId(NamePrefix(kSnapshotPrefix, name)),
                                .name = name,
                                .volume_id = volume_id,
                                .size_bytes = volume.size_bytes,
                                .created_at = clock_.Now()};
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
  return ReadRecord<SnapshotRecord>(folder_, kSnapshots, id);
}

absl::StatusOr<ChangeData> Store::ChangeDataOf(const std::string& id) const {
  for (const char* part : {kSnapshots, kKept}) {
    absl::StatusOr<SnapshotRecord> snapshot = ReadRecord<SnapshotRecord>(folder_, part, id);
    if (!absl::IsNotFound(snapshot.status())) {
      RETURN_IF_ERROR(snapshot.status());
      return ChangeData{*std::move(snapshot), Path(part, id)};
    }
  }
  return absl::NotFoundError(absl::StrCat("no object ", id));
}

absl::StatusOr<Page<SnapshotRecord>> Store::ListSnapshots(const SnapshotFilter& filter,
                                                          const PageRequest& page) const {
  return ListPage<SnapshotRecord>(folder_, page, [&filter](const SnapshotRecord& snapshot) {
    return (filter.id.empty() || filter.id == snapshot.id) &&
           (filter.volume_id.empty() || filter.volume_id == snapshot.volume_id);
  });
}

absl::StatusOr<int64_t> Store::AvailableBytes() const {
  struct statvfs stat;
  if (statvfs(folder_.c_str(), &stat) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("statvfs ", folder_));
  }
  return static_cast<int64_t>(stat.f_bavail * stat.f_frsize);
}

std::string Store::VolumePath(absl::string_view id) const { return Path(kVolumes, id); }

std::string Store::SnapshotPath(absl::string_view id) const { return Path(kSnapshots, id); }

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
                      .source = spec.source};
  const std::string partial = Path(kPartial, volume.id);
  RETURN_IF_ERROR(FillVolume(volume, partial));
  RETURN_IF_ERROR(RenameDurably(partial, VolumePath(volume.id)));
  RETURN_IF_ERROR(WriteRecord(folder_, volume));
  return volume;
}

absl::Status Store::FillVolume(const VolumeRecord& volume, const std::string& path) const {
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
  ASSIGN_OR_RETURN(const std::vector<std::string> partial,
                   ListFolder(absl::StrCat(folder_, "/", kPartial)));
  for (const std::string& name : partial) {
    RETURN_IF_ERROR(RemoveFile(Path(kPartial, name)));
  }
  RETURN_IF_ERROR(SweepPart(kVolumes));
  return SweepPart(kSnapshots);
}

// Bytes without a record: the process died between the two.
absl::Status Store::SweepPart(const std::string& part) const {
  ASSIGN_OR_RETURN(const std::vector<std::string> ids,
                   ListFolder(absl::StrCat(folder_, "/", part)));
  for (const std::string& id : ids) {
    if (absl::IsNotFound(ReadFile(RecordPath(folder_, part, id)).status())) {
      RETURN_IF_ERROR(RemoveFile(Path(part, id)));
    }
  }
  return absl::OkStatus();
}

}  // namespace csidelta::csi_driver
