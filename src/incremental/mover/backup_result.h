#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/json.h"
#include "incremental/mover/full_reason.h"
#include "repository/blob.h"

namespace csidelta::incremental {

inline constexpr int kResultSchemaVersion = 1;

// What a transfer has moved, and what is known to be left. A value.
struct TransferProgress {
  absl::string_view stage = "";  // "transfer", "restore"; of an upload also "audit", "rescan",
                                 // "uploads": all is read and not all is stored, "commit"
  int64_t done_bytes = 0;        // stored in the repository, as put, or written to the target
  int64_t total_bytes = 0;       // these, and what is left to move
  bool is_at_most = false;       // what is still to be read may turn out not to need moving
  int64_t resumed_bytes = 0;     // in neither: of the volume, that an earlier run has stored
  int64_t sampled_bytes = 0;     // of an audit
  int64_t to_sample_bytes = 0;   // of an audit, in all
};

// What a repository weighs.
struct RepositorySize {
  int64_t pack_bytes = 0;
  int64_t snapshots = 0;
};

// What the audit read again of one kind of claim.
struct AuditKindResult {
  std::string kind;  // "unchanged", "unlisted", "zeroed", "resumed", "reread"
  int64_t candidates = 0;
  int64_t chunks = 0;
  int64_t leaves = 0;
  int64_t mismatches = 0;  // seen; the audit ends at the first
  // The probability that one lie in a hundred is met, scattered and in whole leaves.
  double detects_scattered = 0;
  double detects_clustered = 0;
};

// Numbers that the object store's meter knows. Differences count, not the values.
struct StoreNumbers {
  int64_t requests = 0;
  int64_t writes = 0;
  int64_t retries = 0;
  int64_t put_bytes = 0;

  StoreNumbers operator-(const StoreNumbers& before) const {
    return {requests - before.requests, writes - before.writes, retries - before.retries,
            put_bytes - before.put_bytes};
  }
};

// What a backup did. The program adds nothing to it but its exit code, and the repository's size.
struct BackupResult {
  repository::Id snapshot;
  repository::BlobId image_tree;
  std::string mode_asked;  // "full" or "incremental"
  std::string mode_done;
  std::optional<WhyFull> why;  // absent for an increment
  std::string base;            // the parent's id, or ""
  std::string source;          // who listed the extents that counted
  std::string engine;          // of the device
  bool audit_mismatch = false;
  bool list_refused = false;  // it contradicts itself or the volume, or is of another base
  bool unchanged = false;     // the volume is as the snapshot `base` has it
  bool skipped = false;       // so no snapshot was made, and `snapshot` is that one
  bool dry_run = false;       // nothing was read or stored; `read_bytes` would have been

  int64_t logical_bytes = 0;
  int64_t allocated_bytes = 0;  // not known to be zero
  int64_t changed_bytes = 0;    // listed extents rounded out to chunks
  int64_t unknown_bytes = 0;    // of these, listed as "cannot tell"
  int64_t read_bytes = 0;       // of the source, without the audit's
  int64_t audit_bytes = 0;
  int64_t resumed_bytes = 0;  // listed and not read: an earlier run had, of an immutable source
  int64_t new_bytes = 0;      // plaintext of blobs written
  int64_t stored_bytes = 0;   // every byte put, metadata included
  int64_t chunk_bytes = 0;
  int64_t data_blobs = 0;
  int64_t tree_blobs = 0;
  int64_t leaves_touched = 0;
  int64_t level1_touched = 0;
  int64_t objects = 0;  // packs and index files
  StoreNumbers store;   // in all
  int64_t audit_requests = 0;
  std::map<std::string, int64_t> duration_ms;  // per stage, and "total"
  int64_t peak_memory_bytes = 0;
  int64_t scratch_bytes = 0;

  // What the byte budget came to.
  int64_t memory_budget_bytes = 0;
  int64_t pack_bytes = 0;
  int uploads_in_flight = 0;
  int workers = 0;
  int open_packs = 0;

  uint64_t audit_seed = 0;
  std::vector<AuditKindResult> audit;
  std::vector<std::string> warnings;  // the backup is good; this could not be done beside it

  std::optional<RepositorySize> repository;  // where it was measured
};

Json ToJson(const BackupResult& result);

// Whether `changed_bytes` of a backup of this mode and source says what changed since its parent:
// a full backup, image-extents and full-scan list what is allocated, or everything. Pure.
bool ListsChanges(absl::string_view mode_done, absl::string_view source);

// The most memory that this process ever had resident, by the kernel's count; 0 where it does not
// say.
int64_t PeakMemoryBytes();

}  // namespace csidelta::incremental
