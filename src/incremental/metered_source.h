#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "base/json.h"
#include "incremental/changed_block_source.h"

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

// Another source, watched: `facts` are those of the listing that runs, or ran last. Changes
// nothing. One listing at a time; borrows both.
class MeteredSource : public ChangedBlockSource {
 public:
  MeteredSource(ChangedBlockSource& inner, ListingStats& info) : inner_(inner), info_(info) {}

  absl::string_view name() const override { return inner_.name(); }
  bool lists_allocated() const override { return inner_.lists_allocated(); }
  bool compares() const override { return inner_.compares(); }
  bool lists_changes() const override { return inner_.lists_changes(); }
  int64_t memory_bytes() const override { return inner_.memory_bytes(); }

  absl::Status ListExtents(const CallContext& ctx, const DiffRequest& request,
                           ExtentSink sink) override;

 private:
  ChangedBlockSource& inner_;
  ListingStats& info_;
};

}  // namespace csidelta::incremental
