#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "repository/blob.h"
#include "repository/tree_locator.h"

namespace csidelta::incremental {

class TreePositions;

// A blob to fetch, and where it lies.
struct WantedBlob {
  repository::BlobHandle handle;
  repository::BlobLocation location = {};
  int64_t tag = 0;  // the caller's
};

// Blobs of one pack that are fetched by one request, gaps included.
struct PackRange {
  repository::PackId pack;
  int64_t offset_bytes = 0;
  int64_t length_bytes = 0;
  std::vector<WantedBlob> parts = {};  // ascending by offset
};

inline constexpr int64_t kRangeGapBytesMax = int64_t{1} << 20;

// Groups blobs by pack and joins those that lie closer than kRangeGapBytesMax, up to
// `range_bytes_max` per range; a larger blob is a range of its own. Pure.
std::vector<PackRange> CoalesceRanges(std::vector<WantedBlob> wanted, int64_t range_bytes_max);

// The envelope of one part in the bytes of its range.
absl::string_view PartOf(const PackRange& range, const WantedBlob& part,
                         absl::string_view range_bytes);

// A tree, and where in the volume it stands.
struct PlacedTree {
  repository::BlobId id;
  repository::TreePosition position;
};

// The texts of `trees`, in their order, loaded in few requests side by side: where the locator
// says, or for those it does not know where the index says; what does not prove itself there, from
// any copy. NOT_FOUND and DATA_LOSS name the tree. Thread-safe.
absl::StatusOr<std::vector<std::string>> LoadTrees(const CallContext& ctx, TreePositions& places,
                                                   absl::Span<const PlacedTree> trees);

}  // namespace csidelta::incremental
