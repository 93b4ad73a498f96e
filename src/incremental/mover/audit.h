#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "base/call_context.h"
#include "incremental/mover/audit_plan.h"
#include "incremental/mover/backup_result.h"
#include "incremental/mover/block_device.h"
#include "incremental/mover/chunk_journal.h"
#include "incremental/mover/chunk_plan.h"
#include "incremental/mover/chunk_reader.h"
#include "incremental/mover/volume_record.h"

namespace csidelta::incremental {

struct AuditResult {
  std::vector<AuditKindResult> kinds;  // those that have candidates
  int64_t read_bytes = 0;
  bool mismatch = false;
  bool resumed_differs = false;  // it was a chunk of the journal's
  bool parent_failed = false;    // with an error: the parent's trees could not be read
};

struct AuditInput {
  repository::VolumeLayout layout;
  const ChunkLedger& ledger;
  const VolumeRecord* parent = nullptr;  // null: what was unlisted is said to be zero
  // Chunks that were taken from the journal of an earlier run, ascending, and that journal.
  absl::Span<const uint32_t> resumed = {};
  const ChunkJournal* journal = nullptr;
  absl::Span<const ChunkId> sample = {};  // chunks that were read, all of which are read again
  ChunkReaderOptions reader;
  uint64_t seed = 0;
  int64_t one_in = kAuditOneIn;
  // So many chunks are drawn singly, where kAuditFirstPercent of the volume are said to be zero; 0:
  // never, as for what a parent has.
  int64_t first_chunks = 0;
  std::function<void(int64_t chunks)> on_drawn = [](int64_t) {};  // how many will be read
  std::function<void()> on_chunk = [] {};  // one was read; called by several threads
};

// Reads again some of the chunks that a run did not read, and compares them with what was said of
// them: unchanged ones with the parent's ids, unlisted and zeroed ones with zeros, resumed ones
// with the journal's. Ends at the first that differs. `result.parent_failed` is set also when this
// fails. DATA_LOSS when a chunk of the sample is not what was read before: no list is to blame.
absl::Status RunAudit(const CallContext& ctx, BlockDevice& device, const AuditInput& input,
                      AuditResult& result);

}  // namespace csidelta::incremental
