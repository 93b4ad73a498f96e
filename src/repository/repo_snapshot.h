#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/json.h"
#include "repository/blob.h"

namespace csidelta::repository {

struct SnapshotSummary {
  absl::Time backup_start;
  absl::Time backup_end;
  uint64_t files_new = 0;
  uint64_t files_changed = 0;
  uint64_t files_unmodified = 0;
  uint64_t dirs_new = 0;
  uint64_t dirs_changed = 0;
  uint64_t dirs_unmodified = 0;
  int64_t data_blobs = 0;
  int64_t tree_blobs = 0;
  uint64_t data_added = 0;         // Plaintext bytes.
  uint64_t data_added_packed = 0;  // Stored bytes.
  uint64_t total_files_processed = 0;
  uint64_t total_bytes_processed = 0;
};

// What a backup of a volume did, as its snapshot's file has it under "csi_delta": a list of
// snapshots needs no volume.json. Snapshots of earlier versions and of restic lack it.
struct VolumeSummary {
  std::string mode;                      // "full" or "incremental"
  std::string reason;                    // why it is a full one, by name; "" for an incremental one
  std::optional<int64_t> changed_bytes;  // since the parent; none where nothing listed that
};

// restic's record of one backup.
struct RepoSnapshot {
  absl::Time time;
  std::optional<Id> parent;
  BlobId tree;
  std::vector<std::string> paths;
  std::string hostname;
  std::string username;
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::vector<std::string> excludes;
  std::vector<std::string> tags;
  std::optional<Id> original;
  std::string program_version;
  std::optional<SnapshotSummary> summary;
  std::optional<VolumeSummary> volume;
  Json unknown = Json::object();  // Members that we do not know: kept when saved again.
};

// A snapshot with the id that names its file.
struct StoredSnapshot {
  Id id;
  RepoSnapshot snapshot;
};

// The newest of those in `all` that match; null when none exists. One that another builds on is
// not it, whatever the clock said then, and one that is dated in the future only where all are.
const StoredSnapshot* NewestOf(absl::Span<const StoredSnapshot> all,
                               absl::FunctionRef<bool(const RepoSnapshot&)> matches,
                               absl::Time now);

// The tag that names the Backup of Velero: "velero-backup=<Velero's namespace>/<name>".
inline constexpr char kBackupTag[] = "velero-backup";
// The value of the tag "<name>=<value>", or "".
std::string TagValue(const RepoSnapshot& snapshot, absl::string_view name);
// Whether a snapshot says that it holds a volume in our layout.
inline bool IsVolume(const RepoSnapshot& snapshot) { return TagValue(snapshot, "mode") == "block"; }
// The trees that snapshots begin with.
std::vector<BlobId> RootsOf(absl::Span<const StoredSnapshot> snapshots);

std::string EncodeSnapshot(const RepoSnapshot& snapshot);

// INVALID_ARGUMENT when malformed, or without time or tree. `summary`, `volume` and
// `program_version` may be missing always.
absl::StatusOr<RepoSnapshot> DecodeSnapshot(absl::string_view json);

}  // namespace csidelta::repository
