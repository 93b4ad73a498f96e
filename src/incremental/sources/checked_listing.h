#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "base/json.h"
#include "incremental/sources/changed_block_source.h"

namespace csidelta::incremental {

// What one listing showed of who lists.
struct ListingStats {
  int64_t extents = 0;                           // those that touch are often listed as one
  int64_t grain_bytes = 0;                       // divides every place and length; 0: not known
  absl::Duration waited = absl::ZeroDuration();  // for the source, without what its sink took

  friend bool operator==(const ListingStats&, const ListingStats&) = default;
};

// Where volume.json keeps it, as {"extents":3,"grain_bytes":4096,"waited_ms":12}.
inline constexpr char kListingMember[] = "listing";
Json ToJson(const ListingStats& info);
// What is not there, or malformed, is 0.
ListingStats ListingStatsOf(const Json& json);

// Lists as `source` does, and holds it to its contract: the first extent that is empty, negative,
// outside of the volume, or not behind the one before ends the listing with FAILED_PRECONDITION
// naming the extent and the source. The caller then trusts nothing of that source and scans. As
// thread-safe as the source. `stats`, which may be null, are those of the listing as far as it
// came.
absl::Status ListChecked(const CallContext& ctx, ChangedBlockSource& source,
                         const DiffRequest& request, ExtentSink sink,
                         ListingStats* stats = nullptr);

}  // namespace csidelta::incremental
