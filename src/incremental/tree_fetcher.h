#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "repository/blob.h"
#include "repository/repository.h"
#include "repository/tree_locator.h"

namespace csidelta::incremental {

// Blobs of one pack that are fetched by one request, gaps included.
struct PackRange {
  struct Part {
    repository::BlobHandle handle;
    repository::BlobSpan span;
    int64_t tag = 0;  // the caller's
  };

  repository::PackId pack;
  int64_t offset_bytes = 0;
  int64_t length_bytes = 0;
  std::vector<Part> parts = {};  // ascending by offset
};

// A blob to fetch, and where it lies.
struct WantedBlob {
  repository::BlobHandle handle;
  repository::BlobLocation location = {};
  int64_t tag = 0;
};

inline constexpr int64_t kRangeGapBytesMax = int64_t{1} << 20;

// Groups blobs by pack and joins those that lie closer than kRangeGapBytesMax, up to
// `range_bytes_max` per range; a larger blob is a range of its own. Pure.
std::vector<PackRange> CoalesceRanges(std::vector<WantedBlob> wanted, int64_t range_bytes_max);

// The envelope of one part in the bytes of its range.
absl::string_view PartOf(const PackRange& range, const PackRange::Part& part,
                         absl::string_view range_bytes);

// Loads many trees at a time: where the locator says, in few requests side by side; what it does
// not know, or what does not prove itself there, through the index. Borrows both.
// Thread-compatible.
class TreeFetcher {
 public:
  TreeFetcher(repository::Repository& repository, const repository::TreeLocator& locator)
      : repository_(repository), locator_(locator) {}

  // The texts of `ids`, in their order. NOT_FOUND and DATA_LOSS name the tree.
  absl::StatusOr<std::vector<std::string>> Load(const CallContext& ctx,
                                                absl::Span<const repository::BlobId> ids);

 private:
  repository::Repository& repository_;
  const repository::TreeLocator& locator_;
};

}  // namespace csidelta::incremental
