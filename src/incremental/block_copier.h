#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/extent.h"
#include "base/json.h"
#include "base/random.h"
#include "incremental/backup_result.h"
#include "incremental/block_device.h"
#include "incremental/changed_block_source.h"

namespace csidelta::incremental {

struct CopyOptions {
  // Where source and target may differ, as GatherListed() returns it; nothing: anywhere.
  std::optional<std::vector<Extent>> listed = {};
  // What the mark of an unfinished copy says, beside that it is one.
  std::string mark_text = {};
  std::function<void(const TransferProgress&)> on_progress = nullptr;  // on the caller's thread
};

struct CopyResult {
  std::string engine = {};       // of the target
  std::string file_system = {};  // that the volume holds; "" for none that we know
  int64_t logical_bytes = 0;     // of the source
  int64_t listed_bytes = 0;      // by the list, in whole blocks; 0 without one
  int64_t compared_bytes = 0;    // of the source with the target
  int64_t audit_bytes = 0;       // compared though not listed, beside these
  int64_t written_bytes = 0;     // that differed
  int64_t zero_bytes = 0;        // that differed, and were made zero
  int64_t kept_bytes = 0;        // all else
  bool used_list = false;
  bool audit_mismatch = false;  // the list omits what differs: everything was compared
  bool was_unfinished = false;  // an earlier run did not finish: everything was compared
  std::map<std::string, int64_t> duration_ms = {};
  int64_t peak_memory_bytes = 0;
};

Json ToJson(const CopyResult& result);

// What `source` lists between `request`'s base and target, in whole blocks of kDifferenceBytes, as
// a normal list inside of the first `volume_bytes`. RESOURCE_EXHAUSTED where there are too many
// extents; else errors of the source. Nothing of what it returns is trusted: see CopyBlocks().
absl::StatusOr<std::vector<Extent>> GatherListed(const CallContext& ctx, ChangedBlockSource& source,
                                                 const DiffRequest& request, int64_t volume_bytes);

// Makes the target hold what the source holds, by writing only what differs:
//
//   list --> a sample outside of it is compared --all equal--> what is listed is compared --+
//     | none, or the        | one differs                                                    |
//     | target is marked    v                                                                v
//     +--------------> everything is compared --------------------> blocks that differ are written
//
// Blocks are of kDifferenceBytes, so a list may be as coarse as it likes: it costs reading. Before
// the first write the target's beginning becomes a mark that says that the copy is not complete,
// and its end zeros (restore_mark.h); the volume's own beginning is the last that is written. A
// copy that was interrupted leaves a volume that is partly old and says so, and the next run writes
// the rest. That one compares everything: what the list was made of may have been another state of
// the target. A target that differs nowhere is not written to at all.
//
// What the target cannot read is written. Bytes of a larger target behind the source are left as
// they are. Durable when it returns OK. Memory is 16 MiB, whatever the volume, beside the list and
// a bit for each 256 KiB. Errors, beside those of the devices:
//   OUT_OF_RANGE  the target is smaller than the source; nothing was written
absl::StatusOr<CopyResult> CopyBlocks(const CallContext& ctx, BlockDevice& source,
                                      BlockDevice& target, Random& random,
                                      const CopyOptions& options);

}  // namespace csidelta::incremental
