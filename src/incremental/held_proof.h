#pragma once

#include "absl/status/status.h"
#include "base/call_context.h"
#include "incremental/tree_fetcher.h"
#include "incremental/volume_record.h"
#include "repository/repository.h"
#include "repository/snapshot_proof.h"
#include "repository/stored_packs.h"

namespace csidelta::incremental {

// Adds every tree and chunk of a volume to `blobs`, some chunks many times. Reads all of its trees,
// those below one level-1 tree at a time. REQUIRES a loaded index. An error names what cannot be
// read, or is DATA_LOSS as AddTree() has it.
absl::Status AddBlobsOf(const CallContext& ctx, const VolumeRecord& record, TreeFetcher& fetcher,
                        repository::NeededBlobs& blobs);

// For a parent whose repository a check found damaged: looks up in the index, which is loaded, that
// each tree and chunk of the volume lies in a pack that is not in `unusable`. DATA_LOSS, or
// NOT_FOUND, names what does not; other errors are those of the store.
absl::Status ProveWhole(const CallContext& ctx, const repository::Repository& repository,
                        const VolumeRecord& parent, TreeFetcher& fetcher,
                        const repository::PackBits& unusable,
                        const repository::DistrustedPacks& distrusted);

}  // namespace csidelta::incremental
