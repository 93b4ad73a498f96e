#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "base/random.h"
#include "incremental/mover/audit_plan.h"
#include "incremental/mover/backup_result.h"
#include "incremental/mover/block_device.h"
#include "incremental/mover/chunk_journal.h"
#include "incremental/mover/memory_plan.h"
#include "incremental/mover/volume_record.h"
#include "incremental/sources/changed_block_source.h"
#include "repository/format.h"
#include "repository/index.h"
#include "repository/lock.h"
#include "repository/repo_snapshot.h"
#include "repository/repository.h"
#include "repository/snapshot_proof.h"
#include "repository/stored_packs.h"
#include "repository/volume_layout.h"

namespace csidelta::incremental {

// Tags of a repository snapshot that its writer sets, by the beginnings of their names
// (docs/repository-format.md); no other client may.
inline constexpr char kModeTag[] = "mode=";
inline constexpr char kKindTag[] = "kind=";
inline constexpr char kLayoutTag[] = "layout=";
inline constexpr std::array<absl::string_view, 5> kReservedTags = {kModeTag, kKindTag, kLayoutTag,
                                                                   "vol-uid=", "backup="};

// 1 % at least, whatever the number of chunks is.
inline constexpr int64_t kRestoredSampleOneIn = 50;

struct UploadOptions {
  // The backup to build on. Its chunk size is kept.
  std::optional<repository::StoredSnapshot> parent;
  // Not OK: which backup to build on is not known, since one does not read that may be it. Then
  // there is no parent, and a list of changes is of no use.
  absl::Status parent_damage;
  // Set: a check found damage in the repository. Then these packs count as if they were gone, and
  // an increment builds on its parent only if the index proves that it needs none of them.
  std::optional<repository::DistrustedPacks> damage;
  // What OpenVolumeRecord() says of the parent, where the caller has asked already.
  std::optional<absl::StatusOr<std::shared_ptr<VolumeRecord>>> parent_record;
  bool incremental_asked = true;  // for mode_asked; false also reads everything
  FullReason full_reason = FullReason::kForcedByUser;  // where it is false
  std::string full_detail = {};    // of that reason, or of that there is no parent
  int64_t chunk_bytes = 0;         // 0: the parent's, else the rule of the volume's size
  bool new_chain = false;          // a chunk size other than the parent's makes a full
  bool fail_on_fallback = false;   // FAILED_PRECONDITION instead of a full that was not asked for
  bool skip_if_unchanged = false;  // no snapshot of a volume that is as the parent has it
  bool dry_run = false;            // only finds out what would be read; writes nothing
  std::string base_handle;         // what the source knows the parent by; "" : the parent's id
  bool base_known = true;          // false: what changed since the parent is unknown
  std::string target_handle;

  std::string image;  // the file that the device is: its holes need not be read; "": a device

  // What the audit draws of a large volume. Only tests have a reason to make it another.
  int64_t audit_one_in = kAuditOneIn;
  int64_t audit_first_chunks = kAuditFirstChunks;
  MemoryRequest memory = {};         // chunk_bytes is filled in; cores 0: those it may use
  bool packs_follow_volume = false;  // VolumePackBytes() before more uploads
  int compression_level = repository::kDataCompressionLevel;
  const repository::BlobIndex* known = nullptr;  // blobs that need not be written again

  // Not "": the source does not change, and this names it and its state. What a run with the same
  // name has read and `known` has is not read again.
  std::string immutable_identity;
  JournalSizes journal;
  repository::ProofLimits proof_limits;

  // The snapshot's record; parent, tree, summary and the tags of csi-delta are filled in.
  repository::RepoSnapshot snapshot;
  repository::VolumeManifest manifest;  // what the caller knows of the volume

  // Called before what cannot be taken back: whether our lock still protects what we reuse.
  std::function<absl::Status(const CallContext& ctx)> fence;
  repository::LockFence fence_if_old;  // the same, where a look of late is good enough
  std::function<StoreNumbers()> store_numbers;
  // On any thread, one call at a time; what it is told never goes back. It must not block for long.
  std::function<void(const TransferProgress&)> on_progress;
};

// Backs one volume up into a repository: reads what a source lists, writes what is new, audits what
// was not read, and commits a snapshot.
//
//   open parent --> transfer --> audit --(mismatch)--> rescan --> commit
//
// What a full reads counts as stored when the index lists it and its pack is there: so it loads the
// index, where there is a parent. An increment takes the parent's trees and chunks as they are.
// Before either is committed, ProveNeeds() shows that what it relies on is still held. Where a
// check found damage, both rely on no pack that it named.
//
// With the reason kRestored the parent is of another volume, and proven by content alone: all is
// read and compared, and the audit reads one chunk in kRestoredSampleOneIn again.
//
// The caller holds a lock. Nothing is visible before the commit; what a run that failed has written
// is found by later ones. Errors, beside those of device, source and repository:
//   FAILED_PRECONDITION  fail_on_fallback, or another chunk size without new_chain
//   INVALID_ARGUMENT     the volume is empty, or the budget too small
//   DATA_LOSS            a full, or packs are distrusted, and the index does not read; a pack that
//                        was put is not there
absl::StatusOr<BackupResult> UploadBlocks(const CallContext& ctx,
                                          repository::Repository& repository, BlockDevice& device,
                                          ChangedBlockSource& source, Random& random,
                                          const UploadOptions& options);

// A status of UploadBlocks() that stands for fail_on_fallback: exit code 21.
bool IsFallbackRefused(const absl::Status& status);

}  // namespace csidelta::incremental
