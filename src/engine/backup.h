#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "engine/cluster_snapshot.h"
#include "engine/session.h"
#include "incremental/mover/backup_result.h"
#include "objects/volume_job.h"
#include "repository/blob_writer.h"
#include "repository/stored_packs.h"

namespace csidelta::engine {

// What is to be backed up, and how.
struct BackupJob {
  std::string device;                 // or an image file
  std::string extents = {};           // a file that lists what changed; "-": standard input
  ClusterSnapshotQuery cluster = {};  // asked where it names a VolumeSnapshot
  std::string parent = {};  // the beginning of its id; "": the newest of this host and path
  // The uid of the PVC, "" where there is none. A parent of another PVC is never compared by a
  // list.
  std::string pvc_uid = {};
  // The PVC was filled from this one, of a volume of the same host and path; "": it was not. Then a
  // parent that names no PVC is of another one, too.
  std::string restored_snapshot = {};
  std::string why_no_parent = {};  // where the caller knows; "" else
  bool reads_all = false;          // whatever a list says
  bool is_requested_full = false;  // the same, with a reason of its own
  bool new_chain = false;          // the chunk size may differ from the parent's
  // The device is not written to: what a run read that did not finish is not read again.
  bool immutable = false;
  std::string immutable_id = {};   // the name of its content; "": by what the system says of it
  bool measure = false;            // the size of the repository, too
  bool skip_if_unchanged = false;  // makes no snapshot of a volume that is as the parent has it
  bool dry_run = false;            // only finds out what would be read; writes nothing
  objects::OnFallback on_fallback = objects::OnFallback::kWarn;
  // A check found damage in the repository: incremental::UploadOptions::damage. Nothing: what
  // repository::ReadDamaged() says.
  std::optional<repository::DistrustedPacks> damage = {};
  int64_t chunk_bytes = 0;  // 0: the parent's, or by the volume's size
  int compression_level = repository::kDataCompressionLevel;
  int64_t cores = 0;       // 0: those that cgroup and CPU affinity allow
  int64_t pack_bytes = 0;  // 0: as is good for the place

  // What the repository's snapshot says of itself.
  std::vector<std::string> tags = {};
  std::string host = {};                // "": this machine
  std::string path = {};                // absolute; "": that of `device`
  std::optional<absl::Time> time = {};  // nothing: now
};

// Backs up a device into the session's repository, which it opens. One snapshot is made, as the
// last step; without it nothing is lost but time: the next run finds what is stored. Errors beside
// those of Session::Open(), incremental::UploadBlocks() and ClusterSnapshot:
//   INVALID_ARGUMENT     the job contradicts itself
//   FAILED_PRECONDITION  the device was made of a VolumeSnapshot, and ends before its file system
//   CANCELLED            `ctx` was stopped
absl::StatusOr<incremental::BackupResult> RunBackup(const CallContext& ctx, Session& session,
                                                    const BackupJob& job,
                                                    const ByteProgress& progress);

}  // namespace csidelta::engine
