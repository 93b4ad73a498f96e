#pragma once

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/random.h"
#include "incremental/audit.h"
#include "incremental/tree_fetcher.h"
#include "incremental/volume_record.h"
#include "repository/index.h"
#include "repository/repository.h"
#include "repository/stored_packs.h"
#include "repository/tree_locator.h"

namespace csidelta::incremental {

// Looks whether the packs are stored of what a backup takes over from its parent unread: those of
// its trees, as far as the audit has met their places, and those of the sample of data packs that
// the parent's sidecar has. While these are few they are all compared with a listing; else some are
// looked for, drawn with `random`. Asks at most kHeldRequestsMax times, and does not load the
// index.
//
// Only when a pack is not there is the index loaded, every pack listed, and looked up what of the
// parent lies where: of a volume of up to kLeavesWalkedMax leaves all of it, of a larger one
// `relied_on`. DATA_LOSS names a blob that no stored pack holds. Else the answer is the sample to
// go on with. Other errors are those of the store.
absl::StatusOr<repository::PackSample> ProveHeld(const CallContext& ctx,
                                                 repository::Repository& repository,
                                                 const VolumeRecord& parent, TreeFetcher& fetcher,
                                                 const ReliedOn& relied_on, Random& random);

// For a parent whose repository a check found damaged: looks up in `index` that each tree and chunk
// of the volume lies in a pack that is not in `unusable`. Reads all of the parent's trees.
// DATA_LOSS, or NOT_FOUND, names what does not; other errors are those of the store.
absl::Status ProveWhole(const CallContext& ctx, const repository::BlobIndex& index,
                        const VolumeRecord& parent, TreeFetcher& fetcher,
                        const absl::flat_hash_set<repository::PackId>& unusable,
                        const repository::DistrustedPacks& distrusted);

inline constexpr int64_t kHeldRequestsMax = 14;
inline constexpr int64_t kLeavesWalkedMax = 4096;

}  // namespace csidelta::incremental
