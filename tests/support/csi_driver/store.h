#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/random.h"

namespace csidelta::csi_driver {

inline constexpr int64_t kVolumeBytesDefault = int64_t{1} << 30;
inline constexpr int64_t kVolumeBytesMax = int64_t{8} << 40;  // Sparse; ext4 takes 16 TiB files.
inline constexpr int64_t kVolumeBytesMin = int64_t{1} << 20;  // mkfs.ext4 wants some room.
inline constexpr int64_t kVolumeBytesAlign = 4096;

enum class VolumeMode { kBlock, kFilesystem };

// Where a new volume's bytes come from; both empty: zeros, or an empty file system.
struct ContentSource {
  std::string snapshot_id;
  std::string volume_id;

  bool empty() const { return snapshot_id.empty() && volume_id.empty(); }
  bool operator==(const ContentSource&) const = default;
};

// What is wanted of a volume's size. 0: no such bound.
struct SizeRange {
  int64_t required_bytes = 0;
  int64_t limit_bytes = 0;
};

struct VolumeSpec {
  std::string name;
  SizeRange size;
  VolumeMode mode = VolumeMode::kBlock;
  ContentSource source;
  bool is_copied_late = false;  // With a source: it has zeros until EndCopy().
};

// How far the copy of a volume's source is.
inline constexpr char kCopying[] = "copying";
inline constexpr char kCopyFailed[] = "failed";

struct VolumeRecord {
  std::string id;
  std::string name;
  int64_t size_bytes = 0;
  VolumeMode mode = VolumeMode::kBlock;
  ContentSource source;
  std::string copy = {};  // One of those, or empty: it has its bytes.
};

// FAILED_PRECONDITION unless the volume has its bytes.
absl::Status CheckCopied(const VolumeRecord& volume);

struct SnapshotRecord {
  std::string id;
  std::string name;
  std::string volume_id;
  int64_t size_bytes = 0;
  absl::Time created_at;
  std::string group_id;  // Empty: it was taken alone.
};

struct GroupMember {
  std::string volume_id;
  std::string snapshot_id;
};

// Volume snapshots that were taken together.
struct GroupRecord {
  std::string id;
  std::string name;
  std::vector<GroupMember> members;  // As they were asked for; some may be deleted since.
  absl::Time created_at;
  std::optional<absl::Duration> frozen;  // How long writes were blocked; none: it is no instant.
};

// A group with those of its volume snapshots that are there.
struct Group {
  GroupRecord record;
  std::vector<SnapshotRecord> snapshots;
};

// The bytes of a volume snapshot, which may be deleted.
struct ChangeData {
  SnapshotRecord snapshot;
  std::string path;
};

// One page of a listing. `next_token` is empty on the last one.
template <typename Record>
struct Page {
  std::vector<Record> records;
  std::string next_token;
};

struct PageRequest {
  int32_t entries_max = 0;  // 0: all of them.
  std::string token;        // Empty: from the start.
};

// Empty members match everything.
struct SnapshotFilter {
  std::string id;
  std::string volume_id;
};

// Chooses a size inside `range`, at least `bytes_min`. OUT_OF_RANGE when none exists.
absl::StatusOr<int64_t> ChooseSize(const SizeRange& range, int64_t bytes_min);

// The driver's volumes and volume snapshots, in one folder:
//
//   volumes/<id>, snapshots/<id>            the bytes; plain, sparse files
//   kept/<id>                               bytes of deleted snapshots that can still be a base
//   records/{volumes,snapshots,groups,kept}/<id>.json   what exists; written last, removed first
//   partial/                                bytes on the way; swept by Open()
//   lock                                    held while anything changes
//
// The volumes, and their bytes on the way, may be in a folder of their own instead, which is a file
// system of its own.
//
// Nothing is remembered in memory: several processes may work on one folder, and a process that is
// killed leaves either a whole object or none; a group with all its members is one object. A new
// object of an old name gets another id.
//
// A volume may be written through its file or through loop devices while a volume snapshot of it is
// made; what was synced before is in it, and it is no instant: writes during the copy may be torn.
// A group of volumes in a file system of their own is one: they are copied while it is frozen.
//
// Thread-safe. Ids that were never given out are NOT_FOUND. The owner keeps `clock` and `random`
// alive.
class Store {
 public:
  // Makes the folder when none exists. INVALID_ARGUMENT unless `folder` is an absolute path.
  // With `volumes_folder`, volumes are there: FAILED_PRECONDITION unless CheckOwnFilesystem() likes
  // it; the freeze that a killed process left there ends.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& folder, const Clock& clock,
                                                     Random& random,
                                                     const std::string& volumes_folder = "");

  // The same name and the same wishes give the same volume. ALREADY_EXISTS when the wishes differ,
  // NOT_FOUND when the source is gone, OUT_OF_RANGE when the size cannot be.
  absl::StatusOr<VolumeRecord> CreateVolume(const VolumeSpec& spec);

  // Brings a volume its bytes; or, with `fails` or when its source is gone, shows that its copy has
  // failed, which is no error. FAILED_PRECONDITION for a volume that has its bytes. Until then such
  // a volume cannot be used, and nothing keeps its source from being deleted.
  absl::StatusOr<VolumeRecord> EndCopy(const std::string& id, bool fails = false);

  // FAILED_PRECONDITION while a loop device holds the volume. An unknown id is success.
  absl::Status DeleteVolume(const std::string& id);

  // Never shrinks. Loop devices see the new size at once; file systems are grown by the node.
  absl::StatusOr<VolumeRecord> ExpandVolume(const std::string& id, const SizeRange& size);

  absl::StatusOr<VolumeRecord> GetVolume(const std::string& id) const;

  // In the order of ids. ABORTED when the token is unknown.
  absl::StatusOr<Page<VolumeRecord>> ListVolumes(const PageRequest& page) const;

  // The same name and volume give the same snapshot; ALREADY_EXISTS for another volume.
  absl::StatusOr<SnapshotRecord> CreateSnapshot(const std::string& name,
                                                const std::string& volume_id);

  // An unknown id is success. With `keep_change_data`, ChangeDataOf() still finds it.
  absl::Status DeleteSnapshot(const std::string& id, bool keep_change_data = false);

  absl::StatusOr<SnapshotRecord> GetSnapshot(const std::string& id) const;

  // What later volume snapshots can be compared with: this one, or what was kept of it.
  absl::StatusOr<ChangeData> ChangeDataOf(const std::string& id) const;

  // In the order of ids. ABORTED when the token is unknown.
  absl::StatusOr<Page<SnapshotRecord>> ListSnapshots(const SnapshotFilter& filter,
                                                     const PageRequest& page) const;

  // Takes a volume snapshot of each volume. The same name and the same volumes, in whatever order,
  // give the same group. ALREADY_EXISTS for other volumes, NOT_FOUND when one is gone,
  // INVALID_ARGUMENT for none, or one that is named twice. After an error there is no group, and no
  // volume snapshot of it.
  absl::StatusOr<Group> CreateGroup(const std::string& name,
                                    const std::vector<std::string>& volume_ids);

  // Deletes the group and its volume snapshots; see DeleteSnapshot. An unknown id is success.
  // INVALID_ARGUMENT when a volume snapshot is named that is none of its members, or a member that
  // is there is not.
  absl::Status DeleteGroup(const std::string& id, const std::vector<std::string>& snapshot_ids,
                           bool keep_change_data = false);

  // NOT_FOUND for an unknown id; INVALID_ARGUMENT as DeleteGroup().
  absl::StatusOr<Group> GetGroup(const std::string& id,
                                 const std::vector<std::string>& snapshot_ids) const;

  // In the order of ids.
  absl::StatusOr<std::vector<Group>> ListGroups() const;

  // Bytes that the file system of the volumes still has room for.
  absl::StatusOr<int64_t> AvailableBytes() const;

  const Clock& clock() const { return clock_; }
  std::string VolumePath(absl::string_view id) const;
  std::string SnapshotPath(absl::string_view id) const;

 private:
  Store(std::string folder, std::string volumes_folder, const Clock& clock, Random& random)
      : folder_(std::move(folder)),
        volumes_folder_(std::move(volumes_folder)),
        clock_(clock),
        random_(random) {}

  std::string Path(absl::string_view part, absl::string_view id) const;
  std::string NewId(absl::string_view name_prefix) const;
  absl::StatusOr<VolumeRecord> MakeVolume(const VolumeSpec& spec, absl::string_view name_prefix);
  absl::Status FillVolume(const VolumeRecord& volume, const std::string& path) const;
  absl::StatusOr<int64_t> SourceBytes(const ContentSource& source) const;
  absl::Status KeepChangeData(const std::string& id) const;
  absl::Status RemoveSnapshot(const std::string& id) const;
  absl::StatusOr<Group> WithSnapshots(GroupRecord record) const;
  absl::StatusOr<Group> MakeGroup(const std::string& name,
                                  const std::vector<std::string>& volume_ids) const;
  absl::StatusOr<Group> PlanGroup(const std::string& name,
                                  const std::vector<std::string>& volume_ids) const;
  absl::Status CopyMembers(Group& group) const;
  absl::Status CommitGroup(const Group& group) const;
  bool OwnFilesystem() const { return volumes_folder_ != folder_; }
  absl::Status Sweep() const;
  absl::Status SweepPartial(const std::string& folder) const;
  absl::Status SweepGroups() const;
  absl::Status SweepPart(const std::string& folder, const std::string& part) const;

  const std::string folder_;
  const std::string volumes_folder_;  // The same, unless volumes have a file system of their own.
  const Clock& clock_;
  Random& random_;
};

}  // namespace csidelta::csi_driver
